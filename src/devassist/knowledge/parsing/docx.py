"""DOCX to blocks, with python-docx: paragraphs and tables in their order, headings by style, lists with their marks.

Deleted text of tracked changes is not read, inserted text is. Page headers and footers are no text of the document.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, cast

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.oxml.ns import qn
from lxml import etree as _etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

from devassist.knowledge.parsing.cleaning import clean
from devassist.knowledge.parsing.document import Block, Cell, Limits, Reading, Refused
from devassist.knowledge.parsing.docx_numbers import Numbering

etree = cast("Any", _etree)
_FORBIDDEN = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_HEADING_STYLE = re.compile(r"(?:heading|标题)\s*([1-9])", re.IGNORECASE)
_CODE_STYLE = re.compile(r"code|source|preformatted|代码", re.IGNORECASE)
_CONTENTS_STYLE = re.compile(r"toc\s*\d|目录\s*\d", re.IGNORECASE)
_LEGAL_MARKS = ("条", "章", "节", "编")
_NOT_READ = frozenset(map(qn, ("w:del", "w:moveFrom", "w:rPr", "w:pPr", "w:instrText", "w:footnoteReference")))
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_DEEPEST_STYLE = 20


def read_docx(data: bytes, _: Limits) -> Reading:
    """Raises Refused: ``external_entity``, ``malformed``."""
    _refuse_entities(data)
    try:
        document = docx.Document(io.BytesIO(data))
        reader = _Reader(document)
        blocks = reader.read()
    except (PackageNotFoundError, zipfile.BadZipFile, etree.XMLSyntaxError, KeyError, ValueError, OSError) as error:
        raise Refused("malformed", f"The document is damaged: {error}") from None
    return Reading(tuple(blocks), title=reader.title, warnings=tuple(reader.warnings))


def _refuse_entities(data: bytes) -> None:
    """No part may declare entities: they read files, call out, or grow without end; Word writes none."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            if not entry.filename.lower().endswith((".xml", ".rels", ".vml")):
                continue
            try:
                content = archive.read(entry)
            except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError) as error:
                raise Refused("malformed", f"{entry.filename!r} cannot be unpacked: {error}") from None
            if _FORBIDDEN.search(content) or (b"\0" in content and _FORBIDDEN.search(content.replace(b"\0", b""))):
                raise Refused(
                    "external_entity",
                    f"{entry.filename!r} declares a document type or entities. Save it with Word or LibreOffice again.",
                )


class _Reader:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._body = document.element.body
        styles = document.styles.element
        self._styles = {style.get(qn("w:styleId")): style for style in styles.findall(qn("w:style"))}
        self._numbering = Numbering(_numbering_of(document), styles)
        self._headings: dict[str | None, int] = {}
        self._blocks: list[Block] = []
        self.title = ""
        self.warnings: list[str] = []

    def read(self) -> list[Block]:
        for element in _children(self._body):
            if element.tag == qn("w:p"):
                self._paragraph(element)
            elif element.tag == qn("w:tbl"):
                cells, header_rows = self._table(element)
                if cells:
                    self._blocks.append(Block("table", "", cells=tuple(cells), header_rows=header_rows))
        self._footnotes()
        return self._blocks

    def _paragraph(self, element: Any) -> None:
        text = "\n".join(line.strip() for line in clean(_text(element)).split("\n")).strip()
        style = _style_id(element)
        place = self._numbering.place(element)
        mark = self._numbering.mark(place) if place is not None and text else ""
        if not text:
            return
        name = self._style_name(style)
        if _CONTENTS_STYLE.match(name):
            return
        level = self._level(element, style)
        if name.lower() in ("title", "标题") and not self.title:
            self.title = " ".join(text.split())
            self._blocks.append(Block("heading", self.title, 1))
        elif level:
            flat = " ".join(text.split())
            self._blocks.append(Block("heading", f"{mark} {flat}".strip() if mark != "-" else flat, level))
        elif mark.endswith(_LEGAL_MARKS):
            self._blocks.append(Block("text", f"{mark} {text}"))
        elif place is not None and mark:
            self._blocks.append(Block("item", text, max(place[1] + 1, _depth(name)), mark))
        elif _CODE_STYLE.search(name):
            self._code(element)
        elif re.match(r"List\b", name):
            self._blocks.append(Block("item", text, _depth(name), "-"))
        else:
            self._blocks.append(Block("text", text))

    def _code(self, element: Any) -> None:
        text = "\n".join(line.rstrip() for line in clean(_text(element)).split("\n"))
        last = self._blocks[-1] if self._blocks else None
        if last is not None and last.kind == "code":
            self._blocks[-1] = Block("code", f"{last.text}\n{text}")
        else:
            self._blocks.append(Block("code", text))

    def _style_name(self, style: str | None) -> str:
        found = self._styles.get(style)
        name = found.find(qn("w:name")) if found is not None else None
        return (name.get(qn("w:val")) or "") if name is not None else ""

    def _level(self, element: Any, style: str | None) -> int:
        """The level of a heading, by the paragraph's outline, its style's name or what that is based on; 0 for none."""
        outline = element.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
        if outline is not None:
            own = int(outline.get(qn("w:val")) or 9)
            return min(own + 1, 6) if own < 9 else 0
        if style not in self._headings:
            self._headings[style] = self._level_of_style(style)
        return self._headings[style]

    def _level_of_style(self, style: str | None) -> int:
        for _ in range(_DEEPEST_STYLE):
            found = self._styles.get(style)
            if found is None:
                return 0
            match = _HEADING_STYLE.fullmatch(self._style_name(style))
            if match:
                return min(int(match[1]), 6)
            outline = found.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
            if outline is not None:
                own = int(outline.get(qn("w:val")) or 9)
                return min(own + 1, 6) if own < 9 else 0
            based = found.find(qn("w:basedOn"))
            style = based.get(qn("w:val")) if based is not None else None
        return 0

    def _table(self, table: Any) -> tuple[list[Cell], int]:
        """Cells at their first places, merged ones with how far they reach, and the rows declared as headers."""
        cells: list[Cell] = []
        open_above: dict[int, int] = {}  # column -> place in cells of the cell that may go on downwards
        header_rows = 0
        for row, line in enumerate(_children(table, "w:tr")):
            before = line.find(f"{qn('w:trPr')}/{qn('w:gridBefore')}")
            column = int(before.get(qn("w:val")) or 0) if before is not None else 0
            below: dict[int, int] = {}
            for cell in _children(line, "w:tc"):
                columns, goes_on, begins = _spans(cell)
                above = open_above.get(column)
                if goes_on and above is not None:
                    found = cells[above]
                    cells[above] = Cell(found.text, found.row, found.column, row - found.row + 1, found.columns)
                    below[column] = above
                else:
                    cells.append(Cell(_cell_text(cell), row, column, 1, columns))
                    if begins:
                        below[column] = len(cells) - 1
                column += columns
            open_above = below
            declared = line.find(f"{qn('w:trPr')}/{qn('w:tblHeader')}")
            if declared is not None and declared.get(qn("w:val")) not in ("0", "false") and header_rows == row:
                header_rows += 1
        return cells, header_rows

    def _footnotes(self) -> None:
        """Notes stand at the end, as they do on paper."""
        for part in self._document.part.package.iter_parts():
            if not str(part.partname).endswith(("/footnotes.xml", "/endnotes.xml")):
                continue
            tree = etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False, no_network=True))
            for note in tree:
                text = " ".join(clean("\n".join(map(_text, note.iter(qn("w:p"))))).split())
                if text and note.get(qn("w:type")) is None:
                    self._blocks.append(Block("text", f"[{note.get(qn('w:id'))}] {text}"))


def _depth(style: str) -> int:
    """The depth that the name of a list's style tells: List Bullet 2."""
    number = re.search(r"[1-9]$", style)
    return int(number[0]) if number else 1


def _numbering_of(document: Any) -> Any:
    for relation in document.part.rels.values():
        if relation.reltype.endswith("/numbering") and not relation.is_external:
            return relation.target_part.element
    return None


def _children(parent: Any, *tags: str) -> Iterator[Any]:
    """Children of a body, table or row, also those within content controls and tracked insertions."""
    wanted = set(map(qn, tags or ("w:p", "w:tbl")))
    for child in parent:
        if child.tag in wanted:
            yield child
        elif child.tag in (
            qn("w:sdt"),
            qn("w:sdtContent"),
            qn("w:ins"),
            qn("w:moveTo"),
            qn("w:customXml"),
            qn("w:smartTag"),
        ):
            yield from _children(child, *tags)


def _style_id(paragraph: Any) -> str | None:
    found = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
    return found.get(qn("w:val")) if found is not None else None


def _spans(cell: Any) -> tuple[int, bool, bool]:
    """Over how many columns a cell reaches, whether it goes on the one above, whether one below may go on it."""
    properties = cell.find(qn("w:tcPr"))
    if properties is None:
        return 1, False, False
    span, merge = properties.find(qn("w:gridSpan")), properties.find(qn("w:vMerge"))
    columns = max(int(span.get(qn("w:val")) or 1), 1) if span is not None else 1
    if merge is None:
        return columns, False, False
    return columns, merge.get(qn("w:val")) != "restart", True


def _cell_text(cell: Any) -> str:
    lines = (" ".join(clean(_text(paragraph)).split()) for paragraph in cell.iter(qn("w:p")))
    return "\n".join(line for line in lines if line)


def _text(element: Any) -> str:
    """What is printed of a paragraph; text boxes within it stand after a line break."""
    parts: list[str] = []
    for child in element:
        if child.tag in _NOT_READ or child.tag == _FALLBACK or not isinstance(child.tag, str):
            continue
        if child.tag == qn("w:t"):
            parts.append(child.text or "")
        elif child.tag in (qn("w:tab"), qn("w:ptab")):
            parts.append("\t")
        elif child.tag in (qn("w:br"), qn("w:cr")):
            parts.append("\n")
        elif child.tag == qn("w:noBreakHyphen"):
            parts.append("-")
        elif child.tag == qn("w:p"):
            parts.append("\n" + _text(child))
        else:
            parts.append(_text(child))
    return "".join(parts)
