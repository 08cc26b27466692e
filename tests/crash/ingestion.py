"""A process that ingests, amends, deletes and indexes, and kills itself at a given moment of it.

A moment is a statement that writes to knowledge.db, a text that is embedded, a file that is parsed, or either side of a
call that changes the vector index. Each outcome is acknowledged in the file ``acknowledged`` once it is told; a search
of this process runs beside all of it and ends the process when it finds a text that was acknowledged to be gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import apsw
import uvloop

from devassist.core.errors import CallerError, DocumentNotFound
from devassist.core.scope import TENANT, Scope
from devassist.knowledge.curating import TableCurator
from devassist.knowledge.indexing import Dense
from devassist.knowledge.parsing.document import ParsedDocument, Quarantine
from devassist.knowledge.parsing.process import ParserProcess
from devassist.knowledge.search import TableLibrary
from devassist.ports.curation import Given, Incoming
from devassist.ports.knowledge_store import IndexItem
from devassist.ports.library import POLICIES, Question
from devassist.ports.vectors import VectorIndex
from devassist.runtime.clock import SystemClock
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.testing.hashing import HashingEmbedder
from devassist.vectors.chroma import ChromaIndex
from devassist.vectors.exact import ExactIndex
from tests.crash.world import append

ADMIN = Scope(TENANT, "keeper", frozenset({"admin"}))
DOCUMENTS = 6
AMENDED = range(2, DOCUMENTS)
DELETED, REPEALED = 0, 1
ROUNDS = 3
QUERY = "补助标准由乡镇核定"
TODAY = "2026-01-15"


def text_of(number: int, edition: int) -> str:
    """A document in its first or second edition; one of its three articles differs."""
    return (
        f"# rules{number}\n\n（{2023 + edition}年3月1日某市人民政府公布　自{2023 + edition}年4月1日起施行）\n\n"
        f"第一条 补助标准由乡镇核定，种类{number}。\n\n第二条 补助标准{number}类第{edition}版为每月{edition}百元。\n\n"
        f"第三条 补助按月发放，窗口{number}受理。\n"
    )


def document(number: int) -> str:
    """Its id."""
    return f"policies.{number}"


def gone_by(acknowledged: frozenset[str]) -> frozenset[str]:
    """What no search of today may find once ``acknowledged`` was told: the marks of editions, and documents."""
    editions = {f"{number}类第1版" for number in AMENDED if f"amended {number}" in acknowledged}
    return frozenset(editions | {line.partition(" ")[2] for line in acknowledged if line.startswith("gone ")})


def told(place: Path) -> frozenset[str]:
    path = place / "acknowledged"
    return frozenset(path.read_text().splitlines()) if path.exists() else frozenset()


async def look(library: TableLibrary, place: Path) -> int:
    """One search; how much it found. Raises AssertionError where that is of a text that is gone."""
    gone = gone_by(told(place))
    answered = await library.search(ADMIN, Question(QUERY, (POLICIES,), 50))
    for hit in answered.hits:
        assert hit.doc_id not in gone, (hit.clause_id, sorted(gone))
        assert not any(mark in hit.text for mark in gone), (hit.text, sorted(gone))
    by_document: dict[str, set[str]] = {}
    for hit in answered.hits:
        by_document.setdefault(hit.doc_id, set()).add(hit.rev_id)
    assert all(len(revisions) == 1 for revisions in by_document.values()), by_document
    return len(answered.hits)


def started_by(place: Path) -> list[int]:
    """Processes that a process in ``place`` started and that still run."""
    mark, found = str(place).encode(), list[int]()
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and mark in (each / "cmdline").read_bytes() + (each / "environ").read_bytes():
                found.append(int(each.name))
        except OSError:
            continue
    return found


class Moments:
    """Counts; kills this process at moment ``at`` (0: never)."""

    def __init__(self, at: int) -> None:
        self._at, self.count = at, 0
        self._writing = set[int]()

    def here(self) -> None:
        self.count += 1
        if self.count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        """Counts within transactions that write, their begin and commit too; readers' are none."""
        connection = id(cursor.connection)
        if sql.startswith("BEGIN IMMEDIATE"):
            self._writing.add(connection)
        if connection in self._writing:
            self.here()
        if sql.startswith(("COMMIT", "ROLLBACK;")):
            self._writing.discard(connection)
        return True


@dataclass
class Parser:
    made: ParserProcess
    moments: Moments

    async def parse(self, data: bytes, name: str) -> ParsedDocument | Quarantine:
        self.moments.here()
        return await self.made.parse(data, name)

    async def close(self) -> None:
        await self.made.close()


class Embedder(HashingEmbedder):
    def __init__(self, moments: Moments) -> None:
        super().__init__(64)
        self._moments = moments

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        if kind == "passage":
            self._moments.here()
        return await super().embed(texts, kind)


class Index:
    """Any index, with a moment before and after what changes it."""

    def __init__(self, made: VectorIndex, moments: Moments) -> None:
        self._made, self._moments = made, moments
        self.kind = made.kind
        self.versions, self.keys, self.search, self.close = made.versions, made.keys, made.search, made.close

    async def create(self, version: str) -> None:
        self._moments.here()
        await self._made.create(version)
        self._moments.here()

    async def drop(self, version: str) -> None:
        self._moments.here()
        await self._made.drop(version)
        self._moments.here()

    async def upsert(self, version: str, items: Sequence[IndexItem], vectors: Sequence[bytes]) -> None:
        self._moments.here()
        await self._made.upsert(version, items, vectors)
        self._moments.here()

    async def remove(self, version: str, keys: Sequence[int]) -> None:
        self._moments.here()
        await self._made.remove(version, keys)
        self._moments.here()


@dataclass
class Keeping:
    store: SqliteKnowledge
    curator: TableCurator
    library: TableLibrary
    dense: Dense
    index: VectorIndex


@asynccontextmanager
async def keeping(place: Path, kind: str, moments: Moments) -> AsyncGenerator[Keeping]:
    """All of it in ``place``, following the outbox."""
    store, clock = await SqliteKnowledge.open(place / "knowledge.db"), SystemClock()
    for connection in apsw.connections():
        connection.exec_trace = moments.watch
    embedder, parser = Embedder(moments), Parser(ParserProcess(), moments)
    made = ExactIndex() if kind == "exact" else ChromaIndex(place / "vectors", embedder.name)
    index = Index(made, moments)
    dense = Dense(store, embedder, index, near=2.0)
    dense.start()
    curator = TableCurator(store, parser, clock, today=lambda: TODAY, dense=dense)
    try:
        yield Keeping(store, curator, TableLibrary(store, clock, today=lambda: TODAY, dense=dense), dense, index)
    finally:
        await parser.close()
        await dense.close()
        await store.close()


async def _round(kept: Keeping, place: Path, number: int) -> None:
    """What a round does; done again after a kill it does what is left."""
    if number < ROUNDS:
        files = [Incoming(path.name, path=path) for path in sorted((place / f"round-{number}").iterdir())]
        async for outcome in kept.curator.ingest(ADMIN, files, Given(POLICIES)):
            assert outcome.doc_id == document(int(outcome.name.removesuffix(".md"))), outcome
            name = outcome.name.removesuffix(".md")
            append(place / "acknowledged", f"{'amended' if number == 2 else 'added'} {name}")
        return
    with suppress(DocumentNotFound):
        await kept.curator.delete(ADMIN, document(DELETED))
    append(place / "acknowledged", f"gone {document(DELETED)}")
    with suppress(CallerError):
        await kept.curator.repeal(ADMIN, document(REPEALED), "2025-12-31")
    append(place / "acknowledged", f"gone {document(REPEALED)}")


async def _look_on(kept: Keeping, place: Path) -> None:
    while True:
        await look(kept.library, place)
        await asyncio.sleep(0)


async def _run(place: Path, kind: str, number: int, at: int) -> None:
    async with keeping(place, kind, Moments(at)) as kept:
        looking = asyncio.create_task(_look_on(kept, place))
        doing = asyncio.create_task(_round(kept, place, number))
        await asyncio.wait([looking, doing], return_when=asyncio.FIRST_COMPLETED)
        if looking.done():
            looking.result()
        await doing
        while not (kept.dense.state().ready and kept.dense.state().applied == await kept.store.head()):
            assert not looking.done(), looking.result()
            await asyncio.sleep(0.01)
        looking.cancel()
        held = await kept.index.keys(kept.dense.state().version)
        versions = list(await kept.index.versions())
        hits = [h.clause_id for h in (await kept.library.search(ADMIN, Question(QUERY, (POLICIES,), 50))).hits]
        ended = {"keys": held, "versions": len(versions), "hits": hits, "processes": len(started_by(place))}
        (place / "indexed.json").write_text(json.dumps(ended))


def run(argument: str) -> None:
    """``place``, which ``index`` (exact, chroma), which ``round`` and ``at`` which moment to die."""
    given = json.loads(argument)
    sys.path.append(given["place"])  # processes that this one starts are told by it: it is handed on to them
    uvloop.run(_run(Path(given["place"]), given["index"], given["round"], given["at"]))
