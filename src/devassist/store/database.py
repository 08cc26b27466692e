"""The part of apsw that the stores use, with types that are known (apsw's stubs need Python 3.12's ``Buffer``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import apsw

Bindings = Sequence[Any] | Mapping[str, Any] | None

CACHE_KIB = 600
"""Pages that a connection keeps; a process has half a dozen, and SQLite's own default is 2,000 KiB for each."""
BUSY_MS = 10_000
"""How long a statement waits for another process's lock."""
READING = {"cache_size": "-500"}
"""Of a connection that only reads: half a megabyte of pages, not two."""


class Rows(Protocol):
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...
    def fetchone(self) -> tuple[Any, ...] | None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Database(Protocol):
    """An ``apsw.Connection``. Raises apsw.Error."""

    @property
    def in_transaction(self) -> bool: ...
    def last_insert_rowid(self) -> int: ...
    def execute(self, statements: str, bindings: Bindings = None) -> Rows: ...
    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[Any]]) -> Rows: ...
    def close(self) -> None: ...


def connect(path: Path, **pragmas: str) -> Database:
    """Open or make the file and set pragmas, in the order given. Raises apsw.Error."""
    if not path.exists():
        # Its companions (-wal, -shm, -journal) take their rights from the file.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(BUSY_MS)
    db = cast("Database", connection)
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}").fetchall()
    for name, value in pragmas.items():
        db.execute(f"PRAGMA {name} = {value}").fetchall()
    return db


def register(db: Database, name: str, function: Callable[..., Any]) -> None:
    """Make a deterministic Python function available to this connection's SQL."""
    cast("Any", db).create_scalar_function(name, function, deterministic=True)


@contextmanager
def immediate(db: Database) -> Generator[None]:
    """A write transaction that excludes other processes from its first statement on."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite may have rolled back itself: disk full, I/O error
            db.execute("ROLLBACK")
        raise
