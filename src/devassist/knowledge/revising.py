"""A parsed document becomes a revision of a document (pure): ids, dates, lineage, what changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from devassist.knowledge.assets import content_hash, text_hash
from devassist.knowledge.lineage import Unit, changes, compare, lineages
from devassist.knowledge.parsing.document import ParsedDocument
from devassist.knowledge.timeline import next_rev_id
from devassist.ports.curation import Given
from devassist.ports.knowledge_store import (
    Basis,
    Belief,
    Change,
    Clause,
    HistoryEntry,
    Revision,
    Source,
)

BY_TITLE = frozenset({"law", "regulation", "judicial_interpretation", "policy"})
"""Kinds whose revisions come as files of any name: the title says which document it is. Others go by their path."""
_SLUG = re.compile(r"[^a-z0-9._-]+")
_EDITION = re.compile(r"[（(][^（）()]*(?:修正|修订|修改|版|年)[^（）()]*[)）]\s*$")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Came:
    """What is known of a file beside its content. Times are ISO 8601 in UTC, ``today`` an ISO day."""

    name: str
    raw_sha256: str
    at: str
    today: str


def doc_id_of(document: ParsedDocument, given: Given, name: str) -> str:
    """The lineage that a file belongs to: as given; else by title for statutes and policies, by path for the rest,
    within the collection. What a slug cannot hold (Chinese, spaces) is told apart by a hash."""
    if given.doc_id is not None:
        return given.doc_id
    if document.kind in BY_TITLE:
        plain = "".join(_EDITION.sub("", given.title or document.title).split())
    else:
        plain = str(PurePosixPath(name).with_suffix("")) if PurePosixPath(name).suffix else name
        plain = plain.replace("/", ".")
    low = f"{given.collection}.{plain.lower()}"
    slug = _SLUG.sub("-", low).strip("-.")
    if slug == low and len(slug) <= _LONGEST:
        return slug
    return f"{slug[:_LONGEST].strip('-.')}-{sha256(low.encode()).hexdigest()[:10]}"


def valid_from_of(document: ParsedDocument, given: Given, today: str) -> tuple[str, str | None, Basis]:
    """From when a revision holds, the effective date that is shown, and what that rests on. Without any date it holds
    from the day it came."""
    if given.effective is not None:
        same = given.effective == document.effective_date and document.effective_basis == "stated"
        return given.effective, given.effective, "stated" if same else "external_instrument"
    if document.effective_date is not None:
        return document.effective_date, document.effective_date, document.effective_basis
    if document.promulgated_on is not None:
        return document.promulgated_on, document.promulgated_on, "assumed_promulgation"
    return today, None, "unknown"


def unchanged(document: ParsedDocument, before: Revision | None, given: Given) -> bool:
    """Whether a file says what the revision before it says, and nothing else was asked of it."""
    if before is None or content_of(document) != before.content_sha256:
        return False
    same = (given.title or document.title, tuple(sorted(given.labels)))
    dated = given.effective is None or given.effective == before.valid_from
    return dated and given.valid_to is None and same == (before.title, before.labels)


def content_of(document: ParsedDocument) -> str:
    """``content_sha256`` of what a file says."""
    return content_hash([{"label": c.label, "kind": c.kind, "text": c.text} for c in document.clauses])


def revise(
    document: ParsedDocument, given: Given, came: Came, doc_id: str, beliefs: Sequence[Belief], before: Revision | None
) -> tuple[Revision, Counter[str]]:
    """The revision that a file makes of a document, and how many clauses were kept, renumbered, modified, added and
    deleted against ``before``, the revision that it follows or corrects."""
    valid_from, effective, basis = valid_from_of(document, given, came.today)
    rev_id = next_rev_id(beliefs, doc_id, valid_from)
    new = [Unit(c.label, c.number, c.text, text_hash(c.text)) for c in document.clauses]
    old = [] if before is None else units(before)
    steps = compare(old, new)
    names = lineages(doc_id, old, new, steps)
    clauses = tuple(
        Clause(
            f"{rev_id}#{draft.path}", lineage, ordinal, draft.kind, draft.label, draft.text, unit.text_sha256,
            draft.number, draft.headings, page=draft.page, start=draft.start, end=draft.end,
        )
        for ordinal, (draft, unit, lineage) in enumerate(zip(document.clauses, new, names, strict=True))
    )  # fmt: skip
    changed = () if before is None else changes(old, new, steps)
    revision = Revision(
        doc_id, rev_id, given.collection, given.title or document.title, document.lang, given.kind or document.kind,
        valid_from, _source(document, given, came), clauses, _history(document, valid_from, changed, before),
        content_of(document), given.issuer or document.issuer, document.promulgated_on, effective, basis,
        None if before is None else before.rev_id, tuple(sorted(given.labels)),
        {"tables": tables} if (tables := _tables(document)) else {},
    )  # fmt: skip
    return revision, Counter(step.op for step in steps)


def units(revision: Revision) -> list[Unit]:
    """The clauses of a revision as the diff sees them."""
    return [Unit(c.label, c.number, c.text, c.text_sha256, c.lineage_id) for c in revision.clauses]


def _source(document: ParsedDocument, given: Given, came: Came) -> Source:
    url = given.url or "file:" + "/".join(map(_quoted, came.name.split("/")))
    return Source(url, came.at, document.media_type, came.raw_sha256, document.parser, document.charset)


def _quoted(part: str) -> str:
    return "".join(c if c.isalnum() or c in "-._~" else "".join(f"%{b:02X}" for b in c.encode()) for c in part)


def _history(
    document: ParsedDocument, valid_from: str, changed: tuple[Change, ...], before: Revision | None
) -> tuple[HistoryEntry, ...]:
    """The source's own history, where it has one; its last entry is this revision, and holds the computed changes
    unless the source states its own."""
    history = list(document.history)
    if not history:
        earlier = () if before is None else before.history
        action = "imported" if before is None else "revised"
        history = [*earlier, HistoryEntry(valid_from, document.issuer or "unknown", action)]
    last = history[-1]
    if changed and not last.changes:
        history[-1] = replace(last, changes=changed, basis="computed_diff")
    return tuple(history)


def _tables(document: ParsedDocument) -> dict[str, Any]:
    """Tables as they were drawn, by the path of their clause."""
    return {
        c.path: [[cell.text, cell.row, cell.column, cell.rows, cell.columns] for cell in c.cells]
        for c in document.clauses
        if c.cells
    }
