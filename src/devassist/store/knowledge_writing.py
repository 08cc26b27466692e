"""What the writer thread does to knowledge.db. Every function runs within its transaction; a refusal leaves no trace.

One plan is one moment of recorded time, also among several that are committed together: a belief that one opens and
the next closes was believed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw
import orjson

from devassist.core.errors import KnowledgeConflict
from devassist.core.scope import Scope
from devassist.ports.knowledge_rows import Ingested, Quarantined
from devassist.ports.knowledge_store import Plan
from devassist.store.database import Database
from devassist.store.knowledge_rows import ORDINAL_BITS, Prepared, indexed
from devassist.store.sql_files import statements

SQL = statements("knowledge.sql")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Write:
    """In whose name, in which tenant (by number) and when something is written."""

    db: Database
    tenant: int
    actor: str
    at: int

    def all(self, name: str, values: Sequence[object] | Mapping[str, object]) -> list[tuple[Any, ...]]:
        return self.db.execute(self._sql(name), values).fetchall()

    def one(self, name: str, values: Sequence[object]) -> tuple[Any, ...]:
        (row,) = self.all(name, values)
        return row

    def many(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        self.db.executemany(self._sql(name), rows)

    def _sql(self, name: str) -> str:
        return SQL[name].replace("{tenant}", str(self.tenant))


def commit(db: Database, scope: Scope, prepared: Sequence[Prepared], at: int) -> int:
    """Carry out the plans, all or none; return the outbox's head. Raises KnowledgeConflict."""
    return _whole(db, lambda: _commit(db, scope, prepared, at))


def note_ingested(db: Database, scope: Scope, files: Sequence[Ingested]) -> None:
    """A file that became knowledge is in quarantine no more. Raises KnowledgeConflict for an unknown revision."""

    def note() -> None:
        tenant = _tenant(db, scope.tenant)
        for file in files:
            row = db.execute(SQL["collection_of"], (tenant, file.rev_id)).fetchone()
            if row is None:
                raise KnowledgeConflict(f"{file.name}: its revision {file.rev_id} is not stored; commit it first")
            named = (tenant, row[0], file.name)
            db.execute(SQL["note_ingested"], (*named, file.raw_sha256, file.parser, file.rev_id))
            db.execute(SQL["release"], named)

    _whole(db, note)


def forget_ingested(db: Database, scope: Scope, collection: str, names: Sequence[str]) -> None:
    db.executemany(SQL["forget_ingested"], ((scope.tenant, collection, name) for name in names))


def quarantine(db: Database, scope: Scope, files: Sequence[Quarantined]) -> None:
    tenant = _tenant(db, scope.tenant)
    rows = ((tenant, f.collection, f.name, f.raw_sha256, f.code, f.detail, f.at) for f in files)
    db.executemany(SQL["quarantine"], rows)


def keep_embeddings(db: Database, embedder: str, vectors: Mapping[str, bytes]) -> None:
    db.execute(SQL["insert_embedder"], (embedder,))
    db.executemany(SQL["keep_embedding"], ((embedder, sha, vector) for sha, vector in vectors.items()))


def set_applied(db: Database, follower: str, seq: int) -> None:
    db.execute(SQL["set_applied"], (follower, seq))


def _whole(db: Database, work: Callable[[], T]) -> T:
    """All of it or nothing: the transaction is shared with others, whom a refusal must not touch."""
    db.execute("SAVEPOINT whole")
    try:
        result = work()
    except BaseException as error:
        if db.in_transaction:  # SQLite may have rolled back itself: disk full, I/O error
            db.execute("ROLLBACK TO whole")
            db.execute("RELEASE whole")
        if isinstance(error, apsw.ConstraintError):
            raise KnowledgeConflict(f"the change was refused: {error}") from None
        raise
    db.execute("RELEASE whole")
    return result


def _tenant(db: Database, name: str) -> int:
    """The number of a tenant, which is made with its full-text index when it is new."""
    row = db.execute(SQL["find_tenant"], (name,)).fetchone()
    if row is None:
        row = db.execute(SQL["insert_tenant"], (name,)).fetchone()
        assert row is not None
        db.execute(SQL["make_index"].replace("{tenant}", str(row[0])))
    return int(row[0])


def _commit(db: Database, scope: Scope, prepared: Sequence[Prepared], at: int) -> int:
    tenant = _tenant(db, scope.tenant)
    recorded = _number(db, SQL["recorded"], tenant)
    for one in prepared:
        recorded = max(at, recorded + 1)
        try:
            _carry_out(Write(db, tenant, scope.actor, recorded), one)
        except apsw.ConstraintError as error:
            raise KnowledgeConflict(f"{one.plan.doc_id}: {error}") from None
    db.execute(SQL["move_recorded"], (recorded, tenant))
    return _number(db, SQL["head"])


def _number(db: Database, sql: str, *values: object) -> int:
    row = db.execute(sql, values).fetchone()
    return int(row[0]) if row else 0


def _carry_out(write: Write, prepared: Prepared) -> None:
    plan = prepared.plan
    (seen,) = write.one("count_beliefs", (write.tenant, plan.doc_id))
    if seen != plan.seen:
        raise KnowledgeConflict(
            f"{plan.doc_id} changed since the plan was made: it had {plan.seen} beliefs, now {seen}; plan again"
        )
    before = _searchable(write, plan.doc_id)
    _close(write, plan)
    _add(write, prepared)
    for opening in plan.open:
        rev = _revision(write, plan.doc_id, opening.rev_id)
        values = (write.tenant, plan.doc_id, rev, opening.status, opening.valid_from, opening.valid_to, write.at)
        write.one("open_belief", values)
        if opening.status == "withdrawn":
            _hide(write, rev)
        else:
            _show(write, rev)
    for rev_id in plan.purge:
        _hide(write, _revision(write, plan.doc_id, rev_id))
    after = _searchable(write, plan.doc_id)
    for rev in sorted(before | after):
        if before.get(rev) != after.get(rev):
            write.all("emit", {"remove": rev not in after, "rev": rev})
    _note(write, plan)


def _searchable(write: Write, doc_id: str) -> dict[int, tuple[str, str]]:
    """First day and end of each revision of a document that a search of now can find on some day."""
    return {rev: (begins, ends) for rev, begins, ends in write.all("searchable", (write.tenant, doc_id))}


def _close(write: Write, plan: Plan) -> None:
    for belief in plan.close:
        if not write.all("belief_to_close", (belief, write.tenant, plan.doc_id)):
            raise KnowledgeConflict(f"{plan.doc_id} has no open belief {belief}; plan again")
        write.all("close_belief", (write.at, belief))


def _add(write: Write, prepared: Prepared) -> None:
    plan, added = prepared.plan, prepared.plan.add
    if prepared.raw is not None:
        write.all("insert_raw", (write.tenant, *prepared.raw))
    if added is None:
        return
    if added.doc_id != plan.doc_id:
        raise KnowledgeConflict(f"{added.rev_id} is of {added.doc_id}, the plan of {plan.doc_id}")
    known = write.all("find_revision", (write.tenant, added.rev_id))
    if known:
        if known[0][2] != prepared.fingerprint:
            raise KnowledgeConflict(f"{added.rev_id} is stored with another content; give this one another revision id")
        return
    (rev,) = write.one("insert_revision", (write.tenant, *prepared.revision))
    keys = [(rev << ORDINAL_BITS) + clause.ordinal for clause in added.clauses]
    rows = zip(keys, prepared.clauses, strict=True)
    write.many("insert_clause", ((key, write.tenant, *row) for key, row in rows))
    _index(write, zip(keys, prepared.index, strict=True))


def _revision(write: Write, doc_id: str, rev_id: str) -> int:
    row = write.all("find_revision", (write.tenant, rev_id))
    if not row or row[0][1] != doc_id:
        raise KnowledgeConflict(f"{rev_id} is no stored revision of {doc_id}")
    return int(row[0][0])


def _index(write: Write, rows: Iterable[tuple[int, tuple[str, str]]]) -> None:
    made = [(key, *texts) for key, texts in rows]
    write.many("index_clause", made)
    write.all("move_indexed", (len(made), write.tenant))


def _hide(write: Write, rev: int) -> None:
    """Out of every search; once is enough."""
    if write.all("hide", (rev,)):
        keys = [(row[0],) for row in write.all("texts_of_revision", {"rev": rev})]
        write.many("unindex_clause", keys)
        write.all("move_indexed", (-len(keys), write.tenant))


def _show(write: Write, rev: int) -> None:
    """Believed again after it was hidden: searchable again."""
    if write.all("show", (rev,)):
        texts = write.all("texts_of_revision", {"rev": rev})
        _index(write, ((key, indexed(title, orjson.loads(path), text)) for key, title, path, text in texts))


def _note(write: Write, plan: Plan) -> None:
    added = plan.add
    named = added.rev_id if added is not None else plan.open[-1].rev_id if plan.open else None
    content = None if added is None else added.content_sha256
    write.all("insert_change", (write.tenant, write.at, write.actor, plan.doc_id, named, plan.reason, content))
