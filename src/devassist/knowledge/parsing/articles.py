"""Lines to clauses of a legal text (pure): headings, articles, preamble, tables, annexes.

Nothing is lost: every character of the lines (but white space, emphasis of labels, and the full stop after an English
number) stands in exactly one of ``outline``, a label of an
article, a text of a clause, or ``contents`` (the lines of a table of contents).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from devassist.knowledge.parsing.clause_builder import ClauseBuilder
from devassist.knowledge.parsing.document import Block, ClauseDraft
from devassist.knowledge.parsing.labels import (
    Label,
    choose,
    heading_of,
    is_annex,
    is_contents,
    label_of,
    plain_heading,
    without_emphasis,
)

LEAST_ARTICLES = 2
"""From so many articles on a text is read as a legal one."""
_LONGEST_SECOND_LINE = 30
_ITEM = re.compile(r"[（(][一二三四五六七八九十百0-9]{1,4}[)）]|[0-9]{1,3}[.．、)）](?!\d)|[①-⑳]")


@dataclass(frozen=True, slots=True)
class Articles:
    """The clauses of a legal text, its headings in order (each once), and what was only a table of contents."""

    clauses: tuple[ClauseDraft, ...]
    outline: tuple[str, ...]
    contents: tuple[str, ...]
    warnings: tuple[str, ...]


class Item(NamedTuple):
    """An item （一） of a paragraph; offsets are code points in the article's text."""

    item: int
    start: int
    end: int


class Paragraph(NamedTuple):
    """A paragraph (款) of an article with its items (项)."""

    paragraph: int
    start: int
    end: int
    items: tuple[Item, ...]


def paragraphs(text: str) -> tuple[Paragraph, ...]:
    """The paragraphs of an article's canonical text, numbered from 1; an item belongs to the paragraph before it."""
    found: list[Paragraph] = []
    at = 0
    for line in text.split("\n"):
        end = at + len(line)
        if found and _ITEM.match(line):
            last = found[-1]
            found[-1] = last._replace(end=end, items=(*last.items, Item(len(last.items) + 1, at, end)))
        elif line:
            found.append(Paragraph(len(found) + 1, at, end, ()))
        at = end + 1
    return tuple(found)


def script_of(blocks: Sequence[Block]) -> Literal["zh", "en"] | None:
    """Which kind of labels the text has, or None when it is no legal text."""
    for script in ("zh", "en"):
        labels = {i: label for i, block in enumerate(blocks) if (label := _label(block, script))}
        if len(choose(labels, ())) >= LEAST_ARTICLES:
            return script
    return None


def as_lines(blocks: Sequence[Block]) -> list[Block]:
    """One block a line; items with what is printed before them, tables as they are."""
    lines: list[Block] = []
    for block in blocks:
        if block.kind == "table":
            lines.append(block)
            continue
        at = block.start
        for number, text in enumerate(block.text.split("\n")):
            if stripped := text.strip():
                shown = f"{block.marker} {stripped}" if block.marker and not number else stripped
                start = None if at is None else at + text.index(stripped)
                end = None if start is None else start + len(stripped)
                kind = "heading" if block.kind == "heading" else "text"
                lines.append(replace(block, kind=kind, text=shown, marker="", start=start, end=end))
            at = None if at is None else at + len(text) + 1
    return lines


def articles(lines: Sequence[Block], script: Literal["zh", "en"] = "zh") -> Articles:
    """The clauses of ``lines`` (as ``as_lines`` makes them)."""
    skipped = _table_of_contents(lines, script)
    labels = {i: label for i, line in enumerate(lines) if i not in skipped and (label := _label(line, script))}
    last = max(choose(labels, ()), default=-1)
    annexes = [i for i, line in enumerate(lines) if i not in skipped and is_annex(line, i > last >= 0)]
    chosen = choose(labels, annexes)
    first = min(chosen, default=len(lines))
    builder = ClauseBuilder(script)
    for i, line in enumerate(lines):
        if i in skipped:
            continue
        if line.kind == "table":
            builder.table(line)
        elif i in chosen:
            builder.article(line, chosen[i])
        elif i in annexes and i > first:
            builder.annex(line)
        elif (heading := heading_of(line)) is not None:
            builder.heading(line, heading)
        elif _goes_on(line) and (i + 1 in chosen or _is_heading(lines, i + 1)) and builder.ends_with_numbered:
            builder.more_of_heading(line)
        else:
            builder.text(line)
    builder.close()
    warnings = [
        f"“{label.printed}” begins a line but is out of order; it was read as text"
        for i, label in labels.items()
        if i not in chosen and not label.weak
    ]
    contents = tuple(lines[i].text for i in sorted(skipped))
    return Articles(tuple(builder.clauses), tuple(builder.outline), contents, tuple(warnings[:20]))


def _label(line: Block, script: Literal["zh", "en"]) -> Label | None:
    return None if line.kind in ("table", "code") else label_of(without_emphasis(line.text.strip()), script)


def _table_of_contents(lines: Sequence[Block], script: Literal["zh", "en"]) -> set[int]:
    """Places of a table of contents: a run of headings without text of which the first stands again later."""
    found: set[int] = set()
    i = 0
    while i < len(lines):
        begins = is_contents(lines[i])
        run = [i] if begins else []
        j = i + begins
        while j < len(lines) and _is_listed(lines[j], script):
            run.append(j)
            j += 1
        entries = run[begins:]
        if entries and (begins or _has_siblings([lines[k] for k in entries])):
            names = [plain_heading(lines[k].text) for k in entries]
            again = names.index(names[0], 1) if names[0] in names[1:] else None
            later = any(plain_heading(line.text) == names[0] for line in lines[j:])
            if again is not None or later:
                found.update(run[: again + begins] if again is not None else run)
        i = max(j, i + 1)
    return found


def _is_listed(line: Block, script: Literal["zh", "en"]) -> bool:
    bare = replace(line, text=line.text.rstrip("0123456789").rstrip(" .．·…\t\u3000")) if line.kind != "table" else line
    if line.kind == "table" or not bare.text:
        return False
    short = len(line.text) <= 60 and not line.text.endswith(("。", "；", "，"))
    return short and (heading_of(bare) is not None or _label(bare, script) is not None)


def _goes_on(line: Block) -> bool:
    """Whether a line may be the second one of a heading: short, and no sentence."""
    text = line.text.strip()
    return line.kind == "text" and len(text) <= _LONGEST_SECOND_LINE and not re.search(r"[。；：;:.]", text)


def _is_heading(lines: Sequence[Block], i: int) -> bool:
    return i < len(lines) and lines[i].kind != "table" and heading_of(lines[i]) is not None


def _has_siblings(run: Sequence[Block]) -> bool:
    """Whether a heading follows another of its rank at once, which happens only where nothing is said under them."""
    ranks = [heading.rank if (heading := heading_of(line)) else 5 for line in run]
    return any(later <= earlier for earlier, later in pairwise(ranks))
