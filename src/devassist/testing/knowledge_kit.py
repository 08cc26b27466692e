"""Material for the conformance suite of the table of knowledge: revisions and plans that are short to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from devassist.core.scope import Scope
from devassist.core.terms import query_terms
from devassist.ports.knowledge_store import (
    Clause,
    ClauseNumber,
    Eligible,
    HistoryEntry,
    KnowledgeStore,
    Opening,
    Plan,
    Revision,
    Source,
)

T0 = 1_800_000_000_000_000
ALICE = Scope(tenant="default", actor="alice")
STRANGER = Scope(tenant="elsewhere", actor="alice")
TODAY = "2026-06-01"
NOW = Eligible(TODAY)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def ids(rev_id: str, *ordinals: int) -> list[str]:
    """Of the clauses that ``revision`` makes."""
    return [f"{rev_id}#c-{n}" for n in ordinals]


def clause(rev_id: str, ordinal: int, text: str, **fields: Any) -> Clause:
    made = Clause(
        f"{rev_id}#c-{ordinal}", f"{rev_id.partition('@')[0]}:{digest(text)[:8]}", ordinal, "article",
        f"c{ordinal}", text, digest(text),
    )  # fmt: skip
    return replace(made, **fields)


def revision(doc_id: str, valid_from: str, *texts: str, **fields: Any) -> Revision:
    """One clause for each text, numbered from article 1; ``fields`` replace what is made up."""
    rev_id = fields.pop("rev_id", f"{doc_id}@{valid_from}")
    clauses = tuple(clause(rev_id, n, text, number=ClauseNumber(n + 1)) for n, text in enumerate(texts))
    made = Revision(
        doc_id=doc_id, rev_id=rev_id, collection="policies", title=doc_id.title(), lang="zh", kind="policy",
        valid_from=valid_from, clauses=clauses, content_sha256=digest("\n".join(texts)),
        source=Source(f"https://example.org/{doc_id}", "2026-01-01T00:00:00Z", "text/plain", digest(doc_id), "kit/1"),
        history=(HistoryEntry(valid_from, "kit", "adopted"),),
    )  # fmt: skip
    return replace(made, **fields)


def first(made: Revision, valid_to: str | None = None) -> Plan:
    """The first revision of its document."""
    return Plan(made.doc_id, 0, open=(Opening(made.rev_id, "published", made.valid_from, valid_to),), add=made)


async def amendment(store: KnowledgeStore, made: Revision, valid_to: str | None = None, scope: Scope = ALICE) -> Plan:
    """``made`` takes over on its ``valid_from`` from whatever was to hold then; a revision of that very day ends."""
    beliefs = await store.beliefs(scope, made.doc_id)
    day = made.valid_from
    now = [b for b in beliefs if b.recorded_to is None and (b.valid_to is None or b.valid_to > day)]
    over = [b for b in now if b.valid_from <= day]
    kept = tuple(Opening(b.rev_id, b.status, b.valid_from, day) for b in over if b.valid_from < day)
    opened = Opening(made.rev_id, "published", day, valid_to)
    return Plan(made.doc_id, len(beliefs), tuple(b.belief_id for b in over), (*kept, opened), made)


async def put(store: KnowledgeStore, *made: Revision, valid_to: str | None = None, at: int = T0) -> None:
    """Commit revisions of documents, one after the other."""
    for one in made:
        await store.commit(ALICE, [await amendment(store, one, valid_to)], at)


async def deletion(store: KnowledgeStore, doc_id: str, scope: Scope = ALICE) -> Plan:
    beliefs = await store.beliefs(scope, doc_id)
    still = tuple(b.belief_id for b in beliefs if b.recorded_to is None)
    gone = tuple(dict.fromkeys(b.rev_id for b in beliefs))
    return Plan(doc_id, len(beliefs), still, purge=gone, reason="deleted")


async def found(
    store: KnowledgeStore, query: str, wanted: Eligible = NOW, limit: int = 10, scope: Scope = ALICE
) -> list[str]:
    """Ids of the clauses that the lexical arm finds, best first."""
    hits = await store.lexical(scope, query_terms(query), wanted, limit)
    rows = await store.clauses(scope, [hit.key for hit in hits], wanted)
    return [row.clause.clause_id for row in rows]


async def keys(store: KnowledgeStore, clause_ids: Sequence[str], scope: Scope = ALICE) -> list[int]:
    """The store's keys of clauses by their ids."""
    rows = [await store.clause(scope, name) for name in clause_ids]
    return [row.key for row in rows if row is not None]
