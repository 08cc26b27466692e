"""The keeping of knowledge over its table (adapter of ``ports.curation``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from devassist.core.errors import (
    CallerError,
    CollectionNotFound,
    DocumentNotFound,
    Forbidden,
    RevisionNotFound,
    Unavailable,
)
from devassist.core.scope import Scope
from devassist.knowledge.asset_files import asset_of
from devassist.knowledge.assets import is_date
from devassist.knowledge.indexing import Dense
from devassist.knowledge.ingesting import Ingester, Parses, iso
from devassist.knowledge.lineage import changes, compare
from devassist.knowledge.revising import units
from devassist.knowledge.timeline import believed, plan_delete, plan_repeal
from devassist.ports.clock import Clock
from devassist.ports.curation import (
    DiffLine,
    Document,
    Given,
    Incoming,
    IndexState,
    Ingestion,
)
from devassist.ports.knowledge_store import (
    Belief,
    Change,
    DocumentRow,
    Eligible,
    KnowledgeStore,
    Plan,
    Quarantined,
    Revision,
)

_PAGE = 100


class TableCurator:
    """``today`` gives the day as an ISO date; ``dense`` is the vector arm, where there is one."""

    def __init__(
        self, store: KnowledgeStore, parser: Parses, clock: Clock, *, today: Callable[[], str], dense: Dense | None
    ) -> None:
        self._store, self._clock, self._today, self._dense = store, clock, today, dense
        self._ingester = Ingester(store, parser, clock, today=today, commit=self._commit)

    async def ingest(self, scope: Scope, files: Iterable[Incoming], given: Given) -> AsyncIterator[Ingestion]:
        """See ports.curation."""
        _administers(scope)
        async for outcome in self._ingester.ingest(scope, files, given):
            yield outcome

    async def _commit(self, scope: Scope, plan: Plan) -> None:
        await self._store.commit(scope, [plan], self._clock.now_us())
        if self._dense is not None:
            self._dense.hurry()

    # -- changes -------------------------------------------------------------------------------------------------

    async def repeal(self, scope: Scope, doc_id: str, day: str) -> None:
        """See ports.curation. Raises CallerError (``invalid_date``, ``nothing_to_repeal``), DocumentNotFound."""
        _administers(scope)
        if not is_date(day):
            raise CallerError(f"{day[:40]!r} is not a date; write YYYY-MM-DD.", code="invalid_date")
        await self._commit(scope, plan_repeal(await self._known(scope, doc_id), doc_id, day))

    async def delete(self, scope: Scope, doc_id: str) -> None:
        """See ports.curation."""
        _administers(scope)
        beliefs = await self._known(scope, doc_id)
        if not believed(beliefs):
            raise DocumentNotFound(f"There is no document {doc_id}; it was deleted before.")
        await self._commit(scope, plan_delete(beliefs, doc_id))

    # -- looking -------------------------------------------------------------------------------------------------

    async def documents(
        self, scope: Scope, *, collection: str | None = None, as_of: str | None = None, text: str | None = None,
        after: str | None = None, limit: int = 50,
    ) -> tuple[list[DocumentRow], str | None]:  # fmt: skip
        """See ports.curation."""
        named = () if collection is None else (collection,)
        if collection is not None and collection not in {name for name, _, _ in await self.collections(scope)}:
            raise CollectionNotFound(f"There is no collection {collection}.")
        wanted = Eligible(self._day(as_of), named, labels=scope.sees)
        return await self._store.documents(scope, wanted, text=text, after=after, limit=limit)

    async def document(
        self, scope: Scope, doc_id: str, *, as_of: str | None = None, known_at: int | None = None
    ) -> Document:
        """See ports.curation."""
        beliefs = await self._known(scope, doc_id)
        wanted = Eligible(self._day(as_of), known_at=known_at, labels=scope.sees, doc_ids=(doc_id,))
        rows, _ = await self._store.documents(scope, wanted, limit=1)
        if not rows:
            raise DocumentNotFound(f"There is no document {doc_id}.")
        row, beliefs = rows[0], await self._opened(scope, beliefs)
        return Document(row, tuple(beliefs), None if row.rev_id is None else await self.revision(scope, row.rev_id))

    async def revision(self, scope: Scope, rev_id: str) -> Revision:
        """See ports.curation. A revision of a deleted document is found by administrators only: it is record."""
        open_ = scope.is_admin or await self._there(scope, rev_id.partition("@")[0])
        revision = await self._store.revision(scope, rev_id) if open_ else None
        if revision is None or not _opens(scope, revision.labels):
            raise RevisionNotFound(f"There is no revision {rev_id}.")
        return revision

    async def asset(self, scope: Scope, rev_id: str) -> Mapping[str, Any]:
        """See ports.curation."""
        revision = await self.revision(scope, rev_id)
        beliefs = await self._store.beliefs(scope, revision.doc_id)
        seen = {b.rev_id for b in await self._opened(scope, beliefs)}
        shown = revision if revision.supersedes in seen else replace(revision, supersedes=None)
        return asset_of(shown, [b for b in beliefs if b.rev_id == rev_id][-1], iso)

    async def raw(self, scope: Scope, rev_id: str) -> tuple[bytes, str]:
        """See ports.curation."""
        revision = await self.revision(scope, rev_id)
        data = await self._store.raw(scope, revision.source.raw_sha256)
        if data is None:
            raise RevisionNotFound(f"The file that {rev_id} came from was not kept here.")
        return data, revision.source.media_type

    async def diff(self, scope: Scope, before: str, after: str) -> list[DiffLine]:
        """See ports.curation."""
        old, new = await self.revision(scope, before), await self.revision(scope, after)
        left, right = units(old), units(new)
        steps = compare(left, right)
        lines: list[DiffLine] = []
        for step in steps:
            told = changes(left, right, [step])
            one = None if step.old is None else old.clauses[step.old]
            other = None if step.new is None else new.clauses[step.new]
            change: Change | None = told[0] if told else None
            lines.append(DiffLine(change, one, other))
        return lines

    async def collections(self, scope: Scope) -> list[tuple[str, int, int]]:
        """See ports.curation."""
        return await self._store.collections(scope, scope.sees)

    async def quarantined(self, scope: Scope) -> list[Quarantined]:
        """See ports.curation."""
        _administers(scope)
        return await self._store.quarantined(scope)

    async def export(self, scope: Scope, collection: str | None = None) -> AsyncIterator[Mapping[str, Any]]:
        """See ports.curation."""
        _administers(scope)
        after: str | None = None
        while True:
            rows, after = await self.documents(scope, collection=collection, after=after, limit=_PAGE)
            for row in rows:
                for belief in believed(await self._store.beliefs(scope, row.doc_id)):
                    revision = await self._store.revision(scope, belief.rev_id)
                    if revision is not None:
                        yield asset_of(revision, belief, iso)
            if after is None:
                return

    # -- the index -----------------------------------------------------------------------------------------------

    async def index(self, scope: Scope) -> IndexState:
        """See ports.curation."""
        head = await self._store.head()
        if self._dense is None:
            return IndexState(None, None, None, ready=False, head=head, applied=0, clauses=0, waiting=0, fault=None)
        s = self._dense.state()
        return IndexState(s.embedder, s.index, s.version, s.ready, head, s.applied, s.clauses, s.waiting, s.fault)

    async def catch_up(
        self, scope: Scope, progress: Callable[[int, int], None] = lambda done, todo: None
    ) -> IndexState:
        """See ports.curation."""
        _administers(scope)
        if self._dense is not None:
            await self._dense.catch_up(progress)
        return await self.index(scope)

    async def reindex(self, scope: Scope) -> IndexState:
        """See ports.curation. Raises Unavailable where no embedder is set or it cannot be asked."""
        _administers(scope)
        if self._dense is None:
            raise Unavailable("there is no vector index: DEVASSIST_EMBEDDER is none", code="embedder_unavailable")
        await self._dense.rebuild()
        return await self.index(scope)

    # ------------------------------------------------------------------------------------------------------------

    async def _known(self, scope: Scope, doc_id: str) -> list[Belief]:
        """The beliefs of a document that is there for this caller. Raises DocumentNotFound."""
        if not await self._there(scope, doc_id):
            raise DocumentNotFound(f"There is no document {doc_id}.")
        return await self._store.beliefs(scope, doc_id)

    async def _there(self, scope: Scope, doc_id: str) -> bool:
        """Whether something is believed of a document that this caller's labels open: one look-up, whatever the
        answer."""
        wanted = Eligible(self._today(), labels=scope.sees, doc_ids=(doc_id,))
        return bool((await self._store.documents(scope, wanted, limit=1))[0])

    async def _opened(self, scope: Scope, beliefs: Sequence[Belief]) -> list[Belief]:
        """Those of revisions that the caller's labels open: of others not even the ids are shown."""
        if scope.sees is None:
            return list(beliefs)
        labels: dict[str, bool] = {}
        for rev_id in {b.rev_id for b in beliefs}:
            revision = await self._store.revision(scope, rev_id)
            labels[rev_id] = revision is not None and _opens(scope, revision.labels)
        return [b for b in beliefs if labels[b.rev_id]]

    def _day(self, as_of: str | None) -> str:
        if as_of is not None and not is_date(as_of):
            raise CallerError(f"as_of {as_of[:40]!r} is not a date; write YYYY-MM-DD.", code="invalid_date")
        return as_of or self._today()


def _administers(scope: Scope) -> None:
    if not scope.is_admin:
        raise Forbidden("Documents are brought in, changed and removed by administrators.")


def _opens(scope: Scope, labels: Sequence[str]) -> bool:
    return scope.sees is None or not labels or bool(scope.sees & set(labels))
