"""What followers of the table of knowledge read: the outbox, the list of changes, what an index keeps, what came in."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """``upsert``: clause ``key`` is searchable or its dates changed; ``remove``: it is not to be found any more."""

    seq: int
    op: Literal["upsert", "remove"]
    key: int
    rev_id: str
    text_sha256: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A committed plan as the journal's stream ``knowledge`` notes it."""

    seq: int
    at: int
    actor: str
    doc_id: str
    rev_id: str | None
    reason: str
    content_sha256: str | None


@dataclass(frozen=True, slots=True)
class IndexItem:
    """What a vector index keeps of a clause: days as YYYYMMDD (open end 99991231), and the text to embed, which holds
    headings but neither number nor dates, so that a renumbering costs no embedding."""

    key: int
    text_sha256: str
    valid_from: int
    valid_to: int
    collection: str
    doc_id: str
    lang: str
    kind: str
    labels: tuple[str, ...]
    embed_text: str
    embed_sha256: str

    @property
    def stamp(self) -> str:
        """Changes with everything that an index keeps: what a reconciler compares."""
        kept = (self.text_sha256, self.embed_sha256, self.valid_from, self.valid_to, self.collection, *self.labels)
        return sha256(repr(kept).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A file that became no asset, and why. ``name`` is its path as given, ``code`` one of the parser's reasons."""

    name: str
    raw_sha256: str
    code: str
    detail: str
    at: int
    collection: str


@dataclass(frozen=True, slots=True)
class Ingested:
    """What the store knows of a file that was ingested, so that the same bytes a second time do nothing."""

    name: str
    raw_sha256: str
    parser: str
    rev_id: str
