"""The table of knowledge on SQLite conforms to its port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devassist.ports.knowledge_store import KnowledgeStore
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.testing.knowledge_list_suite import KnowledgeListSuite
from devassist.testing.knowledge_search_suite import KnowledgeSearchSuite
from devassist.testing.knowledge_suite import KnowledgeSuite
from devassist.testing.knowledge_time_suite import KnowledgeTimeSuite


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[KnowledgeStore]:
    store = await SqliteKnowledge.open(tmp_path / "knowledge.db")
    yield store
    await store.close()


class TestSqliteKnowledge(KnowledgeSuite, KnowledgeListSuite, KnowledgeSearchSuite, KnowledgeTimeSuite):
    """Every promise of the port, on SQLite."""
