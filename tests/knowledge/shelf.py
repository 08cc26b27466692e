"""A whole library in a directory: table, ingestion and search, without vectors and without a parsing process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from devassist.core.scope import TENANT, Scope
from devassist.knowledge.curating import TableCurator
from devassist.knowledge.indexing import Dense
from devassist.knowledge.parsing.document import ParsedDocument, Quarantine
from devassist.knowledge.parsing.parse import parse
from devassist.knowledge.policy_dir import follow_directory
from devassist.knowledge.search import TableLibrary
from devassist.ports.curation import Given, Incoming, Ingestion
from devassist.ports.library import Answered, ClauseHit, Question
from devassist.ports.vectors import Embedder, VectorIndex
from devassist.store.knowledge_sqlite import SqliteKnowledge

ADMIN = Scope(TENANT, "officer", frozenset({"admin"}))


class InProcess:
    """The parser itself, without its process."""

    async def parse(self, data: bytes, name: str) -> ParsedDocument | Quarantine:
        return parse(data, name)

    async def close(self) -> None:
        """Nothing to release."""


@dataclass
class HandClock:
    """Microseconds that move on by one with each look, and a day that is set by hand."""

    now: int = 1_750_000_000_000_000
    day: str = "2026-01-15"
    boot: int = field(default=0)

    def now_us(self) -> int:
        self.now += 1
        return self.now

    def boottime_us(self) -> int:
        return self.now_us()

    def today(self) -> str:
        return self.day


@dataclass
class Shelf:
    """What a test does with a library, in a word each."""

    store: SqliteKnowledge
    curator: TableCurator
    library: TableLibrary
    clock: HandClock
    dense: Dense | None

    async def put(self, name: str, text: str | bytes, collection: str = "policies", **given: object) -> Ingestion:
        data = text if isinstance(text, bytes) else text.encode()
        wanted = Given(collection, **given)  # pyright: ignore[reportArgumentType]
        (outcome,) = [one async for one in self.curator.ingest(ADMIN, [Incoming(name, data)], wanted)]
        return outcome

    async def ask(self, query: str, collection: str = "policies", scope: Scope = ADMIN, **wanted: object) -> Answered:
        question = Question(query, (collection,), **wanted)  # pyright: ignore[reportArgumentType]
        return await self.library.search(scope, question)

    async def policies(self, query: str, top_k: int = 5, as_of: str | None = None) -> list[ClauseHit]:
        """As ``get_policy`` asks."""
        return list((await self.ask(query, top_k=top_k, as_of=as_of, relevant=True)).hits)

    async def texts(self, query: str, collection: str = "policies", **wanted: object) -> list[str]:
        return [hit.text for hit in (await self.ask(query, collection, **wanted)).hits]


async def fill(place: Path, directory: Path) -> None:
    """A policy directory becomes knowledge.db below ``place``."""
    async with shelf(place) as books:
        await follow_directory(books.store, directory, books.clock, today=books.clock.today)


@asynccontextmanager
async def shelf(
    place: Path, embedder: Embedder | None = None, index: VectorIndex | None = None
) -> AsyncGenerator[Shelf]:
    """Opens knowledge.db below ``place`` and closes all of it again."""
    store, clock = await SqliteKnowledge.open(place / "knowledge.db"), HandClock()
    dense = None if embedder is None or index is None else Dense(store, embedder, index, near=2.0)
    try:
        curator = TableCurator(store, InProcess(), clock, today=clock.today, dense=dense)
        yield Shelf(store, curator, TableLibrary(store, clock, today=clock.today, dense=dense), clock, dense)
    finally:
        if dense is not None:
            await dense.close()
        await store.close()
