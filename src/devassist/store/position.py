"""Where the journal stands, remembered apart from it, and the marks that a rewound journal carries itself.

The journal's ``meta`` holds its incarnation and, until a person goes on, the rewind that was noticed. The key
directory holds ``position.json``: what incarnation was seen there last, and its newest event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import TypeVar

import apsw

from devassist.core.errors import JournalCorrupt, Unavailable
from devassist.core.lineage import Place, Rewind
from devassist.store.backup_files import exchange
from devassist.store.database import Database, connect, immediate
from devassist.store.sql_files import statements

SQL = statements("lineage.sql")
FILE = "position.json"
KEYS = "keys.db"
_INCARNATION, _REWIND = "incarnation", "rewind"
_FEW = {"cache_size": "-100"}

T = TypeVar("T")


class SqliteLineage:
    """Implements ports.lineage.Lineage on a journal's file, which exists and has its schema. ``close`` when done."""

    def __init__(self, path: Path) -> None:
        """Raises Unavailable."""
        self._path = path
        self._reader = _guarded(path, lambda: connect(path, **_FEW))

    def close(self) -> None:
        """Idempotent."""
        self._reader.close()

    async def place(self) -> Place:
        return _guarded(self._path, lambda: place_of(self._reader))

    async def hash_at(self, row: int) -> str | None:
        return _guarded(self._path, lambda: hash_in(self._reader, row))

    async def rewind(self) -> Rewind | None:
        return _guarded(self._path, lambda: rewind_of(self._reader))

    async def mark(self, rewind: Rewind) -> Rewind:
        return await asyncio.to_thread(self._writing, lambda db: put_mark(db, rewind))

    async def clear(self) -> None:
        await asyncio.to_thread(self._writing, lambda db: db.execute(SQL["drop"], (_REWIND,)).fetchall())

    def _writing(self, work: Callable[[Database], T]) -> T:
        def write() -> T:
            db = connect(self._path, synchronous="FULL", **_FEW)
            try:
                with immediate(db):
                    return work(db)
            finally:
                db.close()

        return _guarded(self._path, write)


def place_of(db: Database) -> Place:
    """Of an open journal; its incarnation is "" where it was never opened by a build that gives one."""
    incarnation = db.execute(SQL["get"], (_INCARNATION,)).fetchone()
    tip = db.execute(SQL["tip"]).fetchone()
    row, at, link = (0, -1, "") if tip is None else (tip[0], tip[1], tip[2].hex())
    return Place("" if incarnation is None else incarnation[0], row, at, link)


def rewind_of(db: Database) -> Rewind | None:
    """The mark of an open journal. Raises JournalCorrupt."""
    found = db.execute(SQL["get"], (_REWIND,)).fetchone()
    if found is None:
        return None
    try:
        return Rewind(**json.loads(found[0]))
    except (TypeError, ValueError):
        raise JournalCorrupt(f"meta.{_REWIND} holds {found[0][:200]!r}, which says nothing about a rewind") from None


def hash_in(db: Database, row: int) -> str | None:
    """Of an open journal's event in a row."""
    found = db.execute(SQL["hash_at"], (row,)).fetchone()
    return None if found is None else found[0].hex()


def put_mark(db: Database, rewind: Rewind, *, over: bool = False) -> Rewind:
    """Within a write transaction; the mark that stands then. ``over`` an earlier one, which is kept otherwise."""
    known = None if over else rewind_of(db)
    if known is not None and known.how != "copied":
        return known
    db.execute(SQL["put"], (_INCARNATION, rewind.incarnation))
    db.execute(SQL["put"], (_REWIND, json.dumps(asdict(rewind))))
    return rewind


class PositionFile:
    """Implements ports.lineage.Positions as ``position.json`` of a directory that exists."""

    def __init__(self, keys_dir: Path) -> None:
        self.path = keys_dir / FILE
        self._writing = Lock()

    async def read(self) -> Place | None:
        return read_position(self.path)

    async def write(self, place: Place) -> None:
        await asyncio.to_thread(self._write, place)

    def _write(self, place: Place) -> None:
        """That the new file is in place is not waited for: an older one is still where this journal stood once."""
        with self._writing:
            try:
                exchange(self.path, json.dumps(place._asdict()))
            except OSError as error:
                raise Unavailable(f"{self.path} cannot be written: {error.strerror}") from None


def read_position(path: Path) -> Place | None:
    """Raises Unavailable: what cannot be read is not the same as nothing."""
    try:
        place = Place(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise Unavailable(
            f"{path} should say where the journal stood and cannot be read ({type(error).__name__}); put it back, or "
            "remove it when the journal is sure to be whole"
        ) from None
    if tuple(map(type, place)) != (str, int, int, str):
        raise Unavailable(f"{path} does not say where the journal stood; put it back, or remove it")
    return place


def check_keys(journal: Path, keys_dir: Path) -> None:
    """Raises Unavailable where a journal's texts are sealed under keys that are not in ``keys_dir``: a new key store
    beside it would look like one whose every person was erased."""
    if not journal.exists() or not _guarded(journal, lambda: _finds(journal, SQL["sealed"])):
        return
    keys = keys_dir / KEYS
    missing = None if keys.exists() else f"{keys} is missing"
    if missing is None and not _guarded(keys, lambda: _finds(keys, SQL["domains"])):
        erased = _guarded(journal, lambda: _finds(journal, SQL["erasures"]))
        missing = None if erased else f"{keys} holds no key at all"
    if missing is not None:
        raise Unavailable(
            f"the texts of {journal} are sealed under keys that should be in {keys_dir}, and {missing}; put the "
            "directory back from its backup, or say where it is with DEVASSIST_KEYS_DIR"
        )


def _finds(path: Path, query: str) -> bool:
    """False also where the table is not there: the file is empty, or of an earlier build."""
    db = connect(path, **_FEW)
    try:
        return db.execute(query).fetchone() is not None
    except apsw.SQLError:
        return False
    finally:
        db.close()


def _guarded(path: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except apsw.Error as error:
        raise Unavailable(f"{path} cannot be used: {type(error).__name__}: {error}") from None
