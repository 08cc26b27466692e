"""Plain text to blocks: paragraphs are parted by empty lines, or are the lines themselves where there are none."""

from __future__ import annotations

import re

from devassist.knowledge.parsing.charset import decode
from devassist.knowledge.parsing.cleaning import clean
from devassist.knowledge.parsing.document import Block, Reading

_PARAGRAPH = re.compile(r"[^\n]+(?:\n(?![ \t\u3000]*\n)[^\n]+)*")


def read_plain(data: bytes) -> Reading:
    """Raises Refused (``undecodable``)."""
    decoded = decode(data)
    return Reading(tuple(text_blocks(clean(decoded.text))), charset=decoded.charset)


def text_blocks(text: str) -> list[Block]:
    """Blocks of lines that stand together; each keeps its lines, which may be paragraphs themselves."""
    found: list[Block] = []
    for match in _PARAGRAPH.finditer(text):
        lines = match[0]
        if lines.strip():
            start = match.start() + len(lines) - len(lines.lstrip())
            stripped = "\n".join(line.rstrip() for line in lines.strip().split("\n"))
            found.append(Block("text", stripped, start=start, end=match.start() + len(lines.rstrip())))
    return found
