"""Grammars (GBNF) that keep a small model within the text protocol of ``core/react.py``. Pure.

A grammar alone does not bound length, and a reply that the token limit ends is no decision. So every repetition here is
bounded, such that the longest text has fewer bytes than the limit has tokens: a byte-level tokeniser makes at most one
token of a byte. Where a text may hold characters of three bytes it gets a third as many; one in ASCII alone, most of
whose tokens are several letters, may be longer.

A model may not write what could change how its reply is read: line breaks within a part, the characters with which tags
begin (outside arguments), and blanks at the beginning of a part. In Chinese a part begins with an ideograph: from a
digit on, SmolLM2 counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

from devassist.llm.classify import as_object

MOST_TOKENS = 1024
"""More would need repetitions that llama.cpp refuses."""

_RESERVED = 8
"""Tokens for the end of the reply."""
_THOUGHT_BYTES = 120
_LEAST_BYTES = 24
_KEY_BYTES = 24
_WIDE = r"\u00c0-\u017f\u2013-\u2026\u3001-\u3011\u4e00-\u9fff\uff01-\uff5e"
"""Letters, ideographs and punctuation of two and three bytes; none of them a blank."""
_RULES = rf"""begin ::= [A-Za-z]
begin-wide ::= [A-Za-z{_WIDE}]
number ::= [0-9] | begin
number-wide ::= [0-9] | begin-wide
ideograph ::= [\u4e00-\u9fff]
said ::= [ -;=-Z\\-~]
said-wide ::= [ -;=-Z\\-~{_WIDE}]
line ::= said | "\n"
line-wide ::= said-wide | "\n"
json ::= [ !#-\[\]-~] | "\\" ["\\n]
json-wide ::= [ !#-\[\]-~{_WIDE}] | "\\" ["\\n]
"""


def decision(schemas: Mapping[str, Mapping[str, Any]], max_tokens: int, lang: str) -> str:
    """A reply of the text protocol: a thought, then a call of one of the tools, or the final answer.

    ``schemas`` are the tools' JSON Schemas by name, {} where one is not known. Arguments are the members that a schema
    requires, or one text where it requires none. Raises ValueError where ``max_tokens`` is too small for that.
    """
    head, action, final = "Thought: ", "\nAction: ", "final: "
    room = _room(max_tokens) - len(head + action)
    thought = min(_THOUGHT_BYTES, room // 4)
    room -= thought
    what = [f"{_literal(final)} ({_text(room - len(final), 'said', lang)})"]
    what += [_call(name, schema, room, lang) for name, schema in schemas.items()]
    root = f"{_literal(head)} ({_text(thought, 'said', lang)}) {_literal(action)} ({' | '.join(what)})"
    return f"root ::= {root}\n{_RULES}"


def plain(max_tokens: int, lang: str) -> str:
    """A text in lines, as plain chat answers. Raises ValueError as ``decision`` does."""
    return f"root ::= {_text(_room(max_tokens), 'line', lang)}\n{_RULES}"


def listed_schemas(system: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The schemas of these tools as ``core.react.protocol_instructions`` lists them; {} where one is not found."""
    return {name: _listed(system, name) for name in names}


def _listed(system: str, name: str) -> dict[str, Any]:
    for line, below in pairwise(system.splitlines()):
        if line.startswith(f"- {name}: ") and below.startswith("  args: "):
            try:
                return as_object(json.loads(below.removeprefix("  args: ")))
            except ValueError:
                return {}
    return {}


def _room(max_tokens: int) -> int:
    return min(max_tokens, MOST_TOKENS) - _RESERVED


class _Value(NamedTuple):
    """A member's value: ``fixed`` bytes, and a text of as many as are left where ``free``. ``{}`` in ``form`` is it."""

    form: str
    fixed: int
    free: bool = False


def _call(name: str, schema: Mapping[str, Any], room: int, lang: str) -> str:
    head = f"tool:{name}\nargs: "
    members = _members(schema)
    if members is None:
        text = _json_text(room - len(head.encode()) - _KEY_BYTES - 7, lang)
        return f'{_literal(head)} "{{\\"" [a-z_]{{1,{_KEY_BYTES}}} "\\": " {text} "}}"'
    keys = [json.dumps(key, ensure_ascii=False) + ": " for key in members]
    fixed = sum(len(key.encode()) + value.fixed + 2 for key, value in zip(keys, members.values(), strict=True))
    free = sum(value.free for value in members.values())
    share = (room - len(head.encode()) - fixed - 2) // max(1, free)
    if share < 0:
        raise ValueError("the token limit is too small for the arguments of a call")
    parts = [
        f"{_literal(key)} {value.form.replace('{}', _json_text(share, lang)) if value.free else value.form}"
        for key, value in zip(keys, members.values(), strict=True)
    ]
    return " ".join([_literal(head), '"{"', ' ", " '.join(parts), '"}"'])


def _members(schema: Mapping[str, Any]) -> dict[str, _Value] | None:
    """What a call gives; None where nothing is known of the arguments."""
    known = as_object(schema.get("properties"))
    required = cast("Sequence[Any]", schema.get("required") or ())
    chosen = {str(key): _value(as_object(known.get(str(key)))) for key in required}
    if chosen or not schema:
        return chosen or None
    values = {key: _value(as_object(each)) for key, each in known.items()}
    texts = [key for key, value in values.items() if value.free and "format" not in as_object(known[key])]
    return {key: values[key] for key in texts[:1]}


def _value(schema: Mapping[str, Any]) -> _Value:
    options = cast("Sequence[Any]", schema.get("anyOf") or schema.get("oneOf") or ())
    if options:
        return _value(as_object(options[0]))
    if words := cast("Sequence[Any]", schema.get("enum") or ([schema["const"]] if "const" in schema else ())):
        texts = [json.dumps(each, ensure_ascii=False) for each in words]
        return _Value(f"({' | '.join(map(_literal, texts))})", max(len(text.encode()) for text in texts))
    kinds: object = schema.get("type")
    listed = cast("list[object]", kinds) if isinstance(kinds, list) else [kinds]
    match next(iter(listed), None):
        case "integer" | "number":
            return _Value("[1-9]", 1)
        case "boolean":
            return _Value('("true" | "false")', 5)
        case "object":
            return _Value('"{}"', 2)
        case "array":
            item = _value(as_object(schema.get("items")))
            return _Value(f'"[" {item.form} "]"', item.fixed + 2, item.free)
        case _:
            return _Value("{}", 2, free=True)


def _text(room: int, rule: str, lang: str) -> str:
    """A text of at most ``room`` bytes: so many characters of ASCII, or a third as many of any kind."""
    if room < _LEAST_BYTES:
        raise ValueError("the token limit is too small for a decision")
    wide = f"{rule}-wide{{0,{room // 3 - 1}}}"
    return f"ideograph {wide}" if lang == "zh" else f"number {rule}{{0,{room - 1}}} | number-wide {wide}"


def _json_text(room: int, lang: str) -> str:
    """A string between its quotes; an escape is two bytes."""
    if room < _LEAST_BYTES:
        raise ValueError("the token limit is too small for a call")
    narrow, wide = f"json{{0,{room // 2 - 1}}}", f"json-wide{{0,{room // 3 - 1}}}"
    inner = f"ideograph {wide}" if lang == "zh" else f"begin {narrow} | begin-wide {wide}"
    return rf'"\"" ({inner}) "\""'


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
