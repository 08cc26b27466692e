"""Both stores of API keys conform to the port, and the file's is seen by every process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from devassist.core.errors import Unavailable
from devassist.store.api_keys import FileApiKeys, MemoryApiKeys
from devassist.store.vault import FileVault
from devassist.testing.access_suite import ALICE, AccessSuite, made


class TestMemoryApiKeys(AccessSuite):
    @pytest.fixture
    def keys(self) -> MemoryApiKeys:
        return MemoryApiKeys()


class TestFileApiKeys(AccessSuite):
    @pytest.fixture
    async def keys(self, tmp_path: Path) -> AsyncIterator[FileApiKeys]:
        keys = FileApiKeys(tmp_path / "keys")
        yield keys
        await keys.close()


async def test_another_process_sees_the_change(tmp_path: Path) -> None:
    """Two stores on one directory: the stamp of each moves with what the other did, and both list it."""
    one, other = FileApiKeys(tmp_path / "keys"), FileApiKeys(tmp_path / "keys")
    stamps = [await each.stamp() for each in (one, other)]
    key = made()
    await other.add(ALICE, key)
    assert [await each.stamp() == stamp for each, stamp in zip((one, other), stamps, strict=True)] == [False, False]
    assert await one.list(ALICE) == await other.list(ALICE) == [key]
    for each in (one, other):
        await each.close()
        await each.close()


async def test_an_older_key_store_gains_the_table(tmp_path: Path) -> None:
    """A file from before API keys is used as it is, and its domains stay."""
    vault = FileVault(tmp_path / "keys")
    domain = await vault.domain(ALICE, "user", "alice")
    await vault.close()
    apsw.Connection(str(tmp_path / "keys" / "keys.db")).execute("DROP TABLE api_keys")
    keys, vault = FileApiKeys(tmp_path / "keys"), FileVault(tmp_path / "keys")
    await keys.add(ALICE, made())
    assert await vault.find(ALICE, "user", "alice") == domain
    await keys.close()
    await vault.close()


async def test_erasing_a_user_takes_the_labels_of_their_keys(tmp_path: Path) -> None:
    """What was written about somebody goes with them, also from the file's bytes; the row stays."""
    vault, keys = FileVault(tmp_path / "keys"), FileApiKeys(tmp_path / "keys")
    domain = await vault.domain(ALICE, "user", "alice")
    await keys.add(ALICE, replace(made(), owner=domain))
    await vault.destroy(ALICE, domain)
    (left,) = await keys.list(ALICE)
    assert (left.owner, left.label) == (domain, "")
    await keys.close()
    await vault.close()
    assert b"laptop" not in (tmp_path / "keys" / "keys.db").read_bytes()


async def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    """As Unavailable, naming it."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "keys.db").write_bytes(b"no database" * 100)
    with pytest.raises(Unavailable, match="keys"):
        FileApiKeys(tmp_path / "keys")


async def test_an_older_table_gains_the_labels(tmp_path: Path) -> None:
    """Keys from before there were labels open none, and stay as they were otherwise."""
    keys, key = FileApiKeys(tmp_path / "keys"), made()
    await keys.add(ALICE, key)
    await keys.close()
    apsw.Connection(str(tmp_path / "keys" / "keys.db")).execute("ALTER TABLE api_keys DROP COLUMN sees")
    keys = FileApiKeys(tmp_path / "keys")
    assert await keys.list(ALICE) == [key]
    labelled = replace(made(), sees=("hr",))
    await keys.add(ALICE, labelled)
    assert labelled in await keys.list(ALICE)
    await keys.close()
