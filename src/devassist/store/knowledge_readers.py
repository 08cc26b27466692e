"""Connections to knowledge.db: the writer's, with the tables made, and a few that read, each on a thread at a time."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from devassist.core.errors import Unavailable
from devassist.store.database import READING, Database, connect, immediate
from devassist.store.knowledge_filter import SQL
from devassist.store.knowledge_lexical import Lexical
from devassist.store.sql_files import script

VERSION = 1
"""Of knowledge_schema.sql."""
READERS = 2

T = TypeVar("T")


class Reader:
    """A connection that reads, and the lexical arm on it."""

    def __init__(self, path: Path) -> None:
        self.db = connect(path, **READING)
        self.lexical = Lexical(self.db)

    def snapshot(self, work: Callable[[Reader], T]) -> T:
        """What ``work`` reads is of one moment."""
        self.db.execute("BEGIN")
        try:
            return work(self)
        finally:
            self.db.execute("ROLLBACK")


class Readers:
    """As many readers as threads. Raises Unavailable when the file fails, or after ``close``."""

    def __init__(self, path: Path) -> None:
        self._quick = connect(path, **READING)
        self._all = [Reader(path) for _ in range(READERS)]
        self._free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for reader in self._all:
            self._free.put(reader)
        self._pool = ThreadPoolExecutor(READERS, "devassist-knowledge")
        self._closed = False

    async def read(self, work: Callable[[Reader], T]) -> T:
        """What ``work`` finds, in one snapshot, off the event loop."""
        self._refuse_closed()
        return await asyncio.get_running_loop().run_in_executor(self._pool, guarded, lambda: self._borrow(work))

    def number(self, statement: str) -> int:
        """One number by key, in tens of microseconds: no thread is worth it."""
        self._refuse_closed()
        row = guarded(lambda: self._quick.execute(SQL[statement]).fetchone())
        return int(row[0]) if row else 0

    async def close(self) -> None:
        """Idempotent."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        for reader in self._all:
            reader.db.close()
        self._quick.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Unavailable("the store of knowledge is closed")

    def _borrow(self, work: Callable[[Reader], T]) -> T:
        reader = self._free.get()  # there is always one
        try:
            return reader.snapshot(work)
        finally:
            self._free.put(reader)


def guarded(work: Callable[[], T]) -> T:
    """Raises Unavailable for apsw.Error."""
    try:
        return work()
    except apsw.Error as error:
        raise Unavailable(f"the store of knowledge failed: {type(error).__name__}: {error}") from None


def prepared(path: Path) -> Database:
    """The writer's connection, with the tables made. Raises apsw.Error, Unavailable for a file of a newer version."""
    db = connect(path, journal_mode="WAL", synchronous="FULL", foreign_keys="ON")
    row = db.execute("PRAGMA user_version").fetchone()
    found = int(row[0]) if row else 0
    if found > VERSION:
        db.close()
        raise Unavailable(f"{path} is of version {found}, and this program knows {VERSION}: use the newer program")
    if found < VERSION:
        with immediate(db):
            db.execute(script("knowledge_schema.sql"))
    return db
