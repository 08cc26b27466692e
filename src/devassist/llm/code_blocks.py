"""Code that a person put into a message: a fenced block, or what follows ``执行：`` or ``run:``. Pure."""

from __future__ import annotations

import re

_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<lang>[^\s`]*)[^\n`]*\r?\n(?P<body>.*?)^ {0,3}(?P=fence)[`~]*[ \t]*\r?$",
    re.MULTILINE | re.DOTALL,
)
_MARKED = re.compile(
    r"^[ \t]*(?:(?:执行|执行代码|运行代码)[:：]|[Rr]un[:：])[ \t]?(?P<body>.*)\Z", re.MULTILINE | re.DOTALL
)
_PYTHON = frozenset({"", "python", "py", "python3"})


def code_in(message: str) -> str | None:
    """The code of the message, or None.

    Of several fenced blocks the first in Python (or without a language) counts, else the first. The line end before
    the closing fence belongs to the fence; all other bytes are the code's. After ``执行：`` or ``run:`` all to the end
    of the message is code.
    """
    blocks = list(_FENCED.finditer(message))
    if blocks:
        block = next((one for one in blocks if one["lang"].lower() in _PYTHON), blocks[0])
        body = block["body"]
        code = body.removesuffix("\n")
        return code.removesuffix("\r") if code != body else code
    marked = _MARKED.search(message)
    if marked is None or not marked["body"].strip():
        return None
    return marked["body"].removeprefix("\r").removeprefix("\n")


def outside_code(message: str) -> str:
    """The message without its fenced blocks and marked lines."""
    return _MARKED.sub("", _FENCED.sub("", message))
