"""Cutting long texts at borders that a reader would choose (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

PIECE_CHARS = 1200
"""About what a section of developer documentation has at the ninetieth percentile, so nine of ten stay whole. A result
of search is one piece: longer, its vector speaks of several things, and five of them crowd a prompt out; shorter, it
says of what it speaks no more. An article is never cut, whatever its length: it is what is cited."""

_SENTENCE = re.compile(r"(?<=[。！？；])|(?<=[.!?;])\s+")


def pieces(parts: Iterable[str], joint: str = "\n", most: int = PIECE_CHARS) -> list[str]:
    """``parts`` joined in order into texts of about ``most`` characters; only a part that is longer alone is cut."""
    found: list[str] = []
    current: list[str] = []
    size = 0
    for part in (piece for each in parts for piece in _fitting(each, most)):
        if current and size + len(part) > most:
            found.append(joint.join(current))
            current, size = [], 0
        current.append(part)
        size += len(part) + len(joint)
    if current:
        found.append(joint.join(current))
    return found


def _fitting(part: str, most: int) -> list[str]:
    """The part, cut at lines, then at sentences, then anywhere, when it is half again as long as it may be."""
    if len(part) <= most * 3 // 2:
        return [part]
    lines = part.split("\n")
    if len(lines) > 1:
        return [text for line in _grouped(lines, "\n", most) for text in _fitting_line(line, most)]
    return _fitting_line(part, most)


def _fitting_line(line: str, most: int) -> list[str]:
    if len(line) <= most * 3 // 2:
        return [line]
    sentences = [each for each in _SENTENCE.split(line) if each]
    short = [text[i : i + most] for text in sentences for i in range(0, len(text), most)]
    joint = "" if len(sentences) < 2 or "。" in line else " "
    return [each.strip() for each in _grouped(short, joint, most) if each.strip()]


def _grouped(parts: Sequence[str], joint: str, most: int) -> list[str]:
    found: list[str] = []
    for part in parts:
        if found and len(found[-1]) + len(joint) + len(part) <= most:
            found[-1] += joint + part
        else:
            found.append(part)
    return found
