"""What parsing makes of a file: a structured document, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from devassist.ports.knowledge_store import Basis, Change, ClauseKind, ClauseNumber, HistoryEntry

Kind = Literal["law", "regulation", "judicial_interpretation", "policy", "faq", "devdoc", "other"]
Lang = Literal["zh", "en"]
Code = Literal[
    "no_text_layer", "encrypted", "undecodable", "too_large", "zip_bomb", "external_entity", "empty",
    "unsupported_type", "malformed", "asset_invalid", "timeout", "memory", "crashed",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table at its first place; ``rows`` and ``columns`` say over how many it is merged."""

    text: str
    row: int
    column: int
    rows: int = 1
    columns: int = 1


@dataclass(frozen=True, slots=True)
class ClauseDraft:
    """A clause that has no revision yet. ``path`` is the part of its id after ``#``, unique in the document.

    ``text`` is canonical (NFC, LF, no trailing blanks) and does not repeat ``label``, except where the label is only a
    heading. ``start`` and ``end`` are code points in the source as text (decoded, and cleaned as cleaning.py does),
    where the format has such places; ``page`` counts from 1. ``cells`` holds a table as it was drawn.
    """

    kind: ClauseKind
    label: str
    text: str
    path: str
    number: ClauseNumber | None = None
    headings: tuple[str, ...] = ()
    page: int | None = None
    start: int | None = None
    end: int | None = None
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A file as a document. Dates are ISO days; ``effective_basis`` says how far ``effective_date`` can be trusted.

    ``warnings`` are sentences for people: what was left out, what contradicts itself. ``asset`` is the file's own
    content where it is a checked knowledge asset; its ids and dates are then to be taken as they are.
    """

    title: str
    lang: Lang
    kind: Kind
    clauses: tuple[ClauseDraft, ...]
    parser: str
    media_type: str
    issuer: str | None = None
    promulgated_on: str | None = None
    effective_date: str | None = None
    effective_basis: Basis = "unknown"
    history: tuple[HistoryEntry, ...] = ()
    charset: str | None = None
    warnings: tuple[str, ...] = ()
    asset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why a file became no document. ``detail`` is for people: what is wrong, and what would be right."""

    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may cost. Bytes, seconds and counts."""

    file_bytes: int = 50 << 20
    unpacked_bytes: int = 300 << 20
    unpacked_ratio: int = 200
    pages: int = 5000
    text_chars: int = 20_000_000
    memory_bytes: int = 1 << 30
    cpu_s: int = 60
    wall_s: float = 120.0


class Refused(Exception):
    """Raised within parsing; becomes the Quarantine that it holds."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.quarantine = Quarantine(code, detail)


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a file in reading order, as every reader gives it.

    ``level``: of a heading 1..6, of a list item its depth from 1. ``marker`` is what stands before an item ("1.", "-";
    empty: goes on with the item before). ``anchor`` is a heading's explicit id, or the language of code. ``info_end``
    is the mark that ends the header of some collections of statutes.
    """

    kind: Literal["heading", "text", "item", "code", "table", "info_end"]
    text: str
    level: int = 0
    marker: str = ""
    anchor: str = ""
    page: int | None = None
    start: int | None = None
    end: int | None = None
    cells: tuple[Cell, ...] = ()
    header_rows: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader found: blocks in reading order, a title and facts that the format itself states."""

    blocks: tuple[Block, ...]
    title: str = ""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    charset: str | None = None
    warnings: tuple[str, ...] = ()


READY, TAKEN = b"ready", b"taken"
"""What a child says before its replies: that it can work, and that it has a whole file, so that what happens next is of
that file's making."""


def to_wire(result: ParsedDocument | Quarantine) -> dict[str, Any]:
    """The result as JSON types; ``from_wire`` turns it back."""
    return {"document" if isinstance(result, ParsedDocument) else "quarantine": asdict(result)}


def from_wire(value: Mapping[str, Any]) -> ParsedDocument | Quarantine:
    if "quarantine" in value:
        return Quarantine(**value["quarantine"])
    found: dict[str, Any] = dict(value["document"])
    found["clauses"] = tuple(map(_clause, found["clauses"]))
    found["history"] = tuple(map(_entry, found["history"]))
    found["warnings"] = tuple(found["warnings"])
    return ParsedDocument(**found)


def _clause(value: Mapping[str, Any]) -> ClauseDraft:
    found: dict[str, Any] = dict(value)
    found["number"] = None if value["number"] is None else ClauseNumber(**value["number"])
    found["headings"] = tuple(value["headings"])
    found["cells"] = tuple(Cell(**cell) for cell in value["cells"])
    return ClauseDraft(**found)


def _entry(value: Mapping[str, Any]) -> HistoryEntry:
    found: dict[str, Any] = {**value, "changes": tuple(Change(**change) for change in value["changes"])}
    return HistoryEntry(**found)
