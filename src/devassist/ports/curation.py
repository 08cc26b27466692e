"""Port to the keeping of knowledge: documents come in, are amended, repealed, deleted, looked at and compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from devassist.core.scope import Scope
from devassist.ports.knowledge_store import Belief, Change, Clause, DocumentRow, Quarantined, Revision

MAX_FILE_BYTES = 50_000_000
"""Of one file; larger ones are quarantined as ``too_large`` without being read."""

Outcome = Literal["added", "amended", "corrected", "unchanged", "quarantined"]


@dataclass(frozen=True, slots=True)
class Incoming:
    """One file. ``name`` is how it is known from one ingestion to the next: its path below the directory given, with
    ``/``. ``data`` is its bytes, or ``path`` where they are read when its turn comes."""

    name: str
    data: bytes | None = None
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller knows better than the file says; None leaves it to the file. Dates are ISO days. ``effective`` is
    the day of entry into force, from whatever instrument; ``labels`` limit who may see the document."""

    collection: str
    doc_id: str | None = None
    title: str | None = None
    kind: str | None = None
    effective: str | None = None
    valid_to: str | None = None
    issuer: str | None = None
    url: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ingestion:
    """What became of one file. ``changes`` counts clauses by what happened to them (kept, renumbered, modified, added,
    deleted); ``code`` and ``detail`` say why a file is in quarantine; ``warnings`` what a person should look at."""

    name: str
    outcome: Outcome
    doc_id: str | None = None
    rev_id: str | None = None
    clauses: int = 0
    changes: Mapping[str, int] | None = None
    code: str | None = None
    detail: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A document with everything that was ever believed of it, and the revision that holds on the day asked for."""

    row: DocumentRow
    beliefs: tuple[Belief, ...]
    revision: Revision | None


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A clause of a comparison with both texts; ``op`` is ``keep`` where nothing changed."""

    change: Change | None
    before: Clause | None
    after: Clause | None


@dataclass(frozen=True, slots=True)
class IndexState:
    """How the search arms stand. ``lag`` counts outbox rows that the vector index has not seen; ``waiting`` texts that
    are to be embedded now; ``fault`` is what holds it up, if anything."""

    embedder: str | None
    index: str | None
    version: str | None
    ready: bool
    head: int
    applied: int
    clauses: int
    waiting: int
    fault: str | None

    @property
    def lag(self) -> int:
        return max(0, self.head - self.applied) if self.embedder else 0


class Curator(Protocol):
    """Changes need the right ``admin``; what a caller's labels do not open is not found. Raises DocumentNotFound,
    RevisionNotFound, KnowledgeConflict, AssetInvalid, CallerError, Forbidden; a refusal changes nothing."""

    def ingest(self, scope: Scope, files: Iterable[Incoming], given: Given) -> AsyncIterator[Ingestion]:
        """One by one, each durable before its outcome is told, so that an interrupted ingestion goes on where it
        stopped; a file that came in before with the same bytes does nothing. Never raises for a file's own fault."""
        ...

    async def documents(
        self, scope: Scope, *, collection: str | None = None, as_of: str | None = None, text: str | None = None,
        after: str | None = None, limit: int = 50,
    ) -> tuple[list[DocumentRow], str | None]: ...  # fmt: skip

    async def document(
        self, scope: Scope, doc_id: str, *, as_of: str | None = None, known_at: int | None = None
    ) -> Document: ...

    async def revision(self, scope: Scope, rev_id: str) -> Revision: ...
    async def asset(self, scope: Scope, rev_id: str) -> Mapping[str, Any]:
        """A revision as a knowledge asset (the packaged JSON Schema), with what is, or was last, believed of it."""
        ...

    async def raw(self, scope: Scope, rev_id: str) -> tuple[bytes, str]:
        """The bytes that a revision came from, and their media type."""
        ...

    async def diff(self, scope: Scope, before: str, after: str) -> list[DiffLine]:
        """Every clause of both revisions (by ``rev_id``), in the later one's order."""
        ...

    async def repeal(self, scope: Scope, doc_id: str, day: str) -> None:
        """No revision holds from ``day`` on."""
        ...

    async def delete(self, scope: Scope, doc_id: str) -> None:
        """Gone from every search arm when this returns; what runs recorded of it stays with them."""
        ...

    async def collections(self, scope: Scope) -> list[tuple[str, int, int]]:
        """(name, documents, clauses)."""
        ...

    async def quarantined(self, scope: Scope) -> list[Quarantined]: ...
    def export(self, scope: Scope, collection: str | None = None) -> AsyncIterator[Mapping[str, Any]]:
        """Every believed revision as a knowledge asset (the packaged JSON Schema), documents by id."""
        ...

    async def index(self, scope: Scope) -> IndexState: ...
    async def catch_up(
        self, scope: Scope, progress: Callable[[int, int], None] = lambda done, todo: None
    ) -> IndexState:
        """Bring the vector index to the table's end now, where there is one; ``progress`` hears (texts embedded, texts
        to embed) of each page of clauses. Cancelled, it keeps what was embedded. Raises Unavailable."""
        ...

    async def reindex(self, scope: Scope) -> IndexState:
        """Build a new version of the vector index from the table and the cache, check it, then use it."""
        ...
