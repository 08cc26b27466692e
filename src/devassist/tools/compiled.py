"""A JSON Schema compiled once and used for every call: checking, lossless coercion, messages (pure).

The messages go to a model, which corrects its call by them, and to people: they name what is missing, what is not
wanted and what was expected, each with its JSON Pointer, and never repeat a long value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError

from devassist.core.errors import ToolArgumentsInvalid, ToolSchemaInvalid
from devassist.tools.accept import quick_accept

_MOST_FAULTS = 8
_NESTING = 64
_MAX_INT = 2**53 - 1
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,15}")
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")
_FORMATS = FormatChecker(("date",))
_NAMES: dict[type, str] = {
    dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null",
}  # fmt: skip

Fault = tuple[str, str]


class CompiledSchema:
    """One schema ready for use. The schema given is not to be changed afterwards.

    Raises ToolSchemaInvalid when it is no valid JSON Schema 2020-12 or refers outside itself.
    """

    __slots__ = ("_accepts", "_schema", "_validator")

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise ToolSchemaInvalid(f"{_pointer(error.absolute_path) or '/'}: {_cut(error.message, 200)}") from None
        for reference in _references(schema):
            if _target(reference, schema) is None:
                raise ToolSchemaInvalid(f"$ref {_cut(reference)!r} names no rule of this schema; only #/… is allowed")
        self._schema = schema
        self._validator: Any = Draft202012Validator(schema, format_checker=_FORMATS)
        self._accepts = quick_accept(schema)

    def check(self, name: str, args: Any) -> dict[str, Any]:
        """The arguments to use for the tool ``name``: those given, or the same after lossless coercion.

        Coerced are ``"4"`` where only an integer fits, and the float 4.0 (in JSON the same number) to 4; nothing else.
        Raises ToolArgumentsInvalid.
        """
        if not isinstance(args, dict):
            raise _invalid(name, [("", f"expected object, got {_name_of(args)}")])
        given = cast("dict[str, Any]", args)
        found = _survey(given, 0)
        if found & _SUSPECT and (faults := list(_faults(given, "", 0, nul=True))):
            raise _invalid(name, faults)
        if not found & _FLOAT and self._fits(given):
            return given
        coerced = cast("dict[str, Any]", _coerced(given, self._schema, self._schema))
        if self._fits(coerced):
            return coerced
        raise _invalid(name, list(self._explain(coerced)))

    def faults(self, value: Any) -> list[Fault]:
        """What of ``value`` is no JSON or does not fit the schema; empty when all is well."""
        wrong = json_faults(value)
        if wrong or self._fits(value):
            return wrong
        return list(self._explain(value))

    def _fits(self, value: Any) -> bool:
        return (self._accepts is not None and self._accepts(value)) or bool(self._validator.is_valid(value))

    def _explain(self, value: Any) -> Iterator[Fault]:
        errors = cast("Iterator[ValidationError]", self._validator.iter_errors(value))
        for error in sorted(errors, key=lambda e: list(map(str, e.absolute_path))):
            yield _pointer(error.absolute_path), _message(error)


def json_faults(value: Any) -> list[Fault]:
    """What of ``value`` is no JSON: other types, NaN, keys that are no strings, lone surrogates, too deep nesting."""
    return list(_faults(value, "", 0, nul=False)) if _survey(value, 0) & _SUSPECT else []


_FLOAT, _SUSPECT = 1, 2


def _survey(value: Any, depth: int) -> int:
    """A quick look without building paths: whether there are floats in ``value``, and anything to look at closely."""
    kind = value.__class__
    if kind is str:
        return _SUSPECT if _FORBIDDEN.search(value) else 0
    if kind is int or kind is bool or value is None:
        return 0
    if kind is float:
        return _FLOAT if math.isfinite(value) else _SUSPECT
    if depth >= _NESTING or (kind is not dict and kind is not list):
        return _SUSPECT
    found = 0
    if kind is dict:
        for key in value:
            if key.__class__ is not str or _FORBIDDEN.search(key):
                return _SUSPECT
        value = value.values()
    for item in value:
        found |= _survey(item, depth + 1)
    return found


def _faults(value: Any, path: str, depth: int, *, nul: bool) -> Iterator[Fault]:
    """Each text, number, type or depth that cannot stand; U+0000 only where ``nul`` is set."""
    kind = value.__class__
    if kind is str:
        found = _FORBIDDEN.search(value if nul else value.replace("\x00", ""))
        if found:
            what = "U+0000" if found[0] == "\x00" else "half of a surrogate pair"
            yield path, f"holds {what} at position {found.start()}"
    elif kind is float:
        if not math.isfinite(value):
            yield path, "is not a finite number"
    elif kind is dict or kind is list:
        if depth >= _NESTING:
            yield path[:80], f"is nested deeper than {_NESTING}"
            return
        pairs = cast("Iterable[tuple[Any, Any]]", value.items() if kind is dict else enumerate(value))
        for key, item in pairs:
            if kind is dict and (key.__class__ is not str or _FORBIDDEN.search(key)):
                yield path, "has a key that is no text, or that holds U+0000 or half of a surrogate pair"
            else:
                yield from _faults(item, f"{path}/{_escaped(str(key))}", depth + 1, nul=nul)
    elif value is not None and kind is not bool and kind is not int:
        yield path, f"is no JSON value ({kind.__name__})"


def _coerced(value: Any, schema: Any, root: dict[str, Any]) -> Any:
    """``value`` with integers in place of their decimal strings, wherever the schema takes an integer and no string."""
    rule = _resolved(schema, root)
    if rule is None:
        return value
    kind = value.__class__
    if kind is str or kind is float:
        types = _types(rule, root)
        if kind is float:
            whole = value.is_integer() and abs(value) <= _MAX_INT
            return int(value) if whole and "integer" in types and "number" not in types else value
        if "integer" in types and "string" not in types and _DECIMAL.fullmatch(value) and abs(int(value)) <= _MAX_INT:
            return int(value)
    elif kind is dict and isinstance(rule.get("properties"), dict):
        rules: dict[str, Any] = rule["properties"]
        return {key: _coerced(item, rules.get(key), root) for key, item in cast("dict[str, Any]", value).items()}
    elif kind is list and isinstance(rule.get("items"), dict):
        return [_coerced(item, rule["items"], root) for item in cast("list[Any]", value)]
    return value


def _resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any] | None:
    """The rule itself, following local references a few steps; None where there is none to follow."""
    for _ in range(8):
        if not isinstance(schema, dict):
            return None
        rule = cast("dict[str, Any]", schema)
        if "$ref" not in rule:
            return rule
        schema = _target(str(rule["$ref"]), root)
    return None


def _target(reference: str, root: dict[str, Any]) -> dict[str, Any] | None:
    """What the local reference ``#/…`` names, or None."""
    found: Any = root
    if reference != "#" and not reference.startswith("#/"):
        return None
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _types(rule: dict[str, Any], root: dict[str, Any]) -> set[str]:
    """The JSON types that a rule may accept; without a stated type, any (a string among them)."""
    stated = rule.get("type")
    if isinstance(stated, str):
        return {stated}
    if isinstance(stated, list):
        return set(cast("list[str]", stated))
    branches = cast("list[Any]", rule.get("anyOf") or rule.get("oneOf") or [])
    kinds = [_types(branch, root) for branch in (_resolved(b, root) for b in branches) if branch is not None]
    return set[str]().union(*kinds) if kinds and len(kinds) == len(branches) else {"string"}


def _message(error: ValidationError) -> str:
    rule, wanted = str(error.validator), cast("Any", error.validator_value)
    instance = cast("Any", error.instance)
    if rule == "required":
        return f"missing {_listed(key for key in wanted if key not in instance)}"
    if rule == "additionalProperties" and wanted is False:
        known = cast("dict[str, Any]", cast("dict[str, Any]", error.schema).get("properties", {}))
        return f"unexpected {_listed(key for key in instance if key not in known)}; allowed: {_listed(known)}"
    if rule == "type":
        return f"expected {_or(wanted)}, got {_name_of(instance)}"
    if rule == "enum":
        return f"must be one of {_listed(wanted)}"
    if rule in ("anyOf", "oneOf"):
        return f"expected {_or(_expected(wanted))}, got {_name_of(instance)} that does not fit"
    if rule == "format":
        return f"is not a valid {wanted}" + (" (YYYY-MM-DD)" if wanted == "date" else "")
    words = {
        "minimum": "must be at least", "maximum": "must be at most", "exclusiveMinimum": "must be above",
        "exclusiveMaximum": "must be below", "minLength": "is shorter than", "maxLength": "is longer than",
        "minItems": "has fewer items than", "maxItems": "has more items than", "pattern": "does not match",
        "const": "must be", "multipleOf": "must be a multiple of",
    }  # fmt: skip
    return f"{words.get(rule, f'does not satisfy {rule}')} {_cut(str(wanted))}"


def _expected(branches: list[Any]) -> list[str]:
    return [str(cast("dict[str, Any]", b).get("type", "another form")) for b in branches if isinstance(b, dict)]


def _or(wanted: Any) -> str:
    return wanted if isinstance(wanted, str) else " or ".join(map(str, wanted))


def _listed(names: Iterable[Any]) -> str:
    shown = [_cut(name) if isinstance(name, str) else _cut(str(name)) for name in names]
    return ", ".join(shown[:_MOST_FAULTS]) + (" …" if len(shown) > _MOST_FAULTS else "") or "nothing"


def _name_of(value: Any) -> str:
    return _NAMES.get(value.__class__) or "another type"


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _escaped(key: str) -> str:
    return _cut(key).replace("~", "~0").replace("/", "~1")


def _pointer(path: Iterable[Any]) -> str:
    return "".join(f"/{_escaped(str(step))}" for step in path)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, item in cast("Mapping[str, Any]", schema).items():
            if key in ("$ref", "$dynamicRef") and isinstance(item, str):
                yield item
            else:
                yield from _references(item)
    elif isinstance(schema, list):
        for item in cast("list[Any]", schema):
            yield from _references(item)


def _invalid(name: str, faults: list[Fault]) -> ToolArgumentsInvalid:
    shown = tuple(faults[:_MOST_FAULTS])
    more = f" (and {len(faults) - _MOST_FAULTS} more)" if len(faults) > _MOST_FAULTS else ""
    text = "; ".join(f"{path}: {message}" if path else message for path, message in shown)
    return ToolArgumentsInvalid(f"{name}: {text}{more}", errors=shown)
