"""What people and programs read: columns that know wide characters, JSON lines, times, and texts that cannot play with
the terminal."""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that reorder what follows."""
_GAP = "  "


def note(text: str) -> None:
    """A line for people, on stderr."""
    click.echo(text, err=True)


def out_json(value: Any) -> None:
    """One JSON value on one line of stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def clean(text: str) -> str:
    """``text`` with what would steer a terminal shown as escapes."""
    return _UNSAFE.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


def one_line(text: str) -> str:
    return clean(" ".join(text.split()))


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def width(text: str) -> int:
    """Columns that ``text`` takes in a terminal: two for wide characters, none for marks that join others."""
    return sum(map(_width, text))


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """``text`` in at most ``columns`` columns; an ellipsis stands for what was left out."""
    if width(text) <= columns:
        return text
    used, kept = 1, ""
    for char in text:
        used += _width(char)
        if used > columns:
            break
        kept += char
    return kept + "…"


def pad(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def columns() -> int:
    """How wide lines may be; without a terminal nobody's lines need folding, but a table should still be readable."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows in aligned columns; the last one gets the room that is left."""
    cells = [list(head), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(width(row[i]) for row in cells) for i in range(len(head))]
    left = max(columns() - sum(widths[:-1]) - len(_GAP) * (len(head) - 1), 20)
    lines: list[str] = []
    for row in cells:
        shown = [pad(cell, room) for cell, room in zip(row[:-1], widths, strict=False)]
        lines.append(_GAP.join([*shown, cut(row[-1], left)]).rstrip())
    return "\n".join(lines)


def indented(text: str, by: str, most: int = 0) -> str:
    """The lines of ``text`` behind ``by``; with ``most`` only so many, and how many were left out."""
    lines = clean(text).splitlines() or [""]
    left_out = len(lines) - most if most else 0
    if left_out > 0:
        lines = [*lines[:most], f"… {left_out} more lines"]
    return "\n".join(f"{by}{line}".rstrip() for line in lines)


def local_time(us: int) -> str:
    """A time as the clock on the wall shows it, with its offset."""
    return datetime.fromtimestamp(us / 1_000_000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")


def short_time(us: int) -> str:
    return datetime.fromtimestamp(us / 1_000_000, UTC).astimezone().strftime("%m-%d %H:%M:%S")


def took(ms: int) -> str:
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def args_text(args: Any) -> str:
    return "" if args is None else json.dumps(args, ensure_ascii=False)
