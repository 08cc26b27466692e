"""The journal in memory conforms to its ports."""

from __future__ import annotations

import pytest

from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.testing.heads_suite import HeadsSuite
from devassist.testing.journal_kit import Made
from devassist.testing.journal_suite import JournalSuite
from devassist.testing.payload_suite import PayloadSuite


@pytest.fixture
def make() -> Made:
    vault = MemoryVault()
    return Made(MemoryJournal(vault), vault)


class TestMemoryJournal(JournalSuite, PayloadSuite, HeadsSuite):
    """Every promise of the ports, in memory."""
