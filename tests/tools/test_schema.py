"""Arguments against schemas: what is coerced, what is refused and in which words, and at which cost."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from devassist.core.errors import ToolArgumentsInvalid, ToolSchemaInvalid
from devassist.core.tooling import ToolSpec
from devassist.ports.tools import ArgumentChecker
from devassist.tools.accept import quick_accept
from devassist.tools.schema import SchemaChecker

SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1},
        "top_k": {"type": "integer", "minimum": 1, "maximum": 50},
        "day": {"type": "string", "format": "date"},
        "mode": {"enum": ["fast", "exact"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "loose": {"type": ["integer", "string"]},
        "pages": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "deep": {"$ref": "#/$defs/deep"},
    },
    "required": ["query"],
    "additionalProperties": False,
    "$defs": {"deep": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}
SPEC = ToolSpec("search", "Search.", SEARCH)
CHECKER = SchemaChecker()


def check(**args: Any) -> dict[str, Any]:
    return CHECKER.check(SPEC, {"query": "x", **args})


def refusal(args: Any, schema: dict[str, Any] = SEARCH) -> ToolArgumentsInvalid:
    with pytest.raises(ToolArgumentsInvalid) as caught:
        CHECKER.check(ToolSpec("search", "Search.", schema), args)
    return caught.value


def test_the_checker_fits_the_port_and_hands_back_what_fits() -> None:
    """Arguments that fit are returned as they were given."""
    checker: ArgumentChecker = SchemaChecker()
    args = {"query": "退休", "top_k": 3, "limit": None, "pages": [1], "day": "2024-02-29", "mode": "fast"}
    assert checker.check(SPEC, args) is args


@pytest.mark.parametrize(
    ("args", "becomes"),
    [
        ({"top_k": "4"}, {"top_k": 4}),
        ({"limit": "-7"}, {"limit": -7}),
        ({"limit": "0"}, {"limit": 0}),
        ({"pages": ["1", 2]}, {"pages": [1, 2]}),
        ({"deep": {"n": "12"}}, {"deep": {"n": 12}}),
        ({"loose": "4"}, {"loose": "4"}),
        ({"top_k": 4.0}, {"top_k": 4}),
    ],
)
def test_a_canonical_decimal_becomes_an_integer_where_only_that_fits(
    args: dict[str, Any], becomes: dict[str, Any]
) -> None:
    """Lossless coercion: the exact decimal of an integer, at any depth, and never where a string is allowed."""
    result = check(**args)
    assert result == {"query": "x", **becomes}
    assert [type(v) for v in result.values()] == [type(v) for v in ({"query": "x"} | becomes).values()]


@pytest.mark.parametrize(
    "value", ["4.0", "04", "+4", " 4", "4 ", "-0", "４", "四", "", "1e1", "9" * 17, True, 4.5, [4]]
)
def test_nothing_else_is_coerced(value: Any) -> None:
    """Whatever is not plainly that integer is refused: guesses never reach a tool."""
    assert refusal({"query": "x", "top_k": value}).errors[0][0] == "/top_k"


def test_an_integer_never_becomes_a_string() -> None:
    """Coercion goes one way only."""
    assert "expected string, got integer" in refusal({"query": 4}).detail


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x\udfff"])
@pytest.mark.parametrize("where", ["query", "pages", "deep", "key"])
def test_texts_that_no_store_can_hold_are_refused_anywhere(text: str, where: str) -> None:
    """U+0000 and lone surrogates are refused in values, items, nested objects and keys, with their place."""
    args: dict[str, Any] = {
        "query": {"query": text},
        "pages": {"query": "x", "pages": [1, text]},
        "deep": {"query": "x", "deep": {"other": text}},
        "key": {"query": "x", text: 1},
    }[where]
    error = refusal(args)
    assert error.errors[0][0] == {"query": "/query", "pages": "/pages/1", "deep": "/deep/other", "key": ""}[where]
    error.detail.encode()


def test_messages_name_what_is_missing_and_what_is_not_wanted() -> None:
    """One error lists every wrong place with its JSON Pointer, missing and unexpected keys by name."""
    error = refusal({"qeury": "x", "top_k": 51, "pages": [1, "b"], "day": "2023-02-29", "mode": "slow"})
    assert dict(error.errors)["/top_k"] == "must be at most 50"
    assert dict(error.errors)["/pages/1"] == "expected integer, got string"
    assert dict(error.errors)["/day"] == "is not a valid date (YYYY-MM-DD)"
    assert dict(error.errors)["/mode"] == "must be one of fast, exact"
    assert "missing query" in error.detail
    assert "unexpected qeury; allowed: day, deep, limit, loose, mode, pages, query, top_k" in error.detail
    assert error.code == "tool_arguments_invalid"


def test_a_pointer_escapes_its_steps() -> None:
    """Keys with / and ~ stand in a pointer as RFC 6901 wants."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a/b~c": {"type": "integer"}}}
    assert refusal({"a/b~c": "x"}, schema).errors[0][0] == "/a~1b~0c"


@given(st.text(min_size=200, max_size=400), st.sampled_from(["query", "top_k", "mode", "pages", "nope"]))
def test_no_message_echoes_a_long_value(text: str, key: str) -> None:
    """A value of hundreds of characters is not repeated, whatever is wrong with it."""
    error = refusal({"top_k": 0, key: [text] if key == "query" else text})
    assert text[:100] not in error.detail
    assert len(refusal(dict.fromkeys(map(str, range(50)), 1) | {text: 1}).detail) < 1500


@pytest.mark.parametrize("args", [None, [], "x", 3])
def test_arguments_that_are_no_object_are_refused(args: Any) -> None:
    """Only an object is arguments; the message says what came instead."""
    assert "expected object" in refusal(args).detail


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1: 2}, (1,)])
def test_what_is_no_json_is_refused(value: Any) -> None:
    """NaN, bytes, tuples and keys that are no strings cannot be recorded, so they are no arguments."""
    refusal({"anything": value}, {"type": "object"})


def test_bottomless_nesting_is_refused_before_it_is_walked() -> None:
    """A hundred thousand nested lists end in an ordinary error, not in a RecursionError."""
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert "nested deeper" in refusal({"anything": value}, {"type": "object"}).detail


def test_a_schema_is_compiled_once_for_equal_definitions() -> None:
    """The same schema read anew from another run's INIT, in another key order, is not compiled again."""
    compiled: list[int] = []
    checker = SchemaChecker()
    checker.check(SPEC, {"query": "x"})
    compiled.append(checker._compile.cache_info().misses)  # pyright: ignore[reportPrivateUsage]
    checker.check(ToolSpec("other", "", dict(reversed(SEARCH.items()))), {"query": "x"})
    compiled.append(checker._compile.cache_info().misses)  # pyright: ignore[reportPrivateUsage]
    assert compiled == [1, 1]


def test_a_stored_schema_that_is_wrong_is_named_as_such() -> None:
    """A spec with an invalid schema raises ToolSchemaInvalid and not an error of the library beneath."""
    with pytest.raises(ToolSchemaInvalid, match="/properties/a/type"):
        CHECKER.check(ToolSpec("x", "", {"type": "object", "properties": {"a": {"type": "txt"}}}), {})
    with pytest.raises(ToolSchemaInvalid, match="no JSON"):
        CHECKER.check(ToolSpec("x", "", {"type": "object", "default": object()}), {})


KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "array", "object", "null", ["string", "null"]]),
        "minLength": st.integers(0, 2),
        "maximum": st.integers(-1, 3),
        "minimum": st.integers(-2, 1),
        "enum": st.lists(st.sampled_from(["a", "b", 1, True]), min_size=1, unique=True),
        "items": st.sampled_from([{"type": "integer"}, {"type": "string", "enum": ["a"]}, True, False]),
        "maxItems": st.integers(0, 2),
        "properties": st.dictionaries(st.sampled_from("ab"), st.sampled_from([{"type": "integer"}, True, False])),
        "required": st.lists(st.sampled_from("ab"), unique=True),
        "additionalProperties": st.sampled_from([True, False, {"type": "string"}]),
        "anyOf": st.lists(st.sampled_from([{"type": "string"}, {"minimum": 1}, {"const": 0}]), min_size=1),
        "format": st.just("date"),
        "not": st.just({"type": "null"}),
        "description": st.just("words"),
    },
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 4) | st.floats(-2, 4) | st.sampled_from(["", "a", "b", "2024-01-31"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


@given(KEYWORDS, VALUES)
def test_the_quick_yes_never_contradicts_the_validator(schema: dict[str, Any], value: Any) -> None:
    """Whatever quick_accept lets pass, jsonschema finds valid too."""
    accept = quick_accept(schema)
    if accept is not None and accept(value):
        assert Draft202012Validator(schema, format_checker=FormatChecker(["date"])).is_valid(value)


@given(VALUES)
def test_the_quick_yes_knows_the_schemas_that_tools_use(value: Any) -> None:
    """For a typical tool schema the quick answer is there, and agrees with the slow one on clean values."""
    typical = {key: rule for key, rule in SEARCH["properties"].items() if key != "deep"}
    schema = {"type": "object", "properties": typical, "additionalProperties": False}
    accept = quick_accept(schema)
    assert accept is not None
    for key in typical:
        slow = Draft202012Validator(schema, format_checker=FormatChecker(["date"])).is_valid({key: value})
        floats = isinstance(value, float) or (isinstance(value, list) and any(isinstance(v, float) for v in value))
        assert accept({key: value}) == slow or floats


def test_checking_small_arguments_is_cheap() -> None:
    """A check of a small dictionary costs under 30 µs, the look-up of the compiled schema included."""
    args, rounds = {"query": "退休人员门诊慢特病的报销比例是多少？", "top_k": 5}, []
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(300):
            CHECKER.check(SPEC, args)
        rounds.append((time.perf_counter() - began) / 300)
    assert min(rounds) < 30e-6
