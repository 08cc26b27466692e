"""GBNF read independently of what writes it: how long a text can get, and texts that a grammar allows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|([nrt])|(.))", re.DOTALL)
_SPECIAL = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass
class Literal:
    text: str


@dataclass
class Chars:
    ranges: list[tuple[int, int]]


@dataclass
class Rule:
    name: str


@dataclass
class Repeat:
    of: Any
    least: int
    most: int


@dataclass
class Sequence:
    parts: list[Any]


@dataclass
class Choice:
    options: list[Any]


class Grammar:
    """A grammar whose rules do not call themselves; a repetition without an upper bound is an error."""

    def __init__(self, text: str) -> None:
        lines = [line.partition(" ::= ") for line in text.splitlines() if line]
        self.rules = {name: _Reader(body).whole() for name, _, body in lines}

    def most_bytes(self, node: Any = None) -> int:
        """Bytes of the longest text, in UTF-8."""
        match node:
            case None:
                return self.most_bytes(self.rules["root"])
            case Literal(text):
                return len(text.encode())
            case Chars(ranges):
                return max(len(chr(last).encode()) for _, last in ranges)
            case Rule(name):
                return self.most_bytes(self.rules[name])
            case Repeat(of, _, most):
                return most * self.most_bytes(of)
            case Sequence(parts):
                return sum(map(self.most_bytes, parts))
            case _:
                return max(map(self.most_bytes, node.options))

    def derive(self, pick: Callable[[int, int], int], node: Any = None) -> str:
        """A text; ``pick`` chooses a number within two bounds, both included."""
        match node:
            case None:
                return self.derive(pick, self.rules["root"])
            case Literal(text):
                return text
            case Chars(ranges):
                first, last = ranges[pick(0, len(ranges) - 1)]
                return chr(pick(first, last))
            case Rule(name):
                return self.derive(pick, self.rules[name])
            case Repeat(of, least, most):
                return "".join(self.derive(pick, of) for _ in range(pick(least, most)))
            case Sequence(parts):
                return "".join(self.derive(pick, part) for part in parts)
            case _:
                return self.derive(pick, node.options[pick(0, len(node.options) - 1)])


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> Any:
        node = self.choice()
        assert self.at == len(self.text), self.text[self.at :]
        return node

    def take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def choice(self) -> Any:
        options = [self.sequence()]
        while self.take(r" *\| *"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(options)

    def sequence(self) -> Any:
        parts = [self.item()]
        while self.take(r" +(?![|)])"):
            parts.append(self.item())
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def item(self) -> Any:
        if self.take(r"\("):
            node = self.choice()
            assert self.take(r"\)")
        elif found := self.take(r'"((?:[^"\\]|\\.)*)"'):
            node = Literal(_unescaped(found[1]))
        elif found := self.take(r"\[((?:[^\]\\]|\\.)*)\]"):
            node = Chars(_ranges(found[1]))
        else:
            found = self.take(r"[a-z-]+")
            assert found, self.text[self.at :]
            node = Rule(found[0])
        bounds = self.take(r"\{(\d+),(\d+)\}")
        assert not self.take(r"[*+?{]"), "a repetition without an upper bound"
        return Repeat(node, int(bounds[1]), int(bounds[2])) if bounds else node


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _SPECIAL[m[2]] if m[2] else m[3], text)


def _ranges(text: str) -> list[tuple[int, int]]:
    chars = [m[0] for m in re.finditer(r"\\u[0-9a-f]{4}|\\.|.", text, re.DOTALL)]
    found: list[tuple[int, int]] = []
    while chars:
        first = ord(_unescaped(chars.pop(0)))
        last = first
        if len(chars) > 1 and chars[0] == "-":
            chars.pop(0)
            last = ord(_unescaped(chars.pop(0)))
        assert first <= last
        found.append((first, last))
    return found
