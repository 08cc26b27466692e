"""Arguments: strict JSON untouched, repairs only where they lose nothing, and a fault for all else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.args import decode

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc'\"{}", max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc'\"{},:", max_size=4), JSON_VALUES, max_size=4)


@given(OBJECTS, st.booleans())
def test_strict_json_passes_untouched(value: dict[str, Any], ascii_only: bool) -> None:
    """Valid JSON is read as json reads it, and counts as unrepaired."""
    found = decode(json.dumps(value, ensure_ascii=ascii_only))
    assert found.args == value
    assert not found.repaired


@given(OBJECTS)
def test_python_literals(value: dict[str, Any]) -> None:
    """What Python writes for plain data is read back exactly, or refused for an escape that JSON does not know."""
    found = decode(repr(value))
    assert found.args == value or (found.args is None and "\\" in repr(value))


@given(OBJECTS)
def test_double_encoding(value: dict[str, Any]) -> None:
    """An object inside a JSON string is decoded once."""
    assert decode(json.dumps(json.dumps(value))).args == value


@given(OBJECTS, st.sampled_from(["```json\n%s\n```", "`%s`", "%s\nThat is all.", " \n%s", "%s}", "~~~\n%s\n~~~"]))
def test_wrapping(value: dict[str, Any], wrap: str) -> None:
    """Fences, prose behind the object and one closing brace too many take nothing away."""
    assert decode(wrap.replace("%s", json.dumps(value))).args == value


@given(OBJECTS.filter(bool), st.integers(1, 60))
def test_cut_arguments_never_run(value: dict[str, Any], cut: int) -> None:
    """No beginning of an object is ever completed."""
    text = json.dumps(value)
    assert decode(text[: -min(cut, len(text) - 1)]).args is None


@given(st.text(st.sampled_from("{}[]\"'\\,:“”｛｝ntux01eE.-TFN \n`") | st.characters()))
def test_total(text: str) -> None:
    """Any text gives an object or a fault, and what it gives can be written as JSON in UTF-8."""
    found = decode(text)
    assert (found.args is None) == bool(found.code)
    assert 0 <= found.end <= len(text)
    if found.args is not None:
        json.dumps(found.args, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("{'a': True, 'b': None, 'c': -1.5e3}", {"a": True, "b": None, "c": -1500.0}),
        ("{'it': 'isn\\'t'}", {"it": "isn't"}),
        ('{"a": \'say "x"\'}', {"a": 'say "x"'}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": "x\ty"}', {"a": "x\ty"}),
        ('{"a": "tab\there \\u00e9 \\"q\\""}', {"a": 'tab\there é "q"'}),
        ("{“a”：“b，c”，“d”：［1，2］｝", {"a": "b，c", "d": [1, 2]}),
        ('{"a": 1}\\n', {"a": 1}),
        ("{\"a\": '''x\ny'''}", {"a": "x\ny"}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
        ("{}", {}),
    ],
)
def test_repairs(text: str, args: dict[str, Any]) -> None:
    """Each of these can be read in one way only."""
    assert decode(text).args == args


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "the "x" clause"}',
        '{"a": "the ""x"" clause"}',
        '{"a": "b" "c"}',
        '{"a": """b\\n"""}',
        '{"a": """"b""""}',
        '{"a": (1, 2)}',
        '{"a": {1, 2}}',
        "{'a': b'x'}",
        "{'a': 1j}",
        '{"a": 0x10}',
        '{"a": 1_000}',
        '{"a": 01}',
        '{"a": +1}',
        '{"a": nan}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e400}',
        "{'a': 1e400}",
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}',
        "{'a': 1, 'a': 2}",
        '{"a": "\\ud800"}',
        '{"a": "\\x41"}',
        '{"a": 1}{"b": 2}',
        '{"a": 1}, "b": 2}',
        '{"a": 1} {"b": 2}',
        '{"a": 1}\n{"b": 2}',
        '{"a": 1 "b": 2}',
        '{"a" 1}',
        "{a: 1}",
        '{"a": 1,,}',
        "{,}",
        '{"a": 1 // note\n}',
        '{"a": "1\nObservation: 2"}',
        '"{\\"a\\": 1} and more"',
        '"\\"{}\\""',
        '{"a": ' + "1" * 5000 + "}",
        '{"a":' * 100_000,
        '{"a":' * 200 + "1" + "}" * 200,
        "{'a':" * 200 + "1" + "}" * 200,
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        "",
        "   ",
        "```json\n```",
    ],
)
def test_refused(text: str) -> None:
    """Nothing ambiguous, unfinished, duplicated, endless or outside JSON reaches a tool."""
    found = decode(text)
    assert found.args is None
    assert found.code in ("tool_arguments_malformed", "tool_arguments_not_object")
    assert found.detail


def test_nul_is_invalid() -> None:
    """U+0000 is well-formed, and no text that every store can hold."""
    for text in ('{"a": "x\\u0000"}', '{"a\\u0000": 1}', "{'a': ['\\u0000']}", '{"a": "\x00"}'):
        assert decode(text).code == "tool_arguments_invalid"
