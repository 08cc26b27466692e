"""What readers ask of knowledge.db, each on one connection and one thread, within one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import orjson

from devassist.ports.knowledge_rows import Ingested, Quarantined
from devassist.ports.knowledge_store import Belief, DocumentRow, Eligible, Revision, StoredClause
from devassist.store.database import Database
from devassist.store.knowledge_filter import SQL, eligible
from devassist.store.knowledge_rows import Row, clause_of, json_text, revision_of, stored_of, unpack

_COLUMNS = SQL["clause_columns"]


def beliefs(db: Database, tenant: int, doc_id: str) -> list[Belief]:
    return [Belief(*row) for row in db.execute(SQL["beliefs"], (tenant, doc_id))]


def revision(db: Database, tenant: int, rev_id: str) -> Revision | None:
    row = db.execute(SQL["revision"], (tenant, rev_id)).fetchone()
    if row is None:
        return None
    rows = db.execute(SQL["revision_clauses"].replace("{columns}", _COLUMNS), {"rev": row[0]})
    return revision_of(row, tuple(map(clause_of, rows)))


def raw(db: Database, tenant: int, raw_sha256: str) -> bytes | None:
    row = db.execute(SQL["raw"], (tenant, raw_sha256)).fetchone()
    return None if row is None else unpack(row[0])


def quarantined(db: Database, tenant: int, limit: int) -> list[Quarantined]:
    return [Quarantined(*row) for row in db.execute(SQL["quarantined"], (tenant, limit))]


def ingested(db: Database, tenant: int, collection: str, name: str) -> Ingested | None:
    row = db.execute(SQL["ingested"], (tenant, collection, name)).fetchone()
    return None if row is None else Ingested(*row)


def ingested_below(db: Database, tenant: int, collection: str, prefix: str) -> list[Ingested]:
    values = {"tenant": tenant, "collection": collection, "prefix": prefix}
    return [Ingested(*row) for row in db.execute(SQL["ingested_below"], values)]


def collections(db: Database, tenant: int, labels: frozenset[str] | None) -> list[tuple[str, int, int]]:
    seen = eligible(tenant, Eligible("", labels=labels), on_day=False)
    return [(name, held, clauses) for name, held, clauses in db.execute(seen.fill("collections"), seen.values)]


def documents(
    db: Database, tenant: int, wanted: Eligible, text: str | None, after: str | None, limit: int
) -> tuple[list[DocumentRow], str | None]:
    """A page, and the ``after`` of the next."""
    seen = eligible(tenant, wanted, on_day=False)
    values = seen.values | {"after": after or "", "text": text.lower() if text else None, "limit": limit + 1}
    names = [str(row[0]) for row in db.execute(seen.fill("page"), values)]
    shown = names[:limit]
    values = seen.values | {"documents": json_text(shown)}
    rows = db.execute(seen.fill("documents"), values).fetchall()
    found = [_document(list(group), wanted.day) for _, group in groupby(rows, key=lambda row: row[0])]
    return found, shown[-1] if len(names) > limit else None


def _document(rows: Sequence[Row], day: str) -> DocumentRow:
    """From its believed revisions by day: the one that holds, or of the others the one that a reader would look for."""
    holding = next((r for r in rows if r[7] <= day and (r[8] is None or day < r[8])), None)
    past = [r for r in rows if r[7] <= day]
    shown = holding or (past[-1] if past else rows[0])
    doc_id, collection, title, kind, lang, labels, rev_id, valid_from, valid_to, clauses = shown
    return DocumentRow(
        doc_id, collection, title, kind, lang, tuple(orjson.loads(labels)),
        rev_id if holding else None, "in_force" if holding else "ended" if past else "not_yet",
        valid_from, valid_to, len({r[6] for r in rows}), clauses,
    )  # fmt: skip


def titles(db: Database, tenant: int) -> list[str]:
    seen = eligible(tenant, Eligible(""), on_day=False)
    return [row[0] for row in db.execute(seen.fill("titles"), seen.values)]


def articles(
    db: Database, tenant: int, named: Sequence[str], article: int, sub: int, wanted: Eligible, limit: int
) -> list[int]:
    seen = eligible(tenant, wanted)
    values = seen.values | {"titles": json_text(named), "article": article, "sub": sub, "limit": limit}
    return [row[0] for row in db.execute(seen.fill("articles"), values)]


def clauses(db: Database, tenant: int, keys: Sequence[int], wanted: Eligible) -> list[StoredClause]:
    seen = eligible(tenant, wanted)
    rows = db.execute(seen.fill("clauses", columns=_COLUMNS), seen.values | {"keys": json_text(keys)}).fetchall()
    latest = _latest(db, tenant, {row[17] for row in rows}, wanted)
    return [stored_of(row, latest[str(row[17])]) for row in rows]


def clause(db: Database, tenant: int, clause_id: str) -> StoredClause | None:
    row = db.execute(SQL["clause"].replace("{columns}", _COLUMNS), (tenant, clause_id)).fetchone()
    if row is None:
        return None
    latest = _latest(db, tenant, {row[17]}, Eligible(""))
    return stored_of(row, latest.get(row[17], str(row[18])))


def _latest(db: Database, tenant: int, documents: set[str], wanted: Eligible) -> dict[str, str]:
    """The latest revision of each document as believed then, of those that the same caller can see."""
    seen = eligible(tenant, Eligible("", known_at=wanted.known_at, labels=wanted.labels), on_day=False)
    values = seen.values | {"documents": json_text(sorted(documents))}
    return {doc_id: rev_id for doc_id, rev_id, _ in db.execute(seen.fill("latest"), values)}


def is_eligible(db: Database, tenant: int, clause_id: str, wanted: Eligible) -> bool:
    seen = eligible(tenant, wanted, shown=False)
    return bool(db.execute(seen.fill("is_eligible"), seen.values | {"clause_id": clause_id}).fetchone())


def withheld(db: Database, tenant: int, wanted: Eligible) -> int:
    if wanted.labels is None:
        return 0
    seen = eligible(tenant, wanted).without("open")
    row = db.execute(seen.fill("withheld", open=SQL["open"]), seen.values).fetchone()
    return int(row[0]) if row else 0
