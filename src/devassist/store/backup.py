"""Backup and restore of a data directory: files are copied whole, checked by hash, and put in place by renaming.

Implements ports.backup.Backups. The journal is copied by SQLite's online backup: one read transaction, beside any
writer. The copy carries a mark, so that a start on it is held even where it is put back by hand.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import time_ns
from typing import Any, TypeVar, cast

import apsw

from devassist.core.errors import InvalidRequest, JournalCorrupt, Unavailable
from devassist.core.events import SCHEMA_GENERATION
from devassist.core.lineage import Place, Rewind
from devassist.ports.backup import Manifest, Present, Staged
from devassist.store.backup_files import (
    COMPANIONS,
    absent,
    apart,
    copied,
    digest,
    move_aside,
    private,
    remove,
    sync,
    unmake,
    write_whole,
)
from devassist.store.backup_reading import compare, peek
from devassist.store.database import Database, connect, immediate
from devassist.store.lock import FILE as FILE_OF_LOCK
from devassist.store.lock import DirectoryLock
from devassist.store.position import FILE, place_of, put_mark, read_position, rewind_of
from devassist.store.sql_files import statements

SQL = statements("backup.sql")
MANIFEST, REPORT = "manifest.json", "restore-report.json"
FORMAT = 1
JOURNAL, KNOWLEDGE = "journal.db", "knowledge.db"
"""Their names within a backup, whatever they are called here."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Directories:
    data: Path
    keys: Path
    graphs: Path
    journal: Path

    @property
    def truth(self) -> dict[str, Path]:
        """What a backup holds. The journal first: it names what knowledge holds, never the other way round."""
        return {JOURNAL: self.journal, KNOWLEDGE: self.data / KNOWLEDGE}


class FileBackups:
    """Of one data directory. Work goes on in a thread; what files refuse is Unavailable."""

    def __init__(self, directories: Directories) -> None:
        self._at = directories

    async def take(self, target: Path) -> Manifest:
        return await _in_thread(lambda: _take(self._at, target))

    @contextmanager
    def locked(self) -> Generator[None]:
        made = absent(self._at.data)
        lock = DirectoryLock(self._at.data)
        try:
            yield
        except BaseException:
            unmake(made, FILE_OF_LOCK)  # while it is locked: the lock of somebody else is never removed
            raise
        finally:
            lock.release()

    async def remembered(self) -> Place | None:
        return read_position(self._at.keys / FILE)

    async def stage(self, source: Path) -> Staged:
        return await _in_thread(lambda: _stage(self._at, source))

    async def discard(self, staged: Staged) -> None:
        await asyncio.to_thread(shutil.rmtree, staged.journal.parent, ignore_errors=True)

    async def present(self, staged: Staged) -> Present:
        return await _in_thread(lambda: compare(self._at.journal, staged.journal))

    async def swap(self, staged: Staged, rewind: Rewind) -> Path | None:
        return await _in_thread(lambda: _swap(self._at, staged, rewind))

    async def clear_derived(self) -> None:
        await _in_thread(lambda: clear_derived(self._at.data, self._at.graphs))

    async def report(self, report: dict[str, Any]) -> Path:
        path = self._at.data / REPORT
        await _in_thread(lambda: write_whole(path, json.dumps(report, ensure_ascii=False, indent=1) + "\n"))
        return path

    async def peek(self) -> Rewind | None:
        remembered = read_position(self._at.keys / FILE)
        return await _in_thread(lambda: peek(self._at.journal, remembered, _now()))


def clear_derived(data: Path, graphs: Path) -> None:
    """Remove what is made from the journal again at the next start. Nobody drives the directory meanwhile."""
    remove(data / "log.db")
    for path in (*graphs.glob("*.mmd"), graphs / ".cursor"):
        path.unlink(missing_ok=True)
    for name in ("cache", "vectors"):
        shutil.rmtree(data / name, ignore_errors=True)


# -- backup ------------------------------------------------------------------------------------------------------


def _take(at: Directories, target: Path) -> Manifest:
    if not at.journal.exists():
        raise Unavailable(f"there is no journal at {at.journal} to back up; --data-dir names another directory")
    apart(target, {"data": at.data, "key": at.keys})
    private(target)
    try:
        for name, path in at.truth.items():
            if path.exists():
                _copy(path, target / name)
        place, runs, open_runs = _marked(target / JOURNAL)
    except BaseException:
        for name in at.truth:
            remove(target / name)
        raise
    made = [target / name for name in at.truth if (target / name).exists()]
    for path in made:
        sync(path)
    files = {path.name: digest(path) for path in made}
    manifest = Manifest(version("devassist"), SCHEMA_GENERATION, place, _now(), runs, open_runs, files)
    sync(target)
    # Last: without it a backup is half-made.
    write_whole(target / MANIFEST, json.dumps({"format": FORMAT, **_plain(manifest)}, indent=1) + "\n")
    sync(target.parent)
    return manifest


def _copy(path: Path, target: Path) -> None:
    """One moment's state of a database that others may be writing. Raises JournalCorrupt where that is damaged."""
    source, copy = connect(path), connect(target)
    try:
        with cast("Any", copy).backup("main", cast("Any", source), "main") as backup:
            backup.step(-1)  # all of it at once: in steps it would begin again whenever somebody writes
        _check(copy, "quick_check", path)
        _fold(copy)
    finally:
        source.close()
        copy.close()


def _marked(journal: Path) -> tuple[Place, int, int]:
    """Mark a copy as one. Where it stands, how many runs it has, and how many of them are open."""
    db = connect(journal)
    try:
        place, held = place_of(db), rewind_of(db)
        whole = max(place.at, 0) if held is None else held.window_from
        with immediate(db):
            put_mark(db, Rewind("copied", place.incarnation, place.incarnation, whole, 0, known=False), over=True)
        runs, open_runs = db.execute(SQL["runs"]).fetchone() or (0, 0)
        _fold(db)
        return place, runs, open_runs
    finally:
        db.close()


def _fold(db: Database) -> None:
    """All of it in the one file; a reader who opens it later then changes nothing in it."""
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _check(db: Database, pragma: str, path: Path) -> None:
    found = [str(row[0]) for row in db.execute(f"PRAGMA {pragma}").fetchall()]
    if found != ["ok"]:
        raise JournalCorrupt(f"{path} is damaged: {'; '.join(found[:5])}")


# -- restore -----------------------------------------------------------------------------------------------------


def _stage(at: Directories, source: Path) -> Staged:
    manifest = _manifest(source)
    at.journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in at.journal.parent.glob("restoring-*"):  # by a restore that was cut off
        shutil.rmtree(left, ignore_errors=True)
    place = at.journal.parent / f"restoring-{_stamp()}"
    place.mkdir(mode=0o700)
    try:
        for name, made in manifest.files.items():
            if copied(source / name, place / name) != made:
                raise JournalCorrupt(f"{source / name} is not the file that the backup was made with: its hash differs")
        _sound(place / JOURNAL, source / JOURNAL, manifest)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return Staged(manifest, place / JOURNAL)


def _sound(journal: Path, named: Path, manifest: Manifest) -> None:
    db = connect(journal)
    try:
        _check(db, "integrity_check", named)
        if place_of(db) != manifest.place:
            raise JournalCorrupt(f"{named} does not stand where {MANIFEST} says")
    finally:
        db.close()


def _manifest(source: Path) -> Manifest:
    path = source / MANIFEST
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if found.pop("format") != FORMAT:
            raise InvalidRequest(f"{path}: a backup of another format, made by devassist {found.get('product')}")
        files = {str(name): (str(each["sha256"]), int(each["bytes"])) for name, each in found.pop("files").items()}
        manifest = Manifest(place=Place(**found.pop("place")), files=files, **found)
        newer = manifest.generation > SCHEMA_GENERATION
    except FileNotFoundError:
        raise InvalidRequest(f"{source} holds no {MANIFEST}: it is no backup, or one that was cut off") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"{path} cannot be read as a backup's: {type(error).__name__}") from None
    if newer:
        raise InvalidRequest(f"{source} was made by devassist {manifest.product}, whose events this build cannot read")
    if JOURNAL not in manifest.files or not {JOURNAL, KNOWLEDGE}.issuperset(manifest.files):
        raise InvalidRequest(f"{path} names other files than a backup has")
    return manifest


def _plain(manifest: Manifest) -> dict[str, Any]:
    files = {name: {"sha256": sha, "bytes": size} for name, (sha, size) in manifest.files.items()}
    return {**asdict(manifest), "place": manifest.place._asdict(), "files": files}


def _swap(at: Directories, staged: Staged, rewind: Rewind) -> Path | None:
    """Each step leaves a start that is held: the old journal, none at all, or the marked one."""
    db = connect(staged.journal)
    try:
        with immediate(db):
            before = rewind_of(db)
            if before is not None:  # it was held itself when it was backed up
                rewind = replace(rewind, window_from=min(before.window_from, rewind.window_from))
            put_mark(db, rewind, over=True)
        _fold(db)
    finally:
        db.close()
    replaced = _aside(at)
    for name in staged.manifest.files:
        sync(staged.journal.with_name(name))
        staged.journal.with_name(name).replace(at.truth[name])
        sync(at.truth[name].parent)
    shutil.rmtree(staged.journal.parent, ignore_errors=True)
    clear_derived(at.data, at.graphs)
    return replaced


def _aside(at: Directories) -> Path | None:
    there = [
        (name, path) for name, path in at.truth.items()
        if any(path.with_name(f"{path.name}{end}").exists() for end in COMPANIONS)
    ]  # fmt: skip
    if not there:
        return None
    into = at.data / f"replaced-{_stamp()}"
    into.mkdir(mode=0o700)
    for name, path in there:
        move_aside(path, into, name)
    if (earlier := at.data / REPORT).exists():  # it alone says what the journal that was replaced before had
        earlier.replace(into / REPORT)
    sync(at.data)
    return into


def _now() -> int:
    return time_ns() // 1000


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


async def _in_thread(work: Callable[[], T]) -> T:
    """Nobody can stop a thread: who is cancelled waits for its end, or files would be removed and the lock be given up
    under its hands."""

    def guarded() -> T:
        try:
            return work()
        except apsw.Error as error:
            raise Unavailable(f"a database cannot be used: {type(error).__name__}: {error}") from None
        except OSError as error:
            raise Unavailable(f"{error.filename or 'a file'}: {error.strerror or error}") from None

    under_way = asyncio.get_running_loop().run_in_executor(None, guarded)
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await asyncio.gather(under_way, return_exceptions=True)
        raise
