"""Changes of documents on record: a fact each in the journal, once."""

from __future__ import annotations

from pathlib import Path

from devassist.core.scope import SYSTEM, TENANT, Scope
from devassist.core.signals import Fact
from devassist.knowledge.recording import STREAM, Recorder
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from tests.knowledge.shelf import ADMIN, HandClock, shelf
from tests.knowledge.test_curating import RULES

KEEPER = Scope(TENANT, "system", frozenset({"system"}))


async def facts(journal: SqliteJournal) -> list[tuple[str, str | None]]:
    head = await journal.named(KEEPER, "knowledge", STREAM)
    if head is None:
        return []
    decoded = [record.decoded() for record in await journal.read(SYSTEM, head.stream)]
    return [(fact.name, dict(fact.data).get("rev")) for fact in decoded if isinstance(fact, Fact)]


async def test_each_change_is_a_fact_and_none_is_one_twice(tmp_path: Path) -> None:
    """Every change becomes one fact, also when the recorder stops after a fact and starts anew."""
    vault = FileVault(tmp_path / "keys")
    journal = await SqliteJournal.open(tmp_path / "journal.db", vault)
    async with shelf(tmp_path) as books:
        first = await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
        assert await Recorder(books.store, journal, journal, vault, HandClock()).catch_up() == 1
        second = await books.put("relief.md", RULES.format(amount=950), effective="2025-07-01")
        await books.curator.delete(ADMIN, first.doc_id or "")
        for _ in range(2):  # each a start of its own
            assert await Recorder(books.store, journal, journal, vault, HandClock()).catch_up() == 3
        told = await facts(journal)
    await journal.close()
    await vault.close()
    assert told[:2] == [("document_ingested", first.rev_id), ("document_ingested", second.rev_id)]
    assert [name for name, _ in told[2:]] == ["document_deleted"]
