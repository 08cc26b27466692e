"""Lines of pages to paragraphs (pure): without page numbers and running heads, joined across lines and pages.

A line ends its paragraph when the next line's first word would still have fitted on it, when the next line stands
further down than lines do, is set in, or is of another size. Between pages there is no distance to go by, so the end
of a sentence counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from devassist.knowledge.parsing.cleaning import CJK
from devassist.knowledge.parsing.document import Block, Cell

HYPHEN = "\x02"
_EDGE = 0.13  # of the page's height: where heads and page numbers stand
_EDGE_LINES = 2
_LEAST_SHARE = 0.4  # a running head stands on so many pages, or on every other one
_PAGE_NUMBER = re.compile(
    r"[-—–·•\s]*(?:\d{1,4}|[ivxlc]{1,7})[-—–·•\s]*|第\s*[\d一二三四五六七八九十百]+\s*页(?:\s*[,，/]?\s*共\s*[\d一二三四五六七八九十百]+\s*页)?|"
    r"(?:page|p\.)\s*\d+(?:\s*(?:of|/)\s*\d+)?|\d+\s*(?:/|of)\s*\d+",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[。！？；：!?;:.…][”’」』）)\"']*$")
_OPENS = re.compile(
    r"第[零〇一二两三四五六七八九十百千0-9]{1,9}(?:条|章|节|编)|[（(][一二三四五六七八九十0-9]{1,3}[)）]|[一二三四五六七八九十]+、|"
    r"[•▪●■➢✓*-]\s|\d{1,3}[.)、．]|[①-⑳]|(?:Article|Section)\s+\d"
)
_OPENS_SURELY = re.compile(
    r"第[零〇一二两三四五六七八九十百千0-9]{1,9}(?:条|章|节|编)(?:之[一二三四五六七八九十]{1,3})?[ \u3000]"
)
_BULLET = re.compile(r"(?:[•▪●■➢✓*-]|\d{1,3}[.)]|[（(][一二三四五六七八九十0-9]{1,3}[)）])")
_CJK_END = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef”’…—]")
_CJK_START = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef“‘—…]")
_HEADING_SIZE = 1.12
_LONGEST_HEADING = 120
_WINDOW = 12
_APART = 1.22  # of the usual distance of lines: paragraphs are set apart by more


@dataclass(frozen=True, slots=True)
class Line:
    """A line as set: its text in cells (parts that stand wide apart, or a rule between them: ``ruled``) with where each
    begins. Points; ``base`` is the height of the baseline from below, ``size`` about the font's."""

    cells: tuple[str, ...]
    starts: tuple[float, ...]
    ruled: bool
    page: int
    height: float
    x0: float
    x1: float
    base: float
    size: float

    @property
    def text(self) -> str:
        return " ".join(self.cells)


def blocks_of_pages(pages: Sequence[Sequence[Line]]) -> tuple[list[Block], list[str]]:
    """The blocks of a document in reading order, and the lines that were left out because pages repeat them."""
    kept, dropped = _without_edges(pages)
    lines = [line for page in kept for line in page]
    if not lines:  # a document of nothing but what looks like page furniture
        lines = [line for page in pages for line in page]
    layout = _Layout(lines)
    blocks: list[Block] = []
    i = 0
    while i < len(lines):
        rows = _table_at(lines, i)
        if rows > 1:
            blocks.append(_table(lines[i : i + rows]))
            i += rows
            continue
        j = i + 1
        while j < len(lines) and len(lines[j].cells) == 1 and layout.joins(i, j):
            j += 1
        blocks.append(layout.block(lines[i:j]))
        i = j
    return layout.with_levels(blocks), dropped


def joined(texts: Iterable[str]) -> str:
    """Lines of one paragraph: without a space next to Chinese, and without the hyphen that broke a word."""
    whole = ""
    for text in texts:
        if whole.endswith(HYPHEN):
            whole = whole[:-1] + ("" if text[:1].islower() else "-") + text
        elif not whole or _CJK_END.match(whole[-1]) or _CJK_START.match(text):
            whole += text
        else:
            whole += " " + text
    return whole.replace(HYPHEN, "-")


def _without_edges(pages: Sequence[Sequence[Line]]) -> tuple[list[list[Line]], list[str]]:
    edges = [_edge_lines(page) for page in pages]
    counts: Counter[tuple[str, bool, int]] = Counter()
    for edge in edges:
        counts.update({_key(line) for line in edge})
    least = max(2, _LEAST_SHARE * len(pages))
    dropped: dict[str, None] = {}
    kept: list[list[Line]] = []
    for page, edge in zip(pages, edges, strict=True):
        running = [line for line in edge if _repeats(line, counts, least)]
        numbers = [line for line in edge if _PAGE_NUMBER.fullmatch(line.text)]
        for line in running:
            if line not in numbers:
                dropped[re.sub(r"\d+", "#", line.text)] = None
        kept.append([line for line in page if line not in running and line not in numbers])
    return kept, list(dropped)


def _edge_lines(page: Sequence[Line]) -> list[Line]:
    """The outermost lines within the edges of a page."""
    ordered = sorted(page, key=lambda line: -line.base)
    top = [line for line in ordered[:_EDGE_LINES] if line.base > line.height * (1 - _EDGE)]
    bottom = [line for line in ordered[-_EDGE_LINES:] if line.base < line.height * _EDGE]
    return [*top, *(line for line in bottom if line not in top)]


def _key(line: Line) -> tuple[str, bool, int]:
    return re.sub(r"\d+", "#", "".join(line.text.split())), line.base > line.height / 2, round(line.base / 4)


def _repeats(line: Line, counts: Counter[tuple[str, bool, int]], least: float) -> bool:
    text, is_top, place = _key(line)
    return sum(counts[text, is_top, near] for near in (place - 1, place, place + 1)) >= least


def _table_at(lines: Sequence[Line], i: int) -> int:
    """How many lines from ``i`` on are rows of one table: as many cells, beginning below one another."""
    first = lines[i]
    if len(first.cells) < 2:
        return 0
    count = 0
    for line in lines[i:]:
        aligned = len(line.cells) == len(first.cells) and (
            (first.ruled and line.ruled)
            or all(abs(a - b) < 1.5 * first.size for a, b in zip(line.starts, first.starts, strict=True))
        )
        if not aligned:
            break
        count += 1
    return count


def _table(lines: Sequence[Line]) -> Block:
    cells = tuple(
        Cell(text.replace(HYPHEN, "-"), row, column)
        for row, line in enumerate(lines)
        for column, text in enumerate(line.cells)
    )
    return Block("table", "", page=lines[0].page, cells=cells)


class _Layout:
    """What is usual in a document: size, distance of lines, margins, whether paragraphs are set in or apart."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        sizes: Counter[float] = Counter()
        for line in lines:
            sizes[round(line.size * 2) / 2] += len(line.text)
        self._body = max(sizes, key=lambda size: sizes[size])
        steps = sorted(
            a.base - b.base
            for a, b in pairwise(lines)
            if a.page == b.page and self._is_body(a) and self._is_body(b) and 0 < a.base - b.base < 4 * self._body
        )
        self._step = steps[len(steps) // 5] if steps else self._body * 1.4
        self._margins = [self._margins_at(i) for i in range(len(lines))]
        indented = sum(line.x0 > left + 1.2 * line.size for line, (left, _) in zip(lines, self._margins, strict=True))
        self._sets_in = indented > 0.15 * len(lines)

    def _is_body(self, line: Line) -> bool:
        return abs(line.size - self._body) < 0.12 * self._body

    def _margins_at(self, i: int) -> tuple[float, float]:
        """The left and right border of the column in which a line stands, by the lines around it."""
        line = self._lines[i]
        near = [
            other
            for other in self._lines[max(0, i - _WINDOW) : i + _WINDOW + 1]
            if self._is_body(other)
            and other.x0 < line.x1
            and line.x0 < other.x1
            and abs(other.x0 - line.x0) < 4 * line.size
        ] or [line]
        left = min(other.x0 for other in near)
        ends = sorted((other.x1 for other in near), reverse=True)
        right = next((a for a, b in pairwise(ends) if a - b < 0.6 * line.size), ends[0])
        return left, right

    def joins(self, i: int, j: int) -> bool:
        """Whether line ``j``, the next one, goes on the paragraph that began at ``i``."""
        first, last, line = self._lines[i], self._lines[j - 1], self._lines[j]
        if len(last.cells) > 1 or abs(last.size - line.size) > 0.12 * last.size or _OPENS_SURELY.match(line.text):
            return False
        left, right = self._margins[j - 1]
        if last.x1 + _first_word(line, last) < right - 0.3 * last.size:
            return False
        ends, opens = bool(_ENDS.search(last.text)), bool(_OPENS.match(line.text))
        if ends and opens:
            return False
        own_left, _ = self._margins[j]
        is_item = bool(_BULLET.match(first.text))
        is_set_in = line.x0 > own_left + 1.2 * line.size and not is_item
        moved = line.page != last.page or line.base >= last.base
        if moved:
            if not ends:
                return not (is_set_in and self._sets_in and opens)
            return self._sets_in and not is_set_in
        if last.base - line.base > _APART * self._step * max(1.0, line.size / self._body):
            return False
        if is_set_in and last.x0 <= left + 0.5 * last.size:
            return False
        return not (is_set_in and self._sets_in and j - 1 == i and bool(_CJK_START.match(line.text)))

    def block(self, lines: Sequence[Line]) -> Block:
        text = joined(line.text for line in lines)
        first = lines[0]
        large = first.size > _HEADING_SIZE * self._body and len(text) <= _LONGEST_HEADING
        return Block("heading" if large else "text", text, level=round(first.size * 2) if large else 0, page=first.page)

    def with_levels(self, blocks: Sequence[Block]) -> list[Block]:
        """Headings by their size: the largest is of level 1. Alike sizes are one level."""
        sizes: list[int] = []
        for size in sorted({block.level for block in blocks if block.kind == "heading"}, reverse=True):
            if not sizes or sizes[-1] - size > 1:
                sizes.append(size)
        levels = {
            block.level: min(sum(each >= block.level for each in sizes) or 1, 6)
            for block in blocks
            if block.kind == "heading"
        }
        return [
            Block("heading", b.text, max(1, levels[b.level]), page=b.page) if b.kind == "heading" else b for b in blocks
        ]


def _first_word(line: Line, last: Line) -> float:
    """About the room that the first word of a line needs at the end of the one before."""
    if _CJK_START.match(line.text):
        return 2 * last.size  # no line begins with a full stop, so it may have moved down with its neighbour
    word = line.text.split(" ")[0]
    each = (line.x1 - line.x0) / max(1, len(line.text))
    return (len(word) + 1) * each
