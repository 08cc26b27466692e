"""The key store as files: who may read them, what survives, and that erasure reaches the bytes."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from devassist.core.errors import PayloadErased, Unavailable
from devassist.core.scope import Scope
from devassist.store.database import connect
from devassist.store.key_file import guarded
from devassist.store.vault import FileVault

ALICE = Scope(tenant="default", actor="alice")


@pytest.fixture
async def vault(tmp_path: Path) -> AsyncIterator[FileVault]:
    vault = FileVault(tmp_path / "data.keys")
    yield vault
    await vault.close()


def bytes_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


async def test_only_the_owner_may_read(vault: FileVault) -> None:
    """The directory is 0700 and every file in it 0600, whatever the umask."""
    await vault.domain(ALICE, "user", "alice")
    directory = vault.path.parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


async def test_a_tight_umask_does_not_lock_us_out(tmp_path: Path) -> None:
    """Nor does a loose one let others in."""
    for number, mask in enumerate((0o777, 0o000)):
        before = os.umask(mask)
        try:
            vault = FileVault(tmp_path / f"keys{number}")
        finally:
            os.umask(before)
        assert stat.S_IMODE(vault.path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(vault.path.stat().st_mode) == 0o600
        await vault.close()


async def test_keys_survive_and_are_shared(vault: FileVault) -> None:
    """A second vault on the directory, as after a restart or in another process, has the same ids and keys."""
    alice = await vault.domain(ALICE, "user", "alice")
    payload = vault.seal(alice, "text")
    other = FileVault(vault.path.parent)
    assert other.open(payload) == "text"
    assert await other.domain(ALICE, "user", "alice") == alice
    names = [f"user{i}" for i in range(20)]
    ids = await asyncio.gather(*(v.domain(ALICE, "user", name) for name in names for v in (vault, other)))
    assert len(set(ids)) == 20
    await other.close()


def test_what_the_file_refuses_is_told_and_not_tried_again() -> None:
    """A write that failed may have happened all the same: it is made once, whoever asks for which errors."""
    tried: list[type[apsw.Error]] = []

    def fails(error: type[apsw.Error]) -> None:
        tried.append(error)
        raise error("no")

    for error, seen in ((apsw.IOError, Unavailable), (apsw.ConstraintError, apsw.ConstraintError)):
        with pytest.raises(seen):
            guarded(lambda error=error: fails(error), but=(apsw.ConstraintError,))
    with pytest.raises(Unavailable):
        guarded(lambda: fails(apsw.ConstraintError))
    assert tried == [apsw.IOError, apsw.ConstraintError, apsw.ConstraintError]


async def test_another_process_s_erasure_holds_once_forgotten(vault: FileVault) -> None:
    """``forget`` drops what this process had in memory, key and name."""
    alice = await vault.domain(ALICE, "user", "alice")
    payload = vault.seal(alice, "text")
    other = FileVault(vault.path.parent)
    await other.destroy(ALICE, alice)
    again = await other.domain(ALICE, "user", "alice")
    await other.close()
    vault.forget(alice)
    with pytest.raises(PayloadErased):
        vault.open(payload)
    assert await vault.load(frozenset({alice})) == {alice: None}
    assert await vault.domain(ALICE, "user", "alice") == again != alice


async def test_a_small_cache_never_says_erased(tmp_path: Path) -> None:
    """A key that the cache has dropped is read again; only a destroyed one is gone."""
    vault = FileVault(tmp_path / "keys", cached=3)
    domains = [await vault.domain(ALICE, "user", f"user{i}") for i in range(10)]
    payloads = [vault.seal(domain, "text") for domain in domains]
    assert [vault.open(p) for p in payloads] == ["text"] * 10
    names = await vault.load(frozenset(domains))
    assert sorted(name.name for name in names.values() if name) == [f"user{i}" for i in range(10)]
    assert [await vault.domain(ALICE, "user", f"user{i}") for i in range(10)] == domains
    await vault.close()


async def test_destroyed_keys_and_names_leave_no_bytes(vault: FileVault) -> None:
    """After dozens of erasures in random order a scan of the directory finds no key or name of any of them; their ids,
    which name nobody, are what is remembered."""
    names = {f"name-{os.urandom(8).hex()}" for _ in range(400)}
    domains = {await vault.domain(ALICE, "user", name): name for name in names}
    reader = connect(vault.path)
    keys = {row[0]: row[1] for row in reader.execute("SELECT domain, key FROM domains")}
    reader.close()
    gone = list(domains)[:60]
    for domain in gone:
        assert keys[domain] in bytes_of(vault.path.parent)
        await vault.destroy(ALICE, domain)
    left = bytes_of(vault.path.parent)
    for domain in gone:
        assert keys[domain] not in left
        assert domains[domain].encode() not in left
    assert all(keys[domain] in left for domain in list(domains)[60:])
    assert set(await vault.destroyed()) == set(gone)


async def test_a_directory_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    """A file in its place, or a file that is no key store, is Unavailable and names the path."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "keys.db").write_bytes(b"not a database at all" * 100)
    for path in (tmp_path / "file", tmp_path / "keys"):
        with pytest.raises(Unavailable, match=str(path)):
            FileVault(path)


async def test_closing_twice_is_no_fault(tmp_path: Path) -> None:
    """And a closed vault can be opened anew."""
    vault = FileVault(tmp_path / "keys")
    alice = await vault.domain(ALICE, "user", "alice")
    await vault.close()
    await vault.close()
    again = FileVault(tmp_path / "keys")
    assert await again.find(ALICE, "user", "alice") == alice
    await again.close()
