"""The journal on SQLite conforms to its ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import MemoryVault
from devassist.testing.heads_suite import HeadsSuite
from devassist.testing.journal_kit import Made
from devassist.testing.journal_suite import JournalSuite
from devassist.testing.payload_suite import PayloadSuite


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Made]:
    vault = MemoryVault()
    journal = await SqliteJournal.open(tmp_path / "journal.db", vault)
    yield Made(journal, vault)
    await journal.close()


class TestSqliteJournal(JournalSuite, PayloadSuite, HeadsSuite):
    """Every promise of the ports, on SQLite."""
