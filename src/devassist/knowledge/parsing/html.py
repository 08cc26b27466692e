"""HTML to blocks, with selectolax: what is read on the page, without what stands on every page of the site."""

from __future__ import annotations

import re
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from devassist.knowledge.parsing.charset import decode
from devassist.knowledge.parsing.cleaning import clean
from devassist.knowledge.parsing.document import Block, Cell, Reading
from devassist.knowledge.parsing.html_furniture import (
    is_furniture,
    is_furniture_within,
    is_inside,
    main_parts,
    shown_texts,
)

_HEADINGS = {f"h{n}": n for n in range(1, 7)}
_BLOCKS = frozenset(
    "address article blockquote body center dd details div dl dt fieldset figcaption figure header hgroup html li main "
    "ol p section summary td th tr ul".split()
)


def read_html(data: bytes) -> Reading:
    """Raises Refused (``undecodable``)."""
    decoded = decode(data)
    text = clean(decoded.text)
    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    shown = " ".join(title.text().split()) if title is not None else ""
    body = tree.body
    if body is None:
        return Reading((), title=shown, charset=decoded.charset)
    walker = _Walker()
    chosen = main_parts(body)
    if not any(part.css_first("h1") for part in chosen):
        outside = body.css_first("h1")
        if outside is not None and not is_furniture_within(outside):
            walker.walk(outside)
    for part in chosen:
        walker.walk(part)
    walker.flush()
    return Reading(tuple(walker.blocks), title=shown, charset=decoded.charset)


def blocks_of_html(fragment: str) -> list[Block]:
    """The blocks of a piece of HTML that stands in another format."""
    body = LexborHTMLParser(fragment).body
    walker = _Walker()
    if body is not None:
        walker.walk(body)
        walker.flush()
    return walker.blocks


def inline_text(tag: str) -> str:
    """What a single inline tag shows: a line break, or nothing."""
    return "\n" if re.match(r"<br\b", tag, re.IGNORECASE) else ""


class _Walker:
    """Gathers blocks in order; text that stands in no block of its own becomes one."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._inline: list[str] = []
        self._depth = 0
        self._marker = ""
        self._level = 0  # of the open item, 0 outside of lists

    def walk(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "-text":
            self._inline.append(re.sub(r"[ \t\n]+", " ", node.text_content or ""))
        elif tag == "-comment":
            return
        elif tag == "br":
            self._inline.append("\n")
        elif is_furniture(node):
            return
        elif tag in _HEADINGS:
            self._heading(node, _HEADINGS[tag])
        elif tag == "pre":
            self._code(node)
        elif tag == "table":
            self._table(node)
        elif tag in ("ul", "ol"):
            self._list(node, tag == "ol")
        elif tag == "code":
            inner = "".join(shown_texts(node)).strip()
            self._inline.append(f"`{inner}`" if inner else "")
        else:
            block = tag in _BLOCKS
            if block:
                self.flush()
            for child in node.iter(include_text=True):
                self.walk(child)
            if block:
                self.flush()

    def flush(self) -> None:
        """End the open text."""
        lines = [" ".join(line.split(" ")).strip() for line in "".join(self._inline).split("\n")]
        text = "\n".join(line for line in lines if line)
        self._inline = []
        if not text:
            return
        if not self._level:
            self.blocks.append(Block("text", text))
            return
        last = self.blocks[-1] if self.blocks else None
        if not self._marker and last is not None and last.kind == "item" and last.level == self._level:
            self.blocks[-1] = Block("item", f"{last.text}\n{text}", last.level, last.marker)
            return
        self.blocks.append(Block("item", text, self._level, self._marker))
        self._marker = ""

    def _heading(self, node: LexborNode, level: int) -> None:
        self.flush()
        text = " ".join("".join(shown_texts(node)).split()).rstrip("¶#").rstrip()
        if text:
            anchor = node.attributes.get("id") or ""
            self.blocks.append(Block("heading", text, level, anchor=anchor))

    def _code(self, node: LexborNode) -> None:
        self.flush()
        text = "\n".join(line.rstrip() for line in "".join(shown_texts(node)).strip("\n").split("\n"))
        code = node.css_first("code")
        classes = " ".join(
            filter(
                None,
                (each.attributes.get("class") for each in (node, code) if each is not None),
            )
        )
        language = re.search(r"(?:language|lang|highlight)-(\w+)", classes)
        if text.strip():
            self.blocks.append(Block("code", text, anchor=language[1] if language else ""))

    def _list(self, node: LexborNode, ordered: bool) -> None:
        self.flush()
        outer = (self._level, self._marker)
        self._depth += 1
        start = node.attributes.get("start") or "1"
        number = int(start) if start.isdecimal() else 1
        for child in node.iter(include_text=True):
            if child.tag != "li":
                self.walk(child)
                continue
            self._level, self._marker = self._depth, f"{number}." if ordered else "-"
            number += 1
            self.walk(child)
            self.flush()
        self._depth -= 1
        self._level, self._marker = outer[0], ""

    def _table(self, node: LexborNode) -> None:
        self.flush()
        cells, header_rows = table_cells(node)
        if not cells:
            return
        columns = {cell.column for cell in cells}
        if len(columns) == 1 and len(cells) == 1:
            for child in node.css("td, th")[0].iter(include_text=True):
                self.walk(child)  # a table that only lays out the page
            self.flush()
            return
        self.blocks.append(Block("table", "", cells=tuple(cells), header_rows=header_rows))


def table_cells(table: LexborNode) -> tuple[list[Cell], int]:
    """The cells of a table at their first places, and how many rows at its top are headers."""
    cells: list[Cell] = []
    taken: set[tuple[int, int]] = set()
    header_rows, row = 0, 0
    for line in table.css("tr"):
        if _nearest_table(line) != table.mem_id or is_furniture(line):
            continue
        column, all_header = 0, True
        in_head = is_inside(line, ("thead",))
        for node in line.iter():
            if node.tag not in ("td", "th"):
                continue
            while (row, column) in taken:
                column += 1
            rows, columns = _span(node, "rowspan"), _span(node, "colspan")
            text = "\n".join(part for part in (" ".join(each.split()) for each in _cell_lines(node)) if part)
            cells.append(Cell(text, row, column, rows, columns))
            taken |= {(r, c) for r in range(row, row + rows) for c in range(column, column + columns)}
            all_header = all_header and node.tag == "th"
            column += columns
        if column and (in_head or all_header) and header_rows == row:
            header_rows += 1
        row += bool(column)
    last = max((cell.row for cell in cells), default=-1)
    return [_within(cell, last) for cell in cells], header_rows


def _within(cell: Cell, last: int) -> Cell:
    """A cell that says it covers more rows than there are ends with the table."""
    return Cell(cell.text, cell.row, cell.column, min(cell.rows, last - cell.row + 1), cell.columns)


def _cell_lines(node: LexborNode) -> list[str]:
    walker = _Walker()
    for child in node.iter(include_text=True):
        walker.walk(child)
    walker.flush()
    return [line for block in walker.blocks for line in (block.text or "").split("\n")]


def _nearest_table(node: LexborNode) -> Any:
    parent = node.parent
    while parent is not None and parent.tag != "table":
        parent = parent.parent
    return parent.mem_id if parent is not None else None


def _span(node: LexborNode, name: str) -> int:
    value = (node.attributes.get(name) or "1").strip()
    return min(max(int(value), 1), 1000) if value.isdecimal() else 1
