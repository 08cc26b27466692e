"""The dense arm: follows the table's outbox into a vector index, and asks that index (derived; the table is the truth).

One version of an index belongs to one embedder and one form of the embedded text. Embeddings come from the cache by
content hash, so an amendment embeds only what it changed and a rebuild embeds nothing. What cannot be embedded now is
tried again later; the lexical arm answers meanwhile, and the lag says how far behind this one is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from devassist.core.errors import DevAssistError, Unavailable, VectorsUnavailable
from devassist.ports.knowledge_store import IndexItem, KnowledgeStore
from devassist.ports.vectors import Embedder, VectorFilter, VectorHit, VectorIndex

log = logging.getLogger("devassist.knowledge")

FORM = "f1"
"""The form of the embedded text (ports.knowledge_store.IndexItem); another one is another version of every index."""
LOOK_S = 0.5
"""How often the outbox is looked at when nothing tells of a change."""
RETRY_S = 5.0
BATCH = 16
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class DenseState:
    """What a search says of the dense arm. ``applied`` is the outbox's seq up to which it is complete; ``fault`` the
    last failure, None when all is well."""

    version: str
    embedder: str
    index: str
    ready: bool
    applied: int
    clauses: int
    waiting: int
    fault: str | None


class Dense:
    """An embedder, an index and the table that they follow. ``near`` is the cosine from which the nearest clause counts
    as being about the question, by the embedder's measure. ``progress`` hears (done, to do) while much is put."""

    def __init__(
        self, store: KnowledgeStore, embedder: Embedder, index: VectorIndex, *, near: float,
        progress: Callable[[int, int], None] = lambda done, todo: None,
    ) -> None:  # fmt: skip
        self._store, self._embedder, self._index = store, embedder, index
        self.near = near
        self._progress = progress
        self._family = f"{embedder.name}-{FORM}-"
        self._build = 0  # the number of the version in use, 0 before one is
        self._applied = self._clauses = self._waiting = 0
        self._ready = False
        self._fault: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._one = asyncio.Lock()  # one of following, reconciling and rebuilding at a time

    def state(self) -> DenseState:
        """As it stands; nothing is asked of anybody."""
        return DenseState(
            self._version(), self._embedder.name, self._index.kind, self._ready, self._applied, self._clauses,
            self._waiting, self._fault,
        )  # fmt: skip

    def start(self) -> None:
        """Follow the outbox in the background until ``close``."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="knowledge-index")

    def hurry(self) -> None:
        """Something was committed: look now."""
        self._news.set()

    async def search(self, query: str, k: int, wanted: VectorFilter) -> list[VectorHit] | None:
        """The nearest clauses, or None before the index was complete for the first time. Raises Unavailable."""
        if not self._ready:
            return None
        if not self._clauses:
            return []
        vector = (await self._embedder.embed([query], "query"))[0]
        try:
            return await self._index.search(self._version(), vector, k, wanted)
        except Unavailable as error:
            self._ready, self._fault = False, error.detail
            self._news.set()  # an index in memory is gone with its process: it is filled again from the cache
            raise

    async def catch_up(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Follow the outbox to its end now; returns its ``seq``. ``progress`` is heard from here on instead of the one
        given at first. Raises Unavailable."""
        async with self._one:
            self._progress = progress or self._progress
            await self._open()
            while rows := await self._store.outbox(self._applied, _PAGE):
                latest = {row.key: row for row in rows}
                items = await self._store.items(list(latest))
                there = {item.key for item in items}
                if gone := [key for key in latest if key not in there]:
                    await self._index.remove(self._version(), gone)
                await self._put(self._version(), items)
                self._applied = rows[-1].seq
                await self._keep(self._version(), self._applied)
            self._clauses = len(await self._index.keys(self._version())) if self._applied else 0
            self._waiting, self._ready, self._fault = 0, True, None
            return self._applied

    async def reconcile(self) -> tuple[int, int]:
        """Compare the index with the table, put what is missing or other, remove what should not be there; returns how
        many of each. Raises Unavailable."""
        async with self._one:
            await self._open()
            return await self._reconcile(self._version())

    async def rebuild(self) -> int:
        """Make a new version from the table and the cache, check it against the table, then use it instead of the old
        one, which answers meanwhile; returns how many clauses it holds. Raises Unavailable."""
        async with self._one:
            await self._open()
            old, new = self._version(), f"{self._family}{self._build + 1}"
            head = await self._store.head()
            await self._index.create(new)
            await self._reconcile(new)
            wrong = await self._reconcile(new)
            if wrong != (0, 0):
                raise VectorsUnavailable(f"version {new} does not fit the table after it was built: {wrong}")
            await self._keep(new, head)
            self._build, self._applied = self._build + 1, head
            await self._index.drop(old)
        await self.catch_up()
        return self._clauses

    async def close(self) -> None:
        """Stop following, then close index and embedder. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._index.close()
        await self._embedder.close()

    # -- following -----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            pause = LOOK_S
            try:
                if not self._ready or self._fault or await self._store.head() > self._applied:
                    await self.catch_up()
            except DevAssistError as error:
                if self._fault != error.detail:
                    log.warning("the vector index lags behind: %s", error.detail)
                self._fault, pause = error.detail, RETRY_S
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()

    async def _open(self) -> None:
        """Take up the newest version that was complete once; what was left half made by a stop is dropped."""
        held = await self._index.versions()
        if self._build and self._version() in held:
            return
        self._build = 0
        builds = {int(v.removeprefix(self._family)): v for v in held if v.startswith(self._family)}
        for build in sorted(builds, reverse=True):
            applied = await self._store.applied(self._follower(builds[build]))
            if applied and not self._build:
                self._build, self._applied = build, applied
        for version in held:
            if version != self._version():
                await self._index.drop(version)
        if self._build:
            await self._reconcile(self._version())  # the stop may have come between an upsert and its note
            return
        self._build = max(builds, default=0) + 1
        await self._index.create(self._version())
        head = await self._store.head()
        await self._reconcile(self._version())
        self._applied = head
        await self._keep(self._version(), head)

    async def _reconcile(self, version: str) -> tuple[int, int]:
        held = await self._index.keys(version)
        put = after = 0
        seen: set[int] = set()
        while keys := await self._store.all_keys(after, _PAGE):
            items = await self._store.items(keys)
            seen |= {item.key for item in items}
            wrong = [item for item in items if held.get(item.key) != item.stamp]
            await self._put(version, wrong)
            put += len(wrong)
            after = keys[-1]
        if extra := [key for key in held if key not in seen]:
            await self._index.remove(version, extra)
        return put, len(extra)

    async def _put(self, version: str, items: Sequence[IndexItem]) -> None:
        """Embed what the cache does not hold, a few at a time, each batch kept before the next is begun."""
        name = self._embedder.name
        known = await self._store.embeddings(name, [item.embed_sha256 for item in items]) if items else {}
        missing = {item.embed_sha256: item.embed_text for item in items if item.embed_sha256 not in known}
        self._waiting = len(missing)
        todo = iter(missing.items())
        while batch := dict(islice(todo, BATCH)):
            made = await self._embedder.embed(list(batch.values()), "passage")
            vectors = dict(zip(batch, made, strict=True))
            await self._store.keep_embeddings(name, vectors)
            known |= vectors
            self._waiting -= len(batch)
            self._progress(len(missing) - self._waiting, len(missing))
        for start in range(0, len(items), _PAGE):
            part = items[start : start + _PAGE]
            await self._index.upsert(version, part, [known[item.embed_sha256] for item in part])

    async def _keep(self, version: str, seq: int) -> None:
        await self._store.set_applied(self._follower(version), seq)

    def _version(self) -> str:
        return f"{self._family}{self._build}"

    def _follower(self, version: str) -> str:
        return f"{self._index.kind}:{version}"
