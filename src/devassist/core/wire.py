"""Values as they go to clients: what any JSON reader can hold, within bounds, and naming what was cut.

A string over 16,000 characters is cut, and no message exceeds 64 KiB as UTF-8. What was cut stands in ``truncated``:
``{path, ref, characters}``, where ``path`` is a JSON pointer (RFC 6901) into the message, ``ref`` the payload that
holds it whole, and ``characters`` how many it has: those of the string, or those of the payload where a value was too
large or too deep to show and is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, cast

from devassist.core.codec import sound

Text = Callable[[str], str | None]
"""The text of a reference, or None once its domain was erased."""

MAX_TEXT = 16_000
MAX_BYTES = 64 * 1024 - 512
"""Leaves room for the ``id`` and ``data`` of a message."""

_MAX_NODES = 20_000
_MAX_DEPTH = 64
_MAX_KEY = 200
_PLANS = (
    (MAX_TEXT, 0), (8_000, 0), (4_000, 0), (MAX_TEXT, 1), (8_000, 1), (4_000, 1), (4_000, 2), (1_000, 2),
)  # fmt: skip
"""What is tried until a message fits: (characters of a string, how many of the structured values are left out)."""
_LINE_ENDS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_json(value: Any) -> str:
    """JSON on one line, whatever a reader takes for a line end. ``value`` holds no lone surrogate and no NaN."""
    text = _encode(value)
    for char, escaped in _LINE_ENDS:  # str.translate would take most of a stream's time
        text = text.replace(char, escaped)
    return text


def size(value: Any) -> int:
    """Bytes of ``value`` on the wire."""
    return len(to_json(value).encode())


def parse(text: str | None) -> Any:
    """A stored JSON text as a value of plain JSON; None when there is none or it cannot be read."""
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_float, parse_int=_int)
    except (ValueError, RecursionError):
        return None


def _no_number(_: str) -> None:
    """NaN and Infinity are no JSON."""


def _float(digits: str) -> float | str:
    value = float(digits)
    return value if isfinite(value) else digits


def _int(digits: str) -> int | str:
    """An integer beyond 64 bits stays as its digits: few readers would hold it."""
    return int(digits) if len(digits) < 19 else digits


class Cutter:
    """Cuts values to ``limit`` characters a string and notes what it cut in ``cuts``."""

    __slots__ = ("_nodes", "cuts", "limit")

    def __init__(self, limit: int = MAX_TEXT) -> None:
        self.limit = limit
        self.cuts: list[dict[str, Any]] = []
        self._nodes = 0

    def note(self, path: str, ref: str | None, characters: int) -> None:
        self.cuts.append({"path": path, "ref": ref, "characters": characters})

    def text(self, value: str | None, path: str, ref: str | None) -> str | None:
        if value is None:
            return None
        if len(value) > self.limit:
            self.note(path, ref, len(value))
            value = value[: self.limit]
        return sound(value)

    def json(self, whole: str | None, path: str, ref: str | None, *, leave_out: bool = False) -> Any:
        """The value of the JSON text ``whole`` with its strings cut; None where it is too large or left out."""
        if whole is None:
            return None
        mark = len(self.cuts)
        try:
            if not leave_out:
                self._nodes = 0
                return self._walk(parse(whole), path, ref, 0)
        except _TooLargeToShow:
            del self.cuts[mark:]
        self.note(path, ref, len(whole))
        return None

    def _walk(self, value: Any, path: str, ref: str | None, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise _TooLargeToShow
        if isinstance(value, str):
            return self.text(value, path, ref)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self._walk(item, f"{path}/{index}", ref, depth + 1) for index, item in enumerate(items)]
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            if any(len(key) > _MAX_KEY for key in entries):
                raise _TooLargeToShow
            return {
                sound(key): self._walk(item, f"{path}/{_token(sound(key))}", ref, depth + 1)
                for key, item in entries.items()
            }
        return value


class _TooLargeToShow(Exception):
    """A value has too many parts, too deep ones or too long keys to stand in a message."""


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def fit(build: Callable[[Cutter, int], dict[str, Any]]) -> dict[str, Any]:
    """The fullest message of ``build(cutter, left_out)`` that fits; ``left_out`` structured values are to be null."""
    message: dict[str, Any] = {}
    for limit, left_out in _PLANS:
        message = build(Cutter(limit), left_out)
        if size(message) <= MAX_BYTES:
            break
    return message


def head_of(text: str, room: int) -> str:
    """The longest beginning of ``text`` whose JSON takes at most ``room`` bytes."""
    if size(text) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if size(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low]
