"""Arguments of a call: from the text that a model wrote to a JSON object, or to a precise reason why not.

Strict JSON comes first and is taken as it is. Only where that fails is the text read again by the relaxed reader
(args_repair.py), which accepts nothing that could be read in two ways. A tool never runs on guessed, shortened or
closed-by-us arguments, and what it gets is plain data: no duplicate keys, no NaN, no NUL, no half characters, no
nesting that would break who reads it next.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from devassist.core.args_repair import MAX_DEPTH, Ambiguous, read_relaxed

MALFORMED = "tool_arguments_malformed"
NOT_OBJECT = "tool_arguments_not_object"
INVALID = "tool_arguments_invalid"

_WRAP = re.compile(r"\s*(?:(?P<fence>```|~~~|`)[ \t]*(?:json5?|JSON|python|py)?\s*)?")
_CLOSERS = re.compile(r"[ \t]*[)\]}]*")
_BLANK = re.compile(r"\s*")
# More data right behind the object: which of the two is meant?
_GOES_ON = re.compile(r"[ \t]*[,:;\"'{\[“”，：｛]|\s*[,:{，：｛]")
_HALF_OR_NUL = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """``args`` or, where it is None, the fault's ``code`` and ``detail``; ``end`` is where reading stopped.

    ``repaired``: strict JSON failed and the relaxed reader understood it.
    """

    args: dict[str, Any] | None
    end: int
    code: str = ""
    detail: str = ""
    repaired: bool = False


class _Refused(ValueError):
    """Well-formed for ``json``, but not JSON that can be acted on; no repair may hide it."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"the key {key[:60]!r} stands twice in one object")
            seen.add(key)
    return value


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def decode(text: str, start: int = 0) -> Decoded:
    """Read one arguments object at ``start``; prose may follow it, more data may not. Total on any text."""
    wrap = _WRAP.match(text, start)
    at = wrap.end() if wrap else start
    if at >= len(text):
        return Decoded(None, at, MALFORMED, "nothing stands where the JSON object should")
    try:
        value, end, repaired = _read(text, at)
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "｛"):
            value, repaired = _read_all(value), True
    except (ValueError, RecursionError) as error:
        return Decoded(None, at, MALFORMED, _reason(error, at))
    if not isinstance(value, dict):
        return Decoded(None, end, NOT_OBJECT, f"an object in braces is needed, not {_kind(value)}")
    args = cast("dict[str, Any]", value)
    end = _after(_CLOSERS, text, end)
    if wrap and wrap["fence"]:
        closing = _after(_BLANK, text, end)
        end = closing + len(wrap["fence"]) if text.startswith(wrap["fence"], closing) else end
    if _GOES_ON.match(text, end):
        return Decoded(None, end, MALFORMED, "more data follows the JSON object")
    code, detail = _unfit(args)
    return Decoded(None, end, code, detail) if code else Decoded(args, end, repaired=repaired)


def _read(text: str, at: int) -> tuple[object, int, bool]:
    try:
        value, end = _STRICT.raw_decode(text, at)
        return value, end, False
    except _Refused:
        raise
    except (ValueError, RecursionError) as error:
        try:
            value, end = read_relaxed(text, at)
        except Ambiguous as why:
            # What is wrong with it as JSON helps a model more than where the second reading gave up.
            raise why if isinstance(error, RecursionError) or why.decisive else error from None
        return value, end, True


def _read_all(text: str) -> object:
    """The one object that a string holds: the second layer of a doubly encoded value."""
    value, end, _ = _read(text, _after(_BLANK, text, 0))
    if text[end:].strip():
        raise Ambiguous("more text follows the object inside the string")
    return value


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _reason(error: ValueError | RecursionError, start: int) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {max(0, error.pos - start)} of the arguments"
    return str(error)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"


def _unfit(args: dict[str, Any]) -> tuple[str, str]:
    """Why the data must not reach a tool, or empty strings. Walks without recursion."""
    layer: list[object] = [args]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for value in layer:
            texts: list[str] = []
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, dict):
                mapping = cast("dict[str, object]", value)
                texts.extend(mapping)
                inner.extend(mapping.values())
            elif isinstance(value, list):
                inner.extend(cast("list[object]", value))
            elif isinstance(value, float) and not math.isfinite(value):
                return MALFORMED, "a number is too large"
            for text in texts:
                found = _HALF_OR_NUL.search(text)
                if found and found[0] == "\x00":
                    return INVALID, "a string holds the character U+0000, which is not allowed"
                if found:
                    return MALFORMED, "a string holds half of a surrogate pair"
        if not inner:
            return "", ""
        layer = inner
    return MALFORMED, f"the arguments are nested deeper than {MAX_DEPTH} levels"


def from_value(value: object, outer: Decoded) -> Decoded:
    """The arguments that are a member of the object ``outer``, as an object or as a string that holds one."""
    if isinstance(value, str):
        inner = decode(value)
        return Decoded(inner.args, outer.end, inner.code, inner.detail, repaired=True)
    if isinstance(value, dict):
        return Decoded(cast("dict[str, Any]", value), outer.end, repaired=outer.repaired)
    return Decoded(None, outer.end, NOT_OBJECT, f"an object in braces is needed, not {_kind(value)}")
