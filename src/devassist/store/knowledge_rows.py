"""Revisions and clauses as rows of knowledge.db, and back (pure, but for the compressor)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import orjson
import zstandard

from devassist.core.errors import InvalidRequest
from devassist.core.terms import stored_terms
from devassist.ports.knowledge_rows import IndexItem
from devassist.ports.knowledge_store import (
    Change,
    Clause,
    ClauseNumber,
    HistoryEntry,
    Plan,
    Revision,
    Source,
    StoredClause,
)

ORDINAL_BITS = 20
MOST_CLAUSES = 1 << ORDINAL_BITS
AMENDING = frozenset({"amended", "revised", "corrected"})
"""Actions of a history that make a text another one; adoption, import and repeal do not."""

Row = Sequence[Any]


class _Zstd(threading.local):
    """Compressor and decompressor may not be shared between threads."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=3, write_content_size=True).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


def unpack(blob: bytes) -> bytes:
    """What was packed for the column ``raws.body``."""
    return _zstd.unpack(blob)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with all rows that do not depend on what is stored, so that no lock is held while they are made.

    Clause rows lack key and tenant; index rows (head, body) are in the clauses' order.
    """

    plan: Plan
    revision: Row = ()
    clauses: tuple[Row, ...] = ()
    index: tuple[tuple[str, str], ...] = ()
    raw: tuple[str, bytes] | None = None
    fingerprint: bytes = b""


def prepare(plan: Plan) -> Prepared:
    """Raises InvalidRequest for a revision that no row can hold."""
    raw = None if plan.raw is None else (sha256(plan.raw).hexdigest(), _zstd.pack(plan.raw))
    added = plan.add
    if added is None:
        return Prepared(plan, raw=raw)
    _check(added)
    fingerprint = _fingerprint(added)
    return Prepared(
        plan,
        _revision_row(added, fingerprint),
        tuple(map(_clause_row, added.clauses)),
        tuple(indexed(added.title, clause.headings, clause.text) for clause in added.clauses),
        raw,
        fingerprint,
    )


def _check(revision: Revision) -> None:
    if len(revision.clauses) > MOST_CLAUSES:
        raise InvalidRequest(f"{revision.rev_id} has {len(revision.clauses)} clauses; at most {MOST_CLAUSES} are kept")
    ordinals = {c.ordinal for c in revision.clauses}
    if len(ordinals) < len(revision.clauses) or not all(0 <= n < MOST_CLAUSES for n in ordinals):
        raise InvalidRequest(f"{revision.rev_id}: ordinals of its clauses have to differ and to be in 0..2**20-1")


def indexed(title: str, headings: Sequence[str], text: str) -> tuple[str, str]:
    """What the full-text index gets of a clause: the terms of title and heading path, and those of its text."""
    return " ".join(stored_terms(" \n".join((title, *headings)))), " ".join(stored_terms(text))


def _fingerprint(revision: Revision) -> bytes:
    """Of all that may not differ under one revision id; when and from where it was fetched may."""
    clauses = [[c.clause_id, c.kind, c.label, c.text_sha256, c.headings] for c in revision.clauses]
    named = [revision.doc_id, revision.collection, revision.title, revision.lang, revision.kind]
    return sha256(orjson.dumps([named, revision.content_sha256, sorted(revision.labels), clauses])).digest()


def _revision_row(revision: Revision, fingerprint: bytes) -> Row:
    amended = max((entry.date for entry in revision.history if entry.action in AMENDING), default=None)
    rest = {
        "issuer": revision.issuer, "promulgated_on": revision.promulgated_on, "supersedes": revision.supersedes,
        "source": asdict(revision.source), "history": [asdict(entry) for entry in revision.history],
        "extra": dict(revision.extra),
    }  # fmt: skip
    return (
        revision.rev_id, revision.doc_id, revision.collection, revision.title, revision.lang, revision.kind,
        revision.valid_from, revision.effective_date, revision.effective_basis, amended, revision.source.url,
        json_text(revision.labels), len(revision.clauses), revision.content_sha256, fingerprint,
        _zstd.pack(orjson.dumps(rest)),
    )  # fmt: skip


def _clause_row(clause: Clause) -> Row:
    number = clause.number
    numbers = (None,) * 4 if number is None else (number.article, number.sub, number.paragraph, number.item)
    return (
        clause.clause_id, clause.lineage_id, clause.kind, clause.label, *numbers, json_text(clause.headings),
        clause.text, clause.text_sha256, clause.parent_id, clause.page, clause.start, clause.end,
        json_text(clause.refs),
    )  # fmt: skip


def json_text(values: Sequence[object]) -> str:
    """For columns and bindings that hold a JSON array."""
    return orjson.dumps(list(values)).decode()


def _texts(column: str) -> tuple[str, ...]:
    return tuple(orjson.loads(column))


CLAUSE_COLUMNS = 17
"""How many columns ``clause_of`` reads: the key and its clause."""


def clause_of(row: Row) -> Clause:
    """From the columns of ``clause_columns``; ``ordinal`` is in the key."""
    key, clause_id, lineage_id, kind, label, text, text_sha256, *numbers = row[:11]
    headings, parent_id, page, start, end, refs = row[11:CLAUSE_COLUMNS]
    number = None if numbers[0] is None else ClauseNumber(*numbers)
    return Clause(
        clause_id, lineage_id, key & (MOST_CLAUSES - 1), kind, label, text, text_sha256, number, _texts(headings),
        parent_id, page, start, end, _texts(refs),
    )  # fmt: skip


def stored_of(row: Row, latest: str) -> StoredClause:
    """From the columns of a ``clauses`` query."""
    doc_id, rev_id, collection, title, lang, kind, effective, basis, amended, begins, ends, _, url, labels = row[
        CLAUSE_COLUMNS:
    ]
    return StoredClause(
        row[0], clause_of(row), doc_id, rev_id, collection, title, lang, kind, effective, basis, amended, begins,
        ends, latest, url, _texts(labels),
    )  # fmt: skip


def revision_of(row: Row, clauses: tuple[Clause, ...]) -> Revision:
    """From the columns of ``revision``."""
    _, doc_id, rev_id, collection, title, lang, kind, begins, effective, basis, labels, content, packed = row
    rest: dict[str, Any] = orjson.loads(_zstd.unpack(packed))
    return Revision(
        doc_id=doc_id, rev_id=rev_id, collection=collection, title=title, lang=lang, kind=kind, valid_from=begins,
        source=Source(**rest["source"]), clauses=clauses, history=tuple(map(_entry_of, rest["history"])),
        content_sha256=content, issuer=rest["issuer"], promulgated_on=rest["promulgated_on"],
        effective_date=effective, effective_basis=basis, supersedes=rest["supersedes"], labels=_texts(labels),
        extra=rest["extra"],
    )  # fmt: skip


def _entry_of(entry: dict[str, Any]) -> HistoryEntry:
    changes = tuple(Change(**change) for change in entry["changes"])
    return HistoryEntry(entry["date"], entry["by"], entry["action"], entry["instrument"], changes, entry["basis"])


def item_of(row: Row) -> IndexItem:
    """From the columns of ``items``."""
    key, text_sha256, begins, ends, collection, doc_id, lang, kind, labels, title, headings, text = row
    path = _texts(headings)
    # Sections of a page begin with the page's own title: said twice it would only leave less room for the text.
    embedded = "\n".join((*path, text) if path[:1] == (title,) else (title, *path, text))
    digest = sha256(embedded.encode()).hexdigest()
    return IndexItem(
        key, text_sha256, day_number(begins), day_number(ends), collection, doc_id, lang, kind, _texts(labels),
        embedded, digest,
    )  # fmt: skip


def day_number(day: str) -> int:
    """YYYYMMDD of an ISO day."""
    return int(day.replace("-", ""))
