"""Both vaults conform to the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devassist.store.vault import FileVault, MemoryVault
from devassist.testing.vault_suite import VaultSuite


class TestMemoryVault(VaultSuite):
    @pytest.fixture
    def vault(self) -> MemoryVault:
        return MemoryVault()


class TestFileVault(VaultSuite):
    @pytest.fixture
    async def vault(self, tmp_path: Path) -> AsyncIterator[FileVault]:
        vault = FileVault(tmp_path / "keys")
        yield vault
        await vault.close()
