"""Canonical JSON: the bytes that hashes rest on (RFC 8785, without floats)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.codec import MAX_INT, NotCanonical, b64, canonical, json_text, parse_canonical, unb64
from devassist.core.errors import JournalCorrupt
from devassist.core.states import State

characters = st.characters(exclude_categories=("Cs",))
texts = st.text(characters, max_size=12) | st.sampled_from(["\U0001f600", "ﬁ", "\ue000", "\x7f", "\u2028", "€"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_bytes_and_value_say_the_same(value: Any) -> None:
    """Reading the bytes back gives the value, and its bytes are the same again."""
    data = canonical(value)
    assert parse_canonical(data) == value
    assert canonical(json.loads(data)) == data


@given(st.dictionaries(texts, values, max_size=8))
def test_the_order_of_insertion_does_not_matter(value: dict[str, Any]) -> None:
    """Equal objects have equal bytes."""
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@given(st.dictionaries(texts, st.none(), max_size=8))
def test_keys_are_ordered_by_utf_16_code_units(value: dict[str, None]) -> None:
    """Not by code points: U+1F600 is written as D83D DE00 and comes before U+FB01 (RFC 8785, section 3.2.3)."""
    keys = list(json.loads(canonical(value)))
    assert keys == sorted(value, key=lambda key: [*memoryview(key.encode("utf-16-be")).cast("B")])


def test_the_rfc_orders_keys_like_this() -> None:
    """The example of RFC 8785, section 3.2.3."""
    given_keys = {
        "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
        "\U0001f600": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis",
    }  # fmt: skip
    assert list(json.loads(canonical(given_keys)).values()) == [
        "Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign",
        "Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh",
    ]  # fmt: skip


def test_the_rfc_writes_strings_and_literals_like_this() -> None:
    """The string and literals of RFC 8785, section 3.2.2: shortest escapes, lower-case hex, nothing else escaped."""
    value = {"string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/", "literals": [None, True, False]}
    expected = '{"literals":[null,true,false],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    assert canonical(value) == expected.encode()


def test_control_characters_and_delete() -> None:
    """The five short escapes, \\u00xx for other controls, DEL and line separators as they are."""
    assert canonical("\b\t\n\f\r\x00\x1f\x7f\u2028/") == '"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f\u2028/"'.encode()


def test_numbers_are_integers_that_every_reader_holds() -> None:
    """±(2^53-1) is the widest."""
    assert canonical([0, -1, MAX_INT, -MAX_INT]) == b"[0,-1,9007199254740991,-9007199254740991]"


def test_a_string_enum_is_its_string() -> None:
    """Wherever it stands."""
    assert canonical([State.INIT, {"a": State.WAIT}]) == b'["INIT",{"a":"WAIT"}]'


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


REFUSED = {
    "float": (1.5, "float"),
    "whole float": ({"a": 1.0}, "/a"),
    "nan": ([float("nan")], "/0"),
    "infinity": ({"a": [float("inf")]}, "/a/0"),
    "wide": ({"a": MAX_INT + 1}, "2^53"),
    "wide negative": ([-MAX_INT - 1], "2^53"),
    "huge": (10**400, "2^53"),
    "bytes": ({"a": b"x"}, "bytes"),
    "set": ({1}, "set"),
    "integer key": ({1: 2}, "key 1"),
    "none key": ([{None: 2}], "/0: key None"),
    "lone surrogate": ({"a": "\ud83d"}, "surrogate"),
    "lone surrogate in a key": ({"\udc00": 1}, "surrogate"),
    "deep": (nested(200), "nested deeper"),
    "endless": (nested(100_000), "nested deeper"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_canonical_form_is_refused(name: str) -> None:
    """The refusal says where and what."""
    value, said = REFUSED[name]
    with pytest.raises(NotCanonical, match=said.replace("^", r"\^")):
        canonical(value)


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1,"a":2}', b'{"a": 1}', b'{"a":1,"a":1}', b'{"a":1.0}', b"-0", b"1e2", b"NaN", b'"\\u0041"', b'"\\/"',
        b'{"a":1}\n', b"[1", b"", b"\xef\xbb\xbf1", b"\xff", '"\u00e9"'.encode("latin-1"), "1".encode("utf-16"),
        b"9007199254740993", b'"\\ud83d"', b"[" * 100_000, b'{"\xef\xac\xb3":1,"\xf0\x9f\x98\x80":2}',
    ],
)  # fmt: skip
def test_other_bytes_are_not_canonical(data: bytes) -> None:
    """Another order, spelling, number or encoding of the same value is no canonical body, nor is what is no JSON."""
    with pytest.raises(JournalCorrupt):
        parse_canonical(data)


@given(st.binary(max_size=70))
def test_base64url_round_trips(data: bytes) -> None:
    """Without padding, in the URL alphabet."""
    text = b64(data)
    assert unb64(text) == data
    assert not set(text) & set("+/=")


@pytest.mark.parametrize("text", ["A", "AB=", "AB==", "A B", "AB+/", "AC", "é", "AAA\n"])
def test_only_the_exact_output_is_read_back(text: str) -> None:
    """One reference has one spelling."""
    with pytest.raises(JournalCorrupt):
        unb64(text)


def test_payload_texts_are_deterministic_json_of_any_number() -> None:
    """Sorted keys and floats; NaN is refused."""
    assert json_text({"b": 1.5, "a": ["é", None]}) == '{"a":["é",null],"b":1.5}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(float("nan"))
