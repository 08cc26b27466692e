"""The relaxed reader: what models write instead of JSON, where it can be read in one way only.

Understood: Python literals with single or (without a backslash) triple quotes, ``True``/``None``, trailing commas, raw
line breaks inside strings, full-width or curly punctuation where structure stands, and a written-out ``\\n`` between
tokens. Every string ends at its first unescaped closing quote and structure must follow it: inner quotes that were not
escaped are therefore refused, not guessed. Nothing is ever closed, joined or dropped for the model. The characters
inside a value stay as they are. Linear in the text; nesting is bounded.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

MAX_DEPTH = 64

_GAP = re.compile(r"(?:[ \t\r\n\xa0\u3000\ufeff]|\\[nrt])*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"(?:true|false|null|True|False|None)(?!\w)")
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "＂": "＂"}
_CONTENT = {close: re.compile(rf"[^{close}\\]*+(?:\\.[^{close}\\]*+)*+", re.DOTALL) for close in _QUOTES.values()}
_ESCAPE = re.compile(r"\\(.)|\"", re.DOTALL)
_PLAYS_ON = re.compile(r"(?mi)^[ \t*_`]*(?:observation|thought|action)[*_`]*[ \t]*[:：]")


class Ambiguous(ValueError):
    """The text cannot be read in one way only. ``decisive``: this reason says more than the JSON error does."""

    def __init__(self, reason: str, *, decisive: bool = False) -> None:
        super().__init__(reason)
        self.decisive = decisive


def read_relaxed(text: str, at: int) -> tuple[object, int]:
    """The value that begins at ``at`` and where it ends. Raises Ambiguous."""
    return _value(text, at, 0)


def _value(text: str, at: int, depth: int) -> tuple[object, int]:
    if depth > MAX_DEPTH:
        raise Ambiguous(f"the arguments are nested deeper than {MAX_DEPTH} levels", decisive=True)
    char = text[at : at + 1]
    if char in ("{", "｛"):
        return _object(text, at + 1, depth)
    if char in ("[", "［"):
        return _list(text, at + 1, depth)
    if char in _QUOTES:
        return _string(text, at)
    if number := _NUMBER.match(text, at):
        return _number(number[0]), number.end()
    if word := _WORD.match(text, at):
        return _WORDS[word[0]], word.end()
    return _fail(text, at)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, object], int]:
    members: dict[str, object] = {}
    at = _skip(text, at)
    if text[at : at + 1] in ("}", "｝"):
        return members, at + 1
    while True:
        if text[at : at + 1] not in _QUOTES:
            _fail(text, at)
        key, at = _string(text, at)
        at = _skip(text, at)
        if text[at : at + 1] not in (":", "："):
            _fail(text, at)
        if key in members:
            raise Ambiguous(f"the key {key[:60]!r} stands twice in one object", decisive=True)
        members[key], at = _value(text, _skip(text, at + 1), depth + 1)
        at, more = _next(text, at, "}｝")
        if not more:
            return members, at


def _list(text: str, at: int, depth: int) -> tuple[list[object], int]:
    items: list[object] = []
    at = _skip(text, at)
    if text[at : at + 1] in ("]", "］"):
        return items, at + 1
    while True:
        item, at = _value(text, at, depth + 1)
        items.append(item)
        at, more = _next(text, at, "]］")
        if not more:
            return items, at


def _next(text: str, at: int, closers: str) -> tuple[int, bool]:
    """Step over a comma (also one before the closer) or the closer; whether another member follows."""
    at = _skip(text, at)
    comma = text[at : at + 1] in (",", "，")
    if comma:
        at = _skip(text, at + 1)
    char = text[at : at + 1]
    if char and char in closers:
        return at + 1, False
    if not comma:
        _fail(text, at)
    return at, True


def _string(text: str, at: int) -> tuple[str, int]:
    quote = text[at]
    if quote in "\"'" and text.startswith(quote * 3, at):
        return _tripled(text, at, quote)
    close = _QUOTES[quote]
    found = _CONTENT[close].match(text, at + 1)
    end = found.end() if found else at + 1
    if not text.startswith(close, end):
        raise Ambiguous("a string is not closed", decisive=True)
    content = text[at + 1 : end]
    if "\n" in content and _PLAYS_ON.search(content):
        raise Ambiguous("a string runs over a line of the protocol", decisive=True)
    if "\\" in content or '"' in content:
        content = _unescape(content, close)
    return content, end + 1


def _tripled(text: str, at: int, quote: str) -> tuple[str, int]:
    end = text.find(quote * 3, at + 3)
    content = text[at + 3 : end]
    # Whether "\n" in such a block means a line break or a backslash cannot be known; neither what a fourth quote means.
    if end < 0 or "\\" in content or content[:1] == quote or text.startswith(quote, end + 3):
        raise Ambiguous("a triple-quoted string is not JSON", decisive=True)
    return content, end + 3


def _unescape(content: str, close: str) -> str:
    def replace(escape: re.Match[str]) -> str:
        char = escape[1]
        if char is None:
            return '\\"'
        if char in '"\\/bfnrtu':
            return escape[0]
        if char == "'" or char == close:
            return char
        raise Ambiguous(f"\\{char} is no escape of JSON", decisive=True)

    try:
        return str(json.loads(f'"{_ESCAPE.sub(replace, content)}"', strict=False))
    except json.JSONDecodeError as error:
        raise Ambiguous(error.msg, decisive=True) from None


def _number(digits: str) -> int | float:
    try:
        return float(digits) if any(char in ".eE" for char in digits) else int(digits)
    except ValueError:
        raise Ambiguous("a number has too many digits", decisive=True) from None


def _skip(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _fail(text: str, at: int) -> NoReturn:
    raise Ambiguous(f"unexpected {text[at : at + 1]!r}" if at < len(text) else "the object is not closed")
