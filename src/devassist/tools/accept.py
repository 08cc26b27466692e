"""A quick yes for values that plainly fit a schema (pure).

``jsonschema`` interprets a schema anew on every call, which costs 15 µs for small arguments and some 300 µs for five
policy clauses. Here the keywords that tools mostly use become closures. The answer True is final; False, and any
keyword not known here, sends the value to ``jsonschema``, which alone says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any, cast

Accept = Callable[[Any], bool]

_CLASSES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
_SAYS_NOTHING = frozenset({"title", "description", "default", "examples", "$comment", "$defs", "$schema"})
_FOR_KIND = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "format", "enum"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def quick_accept(schema: Any) -> Accept | None:
    """A check that says True only for what is valid under ``schema``, or None where the schema needs more than this."""
    if not isinstance(schema, dict):
        return _anything if schema is True else None
    rule = cast("dict[str, Any]", schema)
    wanted = rule.keys() - _SAYS_NOTHING
    if not wanted:
        return _anything
    if wanted == {"anyOf"}:
        return _any_of(rule["anyOf"])
    if wanted == {"enum"}:
        return _one_of(rule["enum"])
    stated = rule.get("type")
    kinds: list[str] = [stated] if isinstance(stated, str) else cast("list[str]", stated or [])
    if wanted == {"type"}:
        return _of_class(frozenset(cls for kind in kinds for cls in _CLASSES[kind]))
    main = [kind for kind in kinds if kind != "null"]
    if len(main) != 1 or wanted - {"type"} - _FOR_KIND.get(main[0], set()):
        return None
    check = {"object": _object, "array": _array, "string": _string}.get(main[0], _number)(rule)
    return check if check is None or len(kinds) == 1 else _or_null(check)


def _anything(_: Any) -> bool:
    return True


def _of_class(classes: frozenset[type]) -> Accept:
    return lambda value: value.__class__ in classes


def _or_null(check: Accept) -> Accept:
    return lambda value: value is None or check(value)


def _any_of(branches: list[Any]) -> Accept | None:
    checks = [check for check in map(quick_accept, branches) if check is not None]
    return (lambda value: any(check(value) for check in checks)) if checks else None


def _one_of(values: list[Any]) -> Accept | None:
    if not all(isinstance(value, str) for value in values):
        return None  # 1, 1.0 and true are equal in Python and not in JSON
    known = frozenset(values)
    return lambda value: value.__class__ is str and value in known


def _object(rule: dict[str, Any]) -> Accept | None:
    closed = rule.get("additionalProperties", True)
    if closed not in (True, False):
        return None
    rules = {key: quick_accept(item) for key, item in rule.get("properties", {}).items()}
    required: tuple[str, ...] = tuple(rule.get("required", ()))

    def check(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for key in required:
            if key not in value:
                return False
        for key, item in value.items():
            accepts = rules.get(key, None if closed is False else _anything)
            if accepts is None or not accepts(item):
                return False
        return True

    return check


def _array(rule: dict[str, Any]) -> Accept | None:
    accepts = quick_accept(rule.get("items", True))
    least, most = rule.get("minItems", 0), rule.get("maxItems", float("inf"))
    if accepts is None:
        return None

    def check(value: Any) -> bool:
        return value.__class__ is list and least <= len(value) <= most and all(map(accepts, value))

    return check


def _string(rule: dict[str, Any]) -> Accept | None:
    least, most, form = rule.get("minLength", 0), rule.get("maxLength", float("inf")), rule.get("format")
    named = _one_of(rule["enum"]) if "enum" in rule else _anything
    if form not in (None, "date") or named is None:
        return None

    def check(value: Any) -> bool:
        fits = value.__class__ is str and least <= len(value) <= most
        return fits and (form is None or is_date(value)) and named(value)

    return check


def _number(rule: dict[str, Any]) -> Accept | None:
    classes = _CLASSES[rule["type"]] if isinstance(rule["type"], str) else (int,)
    least, most = rule.get("minimum", float("-inf")), rule.get("maximum", float("inf"))
    return lambda value: value.__class__ in classes and least <= value <= most


def is_date(text: str) -> bool:
    """Whether ``text`` is a day of the calendar written YYYY-MM-DD."""
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
