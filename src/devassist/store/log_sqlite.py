"""The decision log on SQLite: log.db follows the journal's feed, and answers queries.

Implements the port DecisionLog. Rows and texts are written in batches on one thread, the cursor in the same
transaction; queries read on another. The full-text index is built when nothing else happens: what it lacks is scanned,
so that searches never miss and a busy run never pays for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeVar

import apsw

from devassist.core.errors import DevAssistError, JournalCorrupt, PayloadErased, RunNotFound, Unavailable
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.decision_log import LogPage, LogQuery, ReliancePage
from devassist.ports.journal import Feed, Head, Heads, Journal, Record
from devassist.ports.vault import Vault
from devassist.store.log_draft import INIT, Draft
from devassist.store.log_query import LogReader, Visible, check
from devassist.store.log_relied import checked, relied
from devassist.store.log_writer import LogWriter

BATCH = 300
"""Journal rows per transaction: what is made of them is in memory until it is written."""
WINDOW_S = 0.15
"""How long news are gathered before they are written: many runs then share one transaction."""
IDLE_S = 0.3
"""So long without news, and the full-text index is brought on."""
REST_S = 5.0
"""How long at most to sleep when there is nothing to do; news end it at once."""
RETRY_S = 1.0
BACKLOG = 20_000
"""With more texts than this outside the index, it is brought on between batches too."""
PATIENCE_S = 1.0
"""How long a query waits for the projection to reach the journal's end."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Source(Journal, Heads, Feed, Protocol):
    """What the log reads of a journal."""


class SqliteLog:
    """``await SqliteLog.open(path, journal, vault)``; ``start`` to follow in the background; ``close`` when done.

    Several processes may follow into one file: who finds the cursor moved by another starts again from where it stands.
    """

    def __init__(self, path: Path, journal: Source, vault: Vault, window_s: float = WINDOW_S) -> None:
        self.path = path
        self._journal, self._vault, self._window_s = journal, vault, window_s
        self._writing = ThreadPoolExecutor(1, "devassist-log")
        self._reading = ThreadPoolExecutor(1, "devassist-log-query")
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._chase: asyncio.Task[None] | None = None
        try:
            self._writer = LogWriter(path)
            self._reader = LogReader(path)
        except apsw.Error as error:
            raise Unavailable(f"{path} cannot be used: {type(error).__name__}: {error}") from None

    @classmethod
    async def open(cls, path: Path, journal: Source, vault: Vault, window_s: float = WINDOW_S) -> SqliteLog:
        """Raises Unavailable when the file cannot be used."""
        path.parent.mkdir(parents=True, exist_ok=True)
        log = cls(path, journal, vault, window_s)
        if await journal.tip() < log._writer.position:  # the journal was put back to an earlier day
            await log._in_writer(log._writer.wipe)
        return log

    async def close(self) -> None:
        """Stop following and release the file. Idempotent."""
        await self.stop()
        if self._chase is not None:
            await asyncio.gather(self._chase, return_exceptions=True)
        for pool in (self._writing, self._reading):
            await asyncio.to_thread(pool.shutdown)
        self._writer.close()
        self._reader.close()

    # -- following -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Follow in the background until ``stop``. Idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._follow(), name="decision-log")

    async def stop(self) -> None:
        """Finish the batch under way, then stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            async with self._turn:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def follow_once(self) -> int:
        """Write one batch of what the journal has after the cursor; return how many of its rows, 0 at its end."""
        async with self._turn:
            while True:
                records = await self._journal.changes(self._writer.position, BATCH)
                if not records:
                    return 0
                try:
                    if await self._write(records):
                        return len(records)
                except BaseException:
                    await self._in_writer(self._writer.reset)
                    raise

    async def catch_up(self) -> None:
        """Follow until the journal's end as of now."""
        tip = await self._journal.tip()
        while self._writer.position < tip and await self.follow_once():
            pass

    async def lag(self) -> int:
        """How many journal rows are not in the log yet."""
        return max(await self._journal.tip() - self._writer.position, 0)

    async def rebuild(self) -> int:
        """Derive everything again from the journal's beginning; return the number of rows."""
        async with self._turn:
            await self._in_writer(self._writer.wipe)
        await self.catch_up()
        while self._writer.backlog:
            await self._index()
        return await self._in_writer(self._writer.count)

    async def erase(self, domain: bytes) -> None:
        """Blank the domain's texts and names, down to the bytes of the files. Idempotent."""
        self._vault.forget(domain)
        async with self._turn:
            await self._in_writer(lambda: self._writer.erase(domain))

    async def _follow(self) -> None:
        writer = self._writer
        while True:
            try:
                upkeep = writer.backlog or writer.unscrubbed
                if await self._journal.wait(writer.position, IDLE_S if upkeep else REST_S):
                    await asyncio.sleep(self._window_s)
                    while await self.follow_once() == BATCH:
                        pass
                    if writer.backlog > BACKLOG:
                        await self._index()
                    continue
                if writer.unscrubbed:
                    await self._in_writer(writer.scrub)
                while writer.backlog and not await self._journal.wait(writer.position, 0):
                    await self._index()
            except DevAssistError as error:
                _log.warning("the decision log cannot follow: %s", error)
                await asyncio.sleep(RETRY_S)
            except Exception:  # noqa: BLE001 - a projection outlives any fault, says so, and tries again
                _log.exception("the decision log cannot follow")
                await asyncio.sleep(RETRY_S)

    async def _index(self) -> None:
        async with self._turn:
            await self._in_writer(self._writer.index)

    async def _write(self, records: Sequence[Record]) -> bool:
        past: dict[bytes, Sequence[Record]] = {}
        heads: dict[bytes, Head] = {}
        for stream, record in self._writer.unknown(records).items():
            if record.seq > 0:
                past[stream] = await self._journal.read(SYSTEM, stream, limit=record.seq)
            first = past[stream][0] if stream in past else record
            if first.kind != INIT:
                with suppress(RunNotFound):
                    heads[stream] = await self._journal.head(SYSTEM, stream)
        draft: Draft = await self._in_writer(lambda: self._writer.draft(records, past, heads))
        for domain in draft.erased:
            self._vault.forget(domain)
        texts = {stream: await self._texts(stream, refs) for stream, refs in draft.wanted.items()}
        names = await self._vault.load(draft.domains) if draft.domains else {}
        return await self._in_writer(lambda: self._writer.write(draft, texts, names))

    async def _texts(self, stream: bytes, refs: Sequence[str]) -> dict[str, str]:
        """Texts by reference; those erased, or that cannot be read, are left out."""
        try:
            return await self._journal.payloads(SYSTEM, stream, refs)
        except (PayloadErased, JournalCorrupt):
            if len(refs) == 1:
                return {}
        return {key: text for ref in refs for key, text in (await self._texts(stream, (ref,))).items()}

    # -- queries -------------------------------------------------------------------------------------------------

    async def query(self, scope: Scope, query: LogQuery) -> LogPage:
        """Waits up to a second until the log has reached the journal's end as of now. Raises InvalidRequest."""
        check(query)
        await self._arrive()
        visible = await self._visible(scope)
        if visible is None:
            return LogPage([], None, await self.lag())
        rows, following = await self._in_reader(lambda: self._reader.page(query, visible))
        return LogPage(rows, following, await self.lag())

    async def relied(
        self, scope: Scope, *, doc_id: str | None = None, rev_id: str | None = None, after: str | None = None,
        limit: int = 50,
    ) -> ReliancePage:  # fmt: skip
        """See ports.decision_log. Raises InvalidRequest."""
        asked = checked(doc_id, rev_id, after, limit)
        await self._arrive()
        visible = await self._visible(scope)
        if visible is None:
            return ReliancePage([], None, await self.lag())
        rows, following = await self._in_reader(lambda: self._reader.with_db(lambda db: relied(db, asked, visible)))
        return ReliancePage(rows, following, await self.lag())

    async def _visible(self, scope: Scope) -> Visible | None:
        """Whose rows a caller may see; None for one who has none."""
        own = None if scope.is_admin else await self._vault.find(scope, "user", scope.actor)
        if own is None and not scope.is_admin:
            return None
        return Visible(None if scope.is_system else scope.tenant, own)

    async def _arrive(self) -> None:
        """The chase goes on when a query's patience ends, and later queries join it."""
        end, tip = monotonic() + PATIENCE_S, await self._journal.tip()
        while self._writer.position < tip and (left := end - monotonic()) > 0:
            if self._chase is None or self._chase.done():
                self._chase = asyncio.create_task(self.catch_up(), name="decision-log-chase")
            await asyncio.wait({self._chase}, timeout=left)
            if self._chase.done() and (error := self._chase.exception()) is not None:
                _log.warning("the decision log cannot follow; a query shows what there is: %s", error)
                return

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading, _guarded, work)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writing, _guarded, work)


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except apsw.Error as error:
        raise Unavailable(f"the decision log failed: {type(error).__name__}: {error}") from None
