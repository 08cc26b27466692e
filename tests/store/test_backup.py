"""Backups as files: one moment's state beside a writer, checked before use, put in place without losing anything."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import Conflict, DataDirInUse, InvalidRequest, JournalCorrupt, Unavailable
from devassist.core.event_codec import encode
from devassist.core.lineage import Place, Rewind
from devassist.core.scope import Scope
from devassist.core.signals import Fact
from devassist.ports.journal import Body
from devassist.store.backup import Directories, FileBackups
from devassist.store.backup_files import digest
from devassist.store.database import connect
from devassist.store.lock import DirectoryLock
from devassist.store.position import PositionFile, SqliteLineage, check_keys
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault, MemoryVault

ALICE = Scope("default", "alice")
REWIND = Rewind("restored", "11" * 16, "22" * 16, 5, 9)


def fact(number: int) -> Body:
    event = Fact("counted", "00" * 16, (("number", str(number)),))
    return Body(event.kind, encode(event), event)


async def counted(journal: SqliteJournal, start: int, count: int) -> None:
    for first in range(start, start + count, 25):
        some = range(first, min(first + 25, start + count))
        await asyncio.gather(*(journal.note(ALICE, "notes", "n", [fact(i)], 1_000_000 + i) for i in some))


@pytest.fixture
def at(tmp_path: Path) -> Directories:
    data = tmp_path / "data"
    (tmp_path / "keys").mkdir()
    return Directories(data, tmp_path / "keys", data / "graphs", data / "journal.db")


@pytest.fixture
def files(at: Directories) -> FileBackups:
    return FileBackups(at)


@pytest.fixture
async def journal(at: Directories) -> AsyncIterator[SqliteJournal]:
    made = await SqliteJournal.open(at.journal, MemoryVault())
    yield made
    await made.close()


def numbers(path: Path) -> list[int]:
    db = connect(path)
    try:
        bodies = [json.loads(row[0]) for row in db.execute("SELECT body FROM events ORDER BY id")]
        return [int(dict(body["data"])["number"]) for body in bodies]
    finally:
        db.close()


async def test_a_backup_is_one_moment_beside_a_writer(
    files: FileBackups, journal: SqliteJournal, at: Directories, tmp_path: Path
) -> None:
    """What was acknowledged before it is in it, whatever is written meanwhile; nothing else than the truth is."""
    await counted(journal, 0, 300)
    (at.data / "log.db").write_text("derived")
    (at.keys / "keys.db").write_text("keys")
    writing = asyncio.create_task(counted(journal, 300, 300))
    made = await files.take(tmp_path / "b")
    await writing
    assert numbers(tmp_path / "b" / "journal.db") == list(range(made.place.row))
    assert 300 <= made.place.row <= 600
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["journal.db", "manifest.json"]
    assert made.files == {"journal.db": digest(tmp_path / "b" / "journal.db")}


async def test_only_the_owner_may_read_it(files: FileBackups, journal: SqliteJournal, tmp_path: Path) -> None:
    """Directory 0700, files 0600, as where they come from."""
    (tmp_path / "b").mkdir(mode=0o755)
    await files.take(tmp_path / "b")
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "b").iterdir()} == {0o600}


async def test_reading_a_backup_leaves_it_as_it_is(
    files: FileBackups, journal: SqliteJournal, tmp_path: Path
) -> None:  # fmt: skip
    """It can be opened as a journal, to be verified where it lies, and is still the file of its manifest."""
    await counted(journal, 0, 20)
    await files.take(tmp_path / "b")
    copy = await SqliteJournal.open(tmp_path / "b" / "journal.db", MemoryVault())
    assert await copy.tip() == 20
    await copy.close()
    staged = await files.stage(tmp_path / "b")
    assert staged.manifest.place.row == 20


async def test_a_directory_in_use_is_refused(files: FileBackups, journal: SqliteJournal, tmp_path: Path) -> None:
    """An earlier backup is not written over, nor one that was cut off."""
    await files.take(tmp_path / "b")
    for name in ("manifest.json", "journal.db"):
        with pytest.raises(Conflict, match="not empty"):
            await files.take(tmp_path / "b")
        (tmp_path / "b" / name).unlink()
    await files.take(tmp_path / "b")


async def test_without_a_journal_there_is_nothing_to_back_up(files: FileBackups, tmp_path: Path) -> None:
    """It says so, and makes nothing."""
    with pytest.raises(Unavailable, match="no journal"):
        await files.take(tmp_path / "b")
    assert not (tmp_path / "b").exists()


async def test_a_damaged_journal_is_not_backed_up(files: FileBackups, at: Directories, tmp_path: Path) -> None:
    """A copy of it would look like a backup; the directory stays free for the next try."""
    made = await SqliteJournal.open(at.journal, MemoryVault())
    await counted(made, 0, 500)
    await made.close()
    data = bytearray(at.journal.read_bytes())
    data[9 * 4096 : 11 * 4096] = b"\xff" * (2 * 4096)
    at.journal.write_bytes(data)
    with pytest.raises((JournalCorrupt, Unavailable)):
        await files.take(tmp_path / "b")
    assert list((tmp_path / "b").iterdir()) == []


async def test_knowledge_is_truth_too(
    files: FileBackups, journal: SqliteJournal, at: Directories, tmp_path: Path
) -> None:
    """Its database is copied the same way where there is one, and comes back."""
    knowledge = connect(at.data / "knowledge.db", journal_mode="WAL")
    knowledge.execute("CREATE TABLE t(x); INSERT INTO t VALUES (7)")
    made = await files.take(tmp_path / "b")
    knowledge.execute("DELETE FROM t")
    knowledge.close()
    assert set(made.files) == {"journal.db", "knowledge.db"}
    await journal.close()
    await files.swap(await files.stage(tmp_path / "b"), REWIND)
    back = connect(at.data / "knowledge.db")
    assert back.execute("SELECT x FROM t").fetchall() == [(7,)]
    back.close()


def _no_manifest(b: Path) -> None:
    (b / "manifest.json").unlink()


def _torn_manifest(b: Path) -> None:
    (b / "manifest.json").write_text((b / "manifest.json").read_text()[:50])


def _other_format(b: Path) -> None:
    _edit(b, format=2)


def _newer(b: Path) -> None:
    _edit(b, generation=10**6)


def _no_generation(b: Path) -> None:
    _edit(b, generation="2")


def _a_path(b: Path) -> None:
    _edit(b, files={"journal.db": {"sha256": "", "bytes": 0}, "../../x": {"sha256": "", "bytes": 0}})


def _changed(b: Path) -> None:
    data = bytearray((b / "journal.db").read_bytes())
    data[-1] ^= 1
    (b / "journal.db").write_bytes(data)


def _cut(b: Path) -> None:
    with (b / "journal.db").open("r+b") as file:
        file.truncate(4096)


def _missing(b: Path) -> None:
    (b / "journal.db").unlink()


def _another_journal(b: Path) -> None:
    """A journal with its right hash, but not the one that the manifest speaks of."""
    db = connect(b / "journal.db")
    db.execute("UPDATE meta SET value = 'another' WHERE name = 'incarnation'")
    db.close()
    sha, size = digest(b / "journal.db")
    _edit(b, files={"journal.db": {"sha256": sha, "bytes": size}})


def _edit(b: Path, **changes: Any) -> None:
    found = json.loads((b / "manifest.json").read_text())
    (b / "manifest.json").write_text(json.dumps(found | changes))


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_no_manifest, InvalidRequest), (_torn_manifest, InvalidRequest), (_other_format, InvalidRequest),
        (_newer, InvalidRequest), (_no_generation, InvalidRequest), (_a_path, InvalidRequest),
        (_changed, JournalCorrupt), (_cut, JournalCorrupt), (_missing, Unavailable), (_another_journal, JournalCorrupt),
    ],
)  # fmt: skip
async def test_what_is_no_whole_backup_is_refused(
    files: FileBackups, journal: SqliteJournal, at: Directories, tmp_path: Path, spoil: Any, error: type[Exception]
) -> None:
    """Before anything is touched, and nothing of the attempt is left."""
    await counted(journal, 0, 5)
    await files.take(tmp_path / "b")
    spoil(tmp_path / "b")
    before = sorted(path.name for path in at.data.iterdir())
    with pytest.raises(error):
        await files.stage(tmp_path / "b")
    assert sorted(path.name for path in at.data.iterdir()) == before


async def test_swapping_destroys_nothing_but_what_is_derived(
    files: FileBackups, journal: SqliteJournal, at: Directories, tmp_path: Path
) -> None:
    """The old journal is moved aside, each time to a place of its own, with the report of the restore before; log,
    graphs and caches are made again."""
    await counted(journal, 0, 5)
    await files.take(tmp_path / "b")
    await counted(journal, 5, 5)
    await journal.close()
    at.graphs.mkdir()
    derived = [at.data / "log.db", at.graphs / "x.mmd", at.graphs / ".cursor", at.data / "cache" / "c"]
    for path in derived:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (at.graphs / "notes.txt").write_text("not ours")
    replaced: list[Path] = []
    for n in range(2):
        into = await files.swap(await files.stage(tmp_path / "b"), REWIND)
        assert into is not None
        replaced.append(into)
        await files.report({"restore": n})
    assert json.loads((replaced[1] / "restore-report.json").read_text()) == {"restore": 0}
    assert json.loads((at.data / "restore-report.json").read_text()) == {"restore": 1}
    assert numbers(replaced[0] / "journal.db") == list(range(10))
    assert numbers(replaced[1] / "journal.db") == list(range(5))
    assert numbers(at.journal) == list(range(5))
    assert not any(path.exists() for path in derived)
    assert (at.graphs / "notes.txt").exists()
    assert not list(at.data.glob("restoring-*"))


async def test_a_swapped_journal_is_marked_with_a_new_incarnation(
    files: FileBackups, journal: SqliteJournal, at: Directories, tmp_path: Path
) -> None:
    """A window that nobody had gone on from yet is part of the new one."""
    await counted(journal, 0, 5)
    await files.take(tmp_path / "b")
    await journal.close()
    await files.swap(await files.stage(tmp_path / "b"), REWIND)
    later = Rewind("restored", "33" * 16, "11" * 16, 7, 20)
    await files.take(tmp_path / "b2")
    await files.swap(await files.stage(tmp_path / "b2"), later)
    lineage = SqliteLineage(at.journal)
    assert await lineage.rewind() == Rewind("restored", "33" * 16, "11" * 16, 5, 20)
    assert (await lineage.place()).incarnation == "33" * 16
    await lineage.clear()
    assert await lineage.rewind() is None
    lineage.close()


async def test_a_swap_that_is_cancelled_is_done_when_that_is_heard(
    files: FileBackups, journal: SqliteJournal, at: Directories, tmp_path: Path
) -> None:
    """No thread can be stopped: whoever is told of the cancel may remove files and give the lock up, so not before."""
    await counted(journal, 0, 5)
    await files.take(tmp_path / "b")
    await journal.close()
    staged = await files.stage(tmp_path / "b")
    busy = connect(staged.journal)
    busy.execute("BEGIN IMMEDIATE")
    swapping = asyncio.create_task(files.swap(staged, REWIND))
    await asyncio.sleep(0)
    swapping.cancel()
    await asyncio.wait([swapping], timeout=0.1)
    busy.execute("ROLLBACK")
    busy.close()
    with pytest.raises(asyncio.CancelledError):
        await swapping
    lineage = SqliteLineage(at.journal)
    assert await lineage.rewind() == REWIND
    lineage.close()
    assert not list(at.data.glob("restoring-*"))


async def test_who_drives_the_directory_keeps_it(files: FileBackups, at: Directories) -> None:
    """The lock is the drivers' own."""
    lock = DirectoryLock(at.data)
    with pytest.raises(DataDirInUse), files.locked():
        raise AssertionError("it was not locked")
    lock.release()
    with files.locked(), pytest.raises(DataDirInUse):
        DirectoryLock(at.data)


# -- the position ----------------------------------------------------------------------------------------------


async def test_the_position_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Readable by its owner only, one file whatever happens, and None before the first."""
    file = PositionFile(tmp_path)
    assert await file.read() is None
    for place in (Place("a" * 32, 7, 8, "ff"), Place("a" * 32, 9, 10, "ee")):
        await file.write(place)
        assert await file.read() == place
    assert [(p.name, stat.S_IMODE(p.stat().st_mode)) for p in tmp_path.iterdir()] == [("position.json", 0o600)]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"incarnation": 1, "row": "x", "at": 0, "hash": ""}', "\xff"])
async def test_a_position_that_cannot_be_read_is_not_none(tmp_path: Path, text: str) -> None:
    """Whoever damages it does not switch the check off."""
    (tmp_path / "position.json").write_text(text, "latin-1")
    with pytest.raises(Unavailable, match=r"position\.json"):
        await PositionFile(tmp_path).read()


async def test_a_journal_has_one_incarnation_for_life(at: Directories) -> None:
    """Opening it again changes nothing; another journal has another; one of an earlier build gets one."""
    seen: list[str] = []
    for path in (at.journal, at.journal, at.data / "other.db"):
        await (await SqliteJournal.open(path, MemoryVault())).close()
        lineage = SqliteLineage(path)
        seen.append((await lineage.place()).incarnation)
        lineage.close()
    assert len(seen[0]) == 32
    assert (seen[0] == seen[1], seen[0] == seen[2]) == (True, False)
    db = connect(at.journal)
    db.execute("DELETE FROM meta WHERE name = 'incarnation'")
    db.close()
    await (await SqliteJournal.open(at.journal, MemoryVault())).close()
    lineage = SqliteLineage(at.journal)
    assert len((await lineage.place()).incarnation) == 32
    lineage.close()


# -- keys ------------------------------------------------------------------------------------------------------


async def test_sealed_texts_need_their_keys(at: Directories) -> None:
    """Without its key store, or with an empty one, a journal that seals texts is not opened; one that seals none is."""
    check_keys(at.journal, at.keys)  # before the first start
    vault = FileVault(at.keys)
    journal = await SqliteJournal.open(at.journal, vault)
    check_keys(at.journal, at.keys)
    sealed = vault.seal(await vault.domain(ALICE, "user", "alice"), "text")
    await journal.note(ALICE, "notes", "n", [fact(1)], 1, [sealed])
    check_keys(at.journal, at.keys)
    await vault.close()
    (at.keys / "keys.db").rename(at.keys / "away.db")
    with pytest.raises(Unavailable, match=str(at.keys)):
        check_keys(at.journal, at.keys)
    await FileVault(at.keys).close()
    with pytest.raises(Unavailable, match="no key at all"):
        check_keys(at.journal, at.keys)
    await journal.note(ALICE, "erasure", "domains", [fact(1)], 1)
    check_keys(at.journal, at.keys)  # the last key may have been erased
    await journal.close()
