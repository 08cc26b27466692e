"""One writer thread per database with group commit: every write waits for one fsync that it shares with others.

An operation checks before it writes, so its refusal leaves no trace in the transaction and fails no neighbour; where
the database itself refuses, the whole batch is rolled back and repeated one by one.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from time import sleep
from typing import Any

import apsw

from devassist.core.errors import DevAssistError, Unavailable
from devassist.store.database import Database

Operation = Callable[[Database], Any]

GROUP = 256
LINGER_S = 0.008
"""Wait for company only while the last batch had some: a lone run never waits."""
CROWD = 4


class Writer:
    """Runs operations in batches on its own thread and connection."""

    def __init__(self, db: Database, on_commit: Callable[[list[Any]], None], what: str = "the journal") -> None:
        """``what`` is written, for errors."""
        self._db = db
        self._what = what
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Operation, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="devassist-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation) -> asyncio.Future[Any]:
        """Queue ``operation``; the future has its result once the batch is durable."""
        if self._closed:
            raise Unavailable("the store is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put((operation, future))
        return future

    async def close(self) -> None:
        """Finish what is queued, then stop and close the connection. Idempotent."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._db.close()

    def _run(self) -> None:
        size, stop = 0, False
        while not stop:
            first = self._queue.get()
            if size > CROWD:
                sleep(LINGER_S)
            batch: list[tuple[Operation, asyncio.Future[Any]]] = []
            item = first
            while True:
                if item is None:
                    stop = True
                else:
                    batch.append(item)
                if len(batch) >= GROUP:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            size = len(batch)
            if batch:
                self._loop.call_soon_threadsafe(self._deliver, self._commit(batch))

    def _commit(self, batch: list[tuple[Operation, asyncio.Future[Any]]]) -> list[tuple[asyncio.Future[Any], Any]]:
        try:
            return self._transaction(batch)
        except Exception as error:  # noqa: BLE001 - the thread outlives any fault; it goes to the caller that made it
            if len(batch) == 1:
                return [(batch[0][1], _failed(self._what, error) if isinstance(error, apsw.Error) else error)]
        results: list[tuple[asyncio.Future[Any], Any]] = []
        for item in batch:
            results += self._commit([item])
        return results

    def _transaction(self, batch: list[tuple[Operation, asyncio.Future[Any]]]) -> list[tuple[asyncio.Future[Any], Any]]:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        results: list[tuple[asyncio.Future[Any], Any]] = []
        try:
            for operation, future in batch:
                try:
                    results.append((future, operation(db)))
                except DevAssistError as refusal:
                    results.append((future, refusal))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return results

    def _deliver(self, results: list[tuple[asyncio.Future[Any], Any]]) -> None:
        self._on_commit([result for _, result in results])
        for future, result in results:
            if future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


def _failed(what: str, error: apsw.Error) -> DevAssistError:
    """A database error as ours: full disk, I/O error, lock that did not come free, or a refused row."""
    return Unavailable(f"{what} could not be written: {type(error).__name__}: {error}")
