"""Blocks to clauses of a text that has sections instead of articles (pure): developer documentation, handbooks.

A section is the text under one heading; its clause carries the path of headings down to it. A nested list whose lines
say nothing without the lines above them (an outline) is cut by its branches, and the path goes on through the list.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from devassist.knowledge.parsing.document import Block, ClauseDraft
from devassist.knowledge.parsing.pieces import PIECE_CHARS, pieces
from devassist.knowledge.parsing.tables import rows_as_text
from devassist.ports.knowledge_store import ClauseKind

_LONGEST_OUTLINE_ITEM = 60
_LONGEST_CODE = 4 * PIECE_CHARS
_NOT_IN_SLUG = re.compile(r"[^\w\- ]+")


def slug(text: str) -> str:
    """The anchor of a heading as documentation sites make it; letters of every script stay."""
    plain = _NOT_IN_SLUG.sub("", unicodedata.normalize("NFC", text).lower().strip())
    return re.sub(r"[\s_]+", "-", plain).strip("-")[:60] or "section"


def sections(blocks: Sequence[Block], title: str = "") -> tuple[ClauseDraft, ...]:
    """The clauses of ``blocks`` in order. ``title``, where no heading repeats it, begins every path."""
    builder = _Sections(title)
    for block in blocks:
        builder.add(block)
    builder.end()
    return tuple(builder.clauses)


@dataclass(slots=True)
class _Piece:
    """A text that is not cut further, with its place in the source."""

    text: str
    block: Block


@dataclass(slots=True)
class _Sections:
    title: str
    clauses: list[ClauseDraft] = field(default_factory=list[ClauseDraft])
    _stack: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    _anchor: str = ""
    _held: list[_Piece] = field(default_factory=list[_Piece])
    _items: list[Block] = field(default_factory=list[Block])
    _heading: Block | None = None
    _paths: Counter[str] = field(default_factory=Counter[str])
    _anchors: Counter[str] = field(default_factory=Counter[str])

    def add(self, block: Block) -> None:
        if block.kind == "item":
            self._items.append(block)
            return
        self._flush_list()
        if block.kind == "heading":
            self._flush()
            self._open_section(block)
        elif block.kind == "table":
            self._flush()
            self._emit("table", _grouped_rows(block), [block], cells_of=block)
        elif block.kind == "code":
            self._code(block)
        elif block.text:
            self._held.append(_Piece(block.text, block))

    def end(self) -> None:
        self._flush_list()
        self._flush()
        self._leaf()

    def _open_section(self, block: Block) -> None:
        if self._heading is not None and block.level <= self._heading.level:
            self._leaf()
        while self._stack and self._stack[-1][0] >= block.level:
            self._stack.pop()
        self._stack.append((block.level, block.text))
        self._heading = block
        anchor = block.anchor or slug(block.text)
        self._anchors[anchor] += 1
        self._anchor = anchor if self._anchors[anchor] == 1 else f"{anchor}-{self._anchors[anchor]}"

    def _leaf(self) -> None:
        """A heading under which nothing stands is a clause itself, or its words would be lost."""
        if self._heading is not None:
            self._emit("section", [self._heading.text], [self._heading])

    def _code(self, block: Block) -> None:
        fenced = f"```{block.anchor}\n{block.text}\n```"
        if len(fenced) <= PIECE_CHARS:
            self._held.append(_Piece(fenced, block))
            return
        self._flush()
        lines = [line or " " for line in block.text.split("\n")]
        texts = [text.rstrip() for text in pieces(lines, most=_LONGEST_CODE)]
        self._emit("code", ["\n".join(line.rstrip() for line in text.split("\n")) for text in texts], [block])

    def _flush(self) -> None:
        held, self._held = self._held, []
        group: list[_Piece] = []
        for piece in held:
            if group and sum(len(each.text) + 2 for each in group) + len(piece.text) > PIECE_CHARS:
                self._emit_pieces(group)
                group = []
            group.append(piece)
        if group:
            self._emit_pieces(group)

    def _emit_pieces(self, group: Sequence[_Piece]) -> None:
        texts = pieces((piece.text for piece in group), joint="\n\n")
        self._emit("section" if self._stack else "paragraph", texts, [piece.block for piece in group])

    def _flush_list(self) -> None:
        items, self._items = self._items, []
        if not items:
            return
        if not _is_outline(items):
            self._held += _joined(
                [_Piece("\n".join(map(_drawn, group)), _spanning(group[0], group[-1])) for group in _top_items(items)]
            )
            return
        self._flush()
        for path, group in _branches(items):
            texts = pieces(_drawn(item, flat=True) for item in group)
            self._emit("item", texts, group, tuple(path))

    def _emit(
        self, kind: ClauseKind, texts: Sequence[str], blocks: Sequence[Block], more: tuple[str, ...] = (),
        cells_of: Block | None = None,
    ) -> None:  # fmt: skip
        self._heading = None
        headings = [text for _, text in self._stack]
        if self.title and self.title not in headings:
            headings.insert(0, self.title)
        base = self._anchor or "text"
        starts = [block.start for block in blocks if block.start is not None]
        ends = [block.end for block in blocks if block.end is not None]
        for number, text in enumerate(texts):
            self._paths[base] += 1
            path = base if self._paths[base] == 1 else f"{base}.{self._paths[base]}"
            self.clauses.append(
                ClauseDraft(
                    kind, more[-1] if more else headings[-1] if headings else "", text, path, None, (*headings, *more),
                    blocks[0].page, min(starts, default=None), max(ends, default=None),
                    cells_of.cells if cells_of is not None and not number else (),
                )
            )  # fmt: skip


def _grouped_rows(block: Block) -> list[str]:
    return pieces(rows_as_text(block.cells, block.header_rows))


def _drawn(item: Block, flat: bool = False) -> str:
    """An item with its mark, set in by its depth; what follows its first line stands below it."""
    indent = "" if flat else "  " * (item.level - 1)
    mark = f"{item.marker} " if item.marker else ""
    first, *rest = item.text.split("\n")
    inner = indent + " " * len(mark)
    return "\n".join([f"{indent}{mark}{first}".rstrip(), *(f"{inner}{line}".rstrip() for line in rest)])


def _top_items(items: Sequence[Block]) -> list[list[Block]]:
    """The items of the first level, each with what is nested in it."""
    groups: list[list[Block]] = []
    for item in items:
        if not groups or (item.level <= items[0].level and item.marker):
            groups.append([])
        groups[-1].append(item)
    return groups


def _joined(held: Sequence[_Piece]) -> list[_Piece]:
    """Items joined into pieces, so that a list is not cut where it need not be."""
    found: list[_Piece] = []
    for piece in held:
        if found and len(found[-1].text) + len(piece.text) < PIECE_CHARS:
            found[-1] = _Piece(f"{found[-1].text}\n{piece.text}", _spanning(found[-1].block, piece.block))
        else:
            found.append(piece)
    return found


def _spanning(first: Block, last: Block) -> Block:
    """The first block, reaching to the end of the last."""
    return replace(first, end=last.end)


def _is_outline(items: Sequence[Block]) -> bool:
    """Whether the list is nested and made of short lines, which mean something only under the lines above them."""
    nested = max(item.level for item in items) > min(item.level for item in items)
    return nested and all(len(item.text) <= _LONGEST_OUTLINE_ITEM for item in items)


def _branches(items: Sequence[Block]) -> Iterator[tuple[list[str], list[Block]]]:
    """Leaves that stand together, with the first lines of the items above them."""
    path: list[tuple[int, str]] = []
    group: list[Block] = []
    for item, following in zip(items, [*items[1:], None], strict=True):
        inside = following is not None and following.level > item.level and bool(item.marker)
        changed = bool(path) and path[-1][0] >= item.level
        if group and (inside or changed or group[-1].level != item.level):
            yield [name for _, name in path], group
            group = []
        while path and path[-1][0] >= item.level:
            path.pop()
        if not inside:
            group.append(item)
            continue
        name, *rest = item.text.split("\n")
        path.append((item.level, name.rstrip(" ：:")))
        if rest:
            group = [_below(item, rest)]
    if group:
        yield [name for _, name in path], group


def _below(item: Block, rest: Sequence[str]) -> Block:
    return Block("item", "\n".join(rest), item.level + 1, "", "", item.page, item.start, item.end)
