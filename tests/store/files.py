"""A store in files, as the service has one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault


@asynccontextmanager
async def store(place: Path) -> AsyncGenerator[tuple[SqliteJournal, FileVault]]:
    """Journal and keys in ``place``, opened by this process and closed at the end."""
    vault = FileVault(place / "keys")
    journal = await SqliteJournal.open(place / "journal.db", vault)
    try:
        yield journal, vault
    finally:
        await journal.close()
        await vault.close()
