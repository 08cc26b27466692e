"""Code that a person put into a message: a fenced block, or what follows ``执行：`` or ``run:``. Pure, linear."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_OPENS = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<lang>[^\s`]*)[^\n`]*?(?P<end>\r?\n)")
_CLOSES = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})[ \t]*\r?\n?")
_MARKED = re.compile(
    r"^[ \t\u3000]*(?:执行(?:代码)?|运行代码|(?i:run))[ \t]*[:：][ \t]?(?P<body>.*)\Z", re.MULTILINE | re.DOTALL
)
_PYTHON = frozenset({"", "python", "py", "python3"})


@dataclass(frozen=True, slots=True)
class _Block:
    """A closed fenced block, from ``begin`` to ``end`` of the message."""

    begin: int
    end: int
    lang: str
    code: str


def code_in(message: str) -> str | None:
    """The code of the message, or None.

    Of several fenced blocks the first in Python (or without a language) counts, else the first. The line end before
    the closing fence, written as that of the opening one, belongs to the fence; all other bytes are the code's. After
    ``执行：`` or ``run:`` all to the end of the message is code. Blank code is none.
    """
    blocks = _blocks(message)
    if blocks:
        code = next((block for block in blocks if block.lang in _PYTHON), blocks[0]).code
    else:
        marked = _MARKED.search(message)
        code = marked["body"].removeprefix("\r").removeprefix("\n") if marked else ""
    return code if code.strip() else None


def outside_code(message: str) -> str:
    """The message without its fenced blocks and marked lines."""
    at = 0
    kept: list[str] = []
    for block in _blocks(message):
        kept.append(message[at : block.begin])
        at = block.end
    return _MARKED.sub("", "".join([*kept, message[at:]]))


def _blocks(message: str) -> list[_Block]:
    """The closed fenced blocks; one that is never closed is no block."""
    found: list[_Block] = []
    opened: re.Match[str] | None = None
    for line in _LINE.finditer(message):
        if opened is None:
            opened = _OPENS.fullmatch(message, line.start(), line.end())
            continue
        closing = _CLOSES.fullmatch(message, line.start(), line.end())
        if closing is not None and closing["fence"].startswith(opened["fence"]):
            code = message[opened.end() : line.start()].removesuffix(opened["end"])
            found.append(_Block(opened.start(), line.end(), opened["lang"].lower(), code))
            opened = None
    return found
