"""The table of knowledge on SQLite: knowledge.db, with its lexical index and outbox in the same transactions.

Implements the port KnowledgeStore. One thread writes, two read, each on a connection of its own: WAL lets readers see
the last commit while the next is written. Rows are made before the writer is asked, so that it holds its lock for no
longer than the inserts take. Several processes may use the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from devassist.core.errors import Unavailable
from devassist.core.scope import Scope
from devassist.ports.knowledge_rows import ChangeRow, IndexItem, Ingested, OutboxRow, Quarantined
from devassist.ports.knowledge_store import Belief, DocumentRow, Eligible, LexicalHit, Plan, Revision, StoredClause
from devassist.store import knowledge_reading as reading
from devassist.store import knowledge_writing as writing
from devassist.store.knowledge_filter import SQL
from devassist.store.knowledge_readers import Reader, Readers, prepared
from devassist.store.knowledge_rows import item_of, json_text, prepare
from devassist.store.writer import Writer

T = TypeVar("T")


class SqliteKnowledge:
    """Open with ``await SqliteKnowledge.open(path)``; ``close`` when done. Raises Unavailable where the file fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tenants: dict[str, int] = {}
        self._titles: dict[int, tuple[int, list[str]]] = {}
        try:
            db = prepared(path)
            self._readers = Readers(path)
        except apsw.Error as error:
            raise Unavailable(f"{path} cannot be used: {type(error).__name__}: {error}") from None
        self._writer = Writer(db, _nobody, "the table of knowledge")

    @classmethod
    async def open(cls, path: Path) -> SqliteKnowledge:
        """Raises Unavailable when the file cannot be used."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(path)

    async def close(self) -> None:
        """Finish what is queued, then release the file. Idempotent."""
        await self._readers.close()
        await self._writer.close()

    # -- writing -------------------------------------------------------------------------------------------------

    async def commit(self, scope: Scope, plans: Sequence[Plan], at: int) -> int:
        """See ports.knowledge_store."""
        rows = await asyncio.to_thread(lambda: list(map(prepare, plans)))
        return await self._writer.submit(lambda db: writing.commit(db, scope, rows, at))

    async def quarantine(self, scope: Scope, files: Sequence[Quarantined]) -> None:
        """See ports.knowledge_store."""
        await self._writer.submit(lambda db: writing.quarantine(db, scope, files))

    async def note_ingested(self, scope: Scope, files: Sequence[Ingested]) -> None:
        """See ports.knowledge_store."""
        await self._writer.submit(lambda db: writing.note_ingested(db, scope, files))

    async def forget_ingested(self, scope: Scope, collection: str, names: Sequence[str]) -> None:
        """See ports.knowledge_store."""
        await self._writer.submit(lambda db: writing.forget_ingested(db, scope, collection, names))

    async def keep_embeddings(self, embedder: str, vectors: Mapping[str, bytes]) -> None:
        """See ports.knowledge_store."""
        await self._writer.submit(lambda db: writing.keep_embeddings(db, embedder, vectors))

    async def set_applied(self, follower: str, seq: int) -> None:
        """See ports.knowledge_store."""
        await self._writer.submit(lambda db: writing.set_applied(db, follower, seq))

    # -- reading -------------------------------------------------------------------------------------------------

    async def beliefs(self, scope: Scope, doc_id: str) -> list[Belief]:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.beliefs(r.db, t, doc_id), list[Belief]())

    async def revision(self, scope: Scope, rev_id: str) -> Revision | None:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.revision(r.db, t, rev_id), None)

    async def raw(self, scope: Scope, raw_sha256: str) -> bytes | None:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.raw(r.db, t, raw_sha256), None)

    async def documents(
        self, scope: Scope, eligible: Eligible, *, text: str | None = None, after: str | None = None, limit: int = 50
    ) -> tuple[list[DocumentRow], str | None]:
        """See ports.knowledge_store."""
        nothing = (list[DocumentRow](), None)
        return await self._of(scope, lambda r, t: reading.documents(r.db, t, eligible, text, after, limit), nothing)

    async def collections(self, scope: Scope, labels: frozenset[str] | None = None) -> list[tuple[str, int, int]]:
        """See ports.knowledge_store."""
        nothing = list[tuple[str, int, int]]()
        return await self._of(scope, lambda r, t: reading.collections(r.db, t, labels), nothing)

    async def quarantined(self, scope: Scope, limit: int = 100) -> list[Quarantined]:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.quarantined(r.db, t, limit), list[Quarantined]())

    async def ingested(self, scope: Scope, collection: str, name: str) -> Ingested | None:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.ingested(r.db, t, collection, name), None)

    async def ingested_below(self, scope: Scope, collection: str, prefix: str) -> list[Ingested]:
        """See ports.knowledge_store."""
        nothing = list[Ingested]()
        return await self._of(scope, lambda r, t: reading.ingested_below(r.db, t, collection, prefix), nothing)

    # -- searching -----------------------------------------------------------------------------------------------

    async def lexical(self, scope: Scope, terms: Sequence[str], eligible: Eligible, limit: int) -> list[LexicalHit]:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: r.lexical.search(t, terms, eligible, limit), list[LexicalHit]())

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> tuple[int, dict[str, int]]:
        """See ports.knowledge_store."""
        nothing = (0, dict.fromkeys(terms, 0))
        return await self._of(scope, lambda r, t: (r.lexical.indexed(t), r.lexical.counts(t, terms)), nothing)

    async def articles(
        self, scope: Scope, titles: Sequence[str], article: int, sub: int, eligible: Eligible, limit: int
    ) -> list[int]:
        """See ports.knowledge_store."""
        named, nothing = tuple(titles), list[int]()
        return await self._of(
            scope, lambda r, t: reading.articles(r.db, t, named, article, sub, eligible, limit), nothing
        )

    async def titles(self, scope: Scope) -> list[str]:
        """See ports.knowledge_store."""
        stamp = self._readers.number("titles_stamp")
        tenant = self._tenants.get(scope.tenant)
        if tenant is not None and (kept := self._titles.get(tenant)) is not None and kept[0] == stamp:
            return kept[1]
        return await self._of(scope, lambda r, t: self._read_titles(r, t), list[str]())

    def _read_titles(self, reader: Reader, tenant: int) -> list[str]:
        row = reader.db.execute(SQL["titles_stamp"]).fetchone()
        found = reading.titles(reader.db, tenant)
        self._titles[tenant] = (int(row[0]) if row else 0, found)
        return found

    async def clauses(self, scope: Scope, keys: Sequence[int], eligible: Eligible) -> list[StoredClause]:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.clauses(r.db, t, keys, eligible), list[StoredClause]())

    async def clause(self, scope: Scope, clause_id: str) -> StoredClause | None:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.clause(r.db, t, clause_id), None)

    async def is_eligible(self, scope: Scope, clause_id: str, eligible: Eligible) -> bool:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.is_eligible(r.db, t, clause_id, eligible), False)

    async def withheld(self, scope: Scope, eligible: Eligible) -> int:
        """See ports.knowledge_store."""
        return await self._of(scope, lambda r, t: reading.withheld(r.db, t, eligible), 0)

    # -- following -----------------------------------------------------------------------------------------------

    async def outbox(self, after: int, limit: int) -> list[OutboxRow]:
        """See ports.knowledge_store."""
        return await self._readers.read(
            lambda r: [OutboxRow(*row) for row in r.db.execute(SQL["outbox"], (after, limit))]
        )

    async def changes(self, after: int, limit: int) -> list[ChangeRow]:
        """See ports.knowledge_store."""
        return await self._readers.read(
            lambda r: [ChangeRow(*row) for row in r.db.execute(SQL["changes"], (after, limit))]
        )

    async def head(self) -> int:
        """See ports.knowledge_store."""
        return self._readers.number("head")

    async def recorded(self) -> int:
        """See ports.knowledge_store."""
        return self._readers.number("recorded_last")

    async def items(self, keys: Sequence[int]) -> list[IndexItem]:
        """See ports.knowledge_store."""
        values = (json_text(keys),)
        return await self._readers.read(lambda r: [item_of(row) for row in r.db.execute(SQL["items"], values)])

    async def all_keys(self, after: int, limit: int) -> list[int]:
        """See ports.knowledge_store."""
        return await self._readers.read(lambda r: [row[0] for row in r.db.execute(SQL["all_keys"], (after, limit))])

    async def embeddings(self, embedder: str, shas: Sequence[str]) -> dict[str, bytes]:
        """See ports.knowledge_store."""
        values = (embedder, json_text(shas))
        return await self._readers.read(lambda r: dict(r.db.execute(SQL["embeddings"], values).fetchall()))

    async def applied(self, follower: str) -> int:
        """See ports.knowledge_store."""
        rows = await self._readers.read(lambda r: r.db.execute(SQL["applied"], (follower,)).fetchall())
        return int(rows[0][0]) if rows else 0

    # -- threads -------------------------------------------------------------------------------------------------

    async def _of(self, scope: Scope, work: Callable[[Reader, int], T], nothing: T) -> T:
        """What ``work`` finds in the scope's tenant; ``nothing`` where that has none yet."""
        name = scope.tenant

        def read(reader: Reader) -> T:
            tenant = self._tenants.get(name)
            if tenant is None:
                row = reader.db.execute(SQL["find_tenant"], (name,)).fetchone()
                if row is None:
                    return nothing
                self._tenants[name] = tenant = int(row[0])
            return work(reader, tenant)

        return await self._readers.read(read)


def _nobody(results: list[object]) -> None:
    """Nobody waits for commits: followers look at the head."""
