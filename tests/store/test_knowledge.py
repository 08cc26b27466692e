"""knowledge.db itself: what its tables refuse, its rights and version, other connections, and a query's price."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import apsw
import pytest

from devassist.core.errors import Unavailable
from devassist.core.terms import query_terms
from devassist.knowledge.timeline import plan_revision
from devassist.ports.knowledge_store import Belief, Eligible
from devassist.store.knowledge_lexical import BUDGETS
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.testing.knowledge_kit import ALICE, NOW, T0, amendment, deletion, first, found, ids, keys, put, revision

V1 = revision("rules", "2024-01-01", "alpha one", "alpha two")
V2 = revision("rules", "2025-01-01", "alpha one", "beta two")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteKnowledge]:
    store = await SqliteKnowledge.open(tmp_path / "data" / "knowledge.db")
    yield store
    await store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM beliefs",
        "UPDATE beliefs SET valid_to = '2024-06-01' WHERE recorded_to IS NULL",
        "UPDATE beliefs SET rev = 1, recorded_to = recorded_from + 9 WHERE rev = 2",
        "UPDATE beliefs SET recorded_to = recorded_from WHERE recorded_to IS NULL",
        "UPDATE beliefs SET recorded_to = NULL WHERE recorded_to IS NOT NULL",
        "UPDATE beliefs SET recorded_to = recorded_to + 1 WHERE recorded_to IS NOT NULL",
        "INSERT INTO beliefs(tenant, doc_id, rev, status, valid_from, recorded_from) "
        "VALUES (1, 'rules', 1, 'published', '2026-01-01', 99)",
        "INSERT INTO beliefs(tenant, doc_id, rev, status, valid_from, recorded_from, recorded_to) "
        "VALUES (1, 'other', 1, 'published', '2026-01-01', 1, 2)",
        "INSERT INTO beliefs(tenant, doc_id, rev, status, valid_from, recorded_from) "
        "VALUES (1, 'other', 1, 'published', 'tomorrow', 99)",
        "UPDATE revisions SET title = 'x'",
        "DELETE FROM revisions",
        "UPDATE clauses SET text = 'x'",
        "DELETE FROM clauses",
    ],
)
async def test_the_tables_refuse_to_rewrite_the_record(store: SqliteKnowledge, statement: str) -> None:
    """Also where somebody writes past the program: beliefs are only closed, once, and what was said stays said."""
    await put(store, V1, V2)
    db = apsw.Connection(str(store.path))
    with pytest.raises(apsw.ConstraintError):
        db.execute(statement)
    db.close()


async def test_a_belief_may_be_closed(store: SqliteKnowledge) -> None:
    """The one change that the table allows."""
    await put(store, V1)
    db = apsw.Connection(str(store.path))
    db.execute("UPDATE beliefs SET recorded_to = recorded_from + 1")
    db.close()
    assert await found(store, "alpha") == []


async def test_its_files_are_the_owners_alone(store: SqliteKnowledge) -> None:
    """The database and its companions, from the first byte on."""
    await put(store, V1)
    files = sorted(store.path.parent.iterdir())
    assert [f.name for f in files] == ["knowledge.db", "knowledge.db-shm", "knowledge.db-wal"]
    assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}


async def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """A program that does not know the tables says so, and writes nothing."""
    path = tmp_path / "knowledge.db"
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version = 99")
    with pytest.raises(Unavailable, match="version 99"):
        await SqliteKnowledge.open(path)
    assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    db.close()


async def test_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    """A file of something else is refused in words."""
    (tmp_path / "knowledge.db").write_bytes(b"something else entirely, and long enough to be looked at" * 50)
    with pytest.raises(Unavailable, match="cannot be used"):
        await SqliteKnowledge.open(tmp_path / "knowledge.db")


async def test_everything_outlives_a_restart(store: SqliteKnowledge) -> None:
    """What was committed, deleted and followed is there again, and no more."""
    await put(store, V1, V2, revision("gone", "2024-01-01", "alpha gone"))
    await store.commit(ALICE, [await deletion(store, "gone")], T0)
    head = await store.head()
    await store.set_applied("index", head)
    await store.close()
    again = await SqliteKnowledge.open(store.path)
    assert await found(again, "alpha") == ids(V2.rev_id, 0)
    assert await again.head() == await again.applied("index") == head
    assert await again.revision(ALICE, V1.rev_id) == V1
    assert await again.titles(ALICE) == ["Rules"]
    await again.close()


async def test_what_another_connection_commits_is_seen_at_once(store: SqliteKnowledge) -> None:
    """Head, titles and searches of the next call, although titles were kept."""
    await put(store, V1)
    assert await store.titles(ALICE) == ["Rules"]
    head = await store.head()
    other = await SqliteKnowledge.open(store.path)
    await put(other, revision("more", "2024-01-01", "gamma"))
    assert await store.head() > head
    assert await store.titles(ALICE) == ["More", "Rules"]
    assert await found(store, "gamma") == ids("more@2024-01-01", 0)
    await other.close()


async def test_nobody_waits_for_a_writer_to_read(store: SqliteKnowledge) -> None:
    """While a write transaction is open elsewhere, every reading method answers from the last commit."""
    await put(store, V1)
    db = apsw.Connection(str(store.path))
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO outbox(remove, key) VALUES (0, 1)")
    assert await store.head() == 2
    assert await found(store, "alpha") == ids(V1.rev_id, 0, 1)
    assert await store.documents(ALICE, NOW) != ([], None)
    assert await store.beliefs(ALICE, "rules") != []
    db.execute("ROLLBACK")
    db.close()


async def test_the_index_holds_what_the_table_holds(store: SqliteKnowledge) -> None:
    """After amendments, corrections and deletions the full-text index is sound and has each shown clause once."""
    await put(store, V1, V2, revision("rules", "2025-01-01", "beta", rev_id="rules@2025-01-01.1"))
    await put(store, revision("gone", "2024-01-01", "alpha", "beta"))
    await store.commit(ALICE, [await deletion(store, "gone")], T0)
    db = apsw.Connection(str(store.path))
    db.execute("INSERT INTO fts_1(fts_1) VALUES ('integrity-check')")
    shown = "SELECT key FROM clauses WHERE key >> 20 NOT IN (SELECT rev FROM hidden) ORDER BY key"
    assert db.execute("SELECT id FROM fts_1_docsize ORDER BY id").fetchall() == db.execute(shown).fetchall()
    assert db.execute("SELECT indexed FROM tenants").fetchone() == (5,)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def rows(beliefs: list[Belief]) -> set[tuple[str, str, str | None]]:
    return {(b.rev_id, b.valid_from, b.valid_to) for b in beliefs if b.recorded_to is None}


async def test_a_late_revision_ends_with_the_table_of_arrival_in_order(store: SqliteKnowledge) -> None:
    """Whatever order three revisions come in, what is believed in the end is the same, and so is every search."""
    expected = {
        ("{}@2019-03-02", "2019-03-02", "2022-03-29"), ("{}@2022-03-29", "2022-03-29", "2023-07-20"),
        ("{}@2023-07-20", "2023-07-20", None),
    }  # fmt: skip
    for number, order in enumerate(permutations(["2019-03-02", "2022-03-29", "2023-07-20"])):
        doc_id = f"road-{number}"
        for day in order:
            made = revision(doc_id, day, f"transport as of {day}")
            await store.commit(ALICE, [plan_revision(await store.beliefs(ALICE, doc_id), made)], T0)
        assert rows(await store.beliefs(ALICE, doc_id)) == {(r.format(doc_id), a, b) for r, a, b in expected}
        for day, holds in (("2022-03-28", "2019-03-02"), ("2022-03-29", "2022-03-29"), ("2026-01-01", "2023-07-20")):
            assert await found(store, "transport", Eligible(day, doc_ids=(doc_id,))) == ids(f"{doc_id}@{holds}", 0)


async def test_a_correction_leaves_the_old_answer_as_it_was(store: SqliteKnowledge) -> None:
    """The same question as of the old time of knowledge gives the same clauses, byte for byte."""
    await put(store, V1)
    then = replace(NOW, known_at=T0 + 1)
    held = await keys(store, ids(V1.rev_id, 0, 1))
    before = await store.clauses(ALICE, held, then)
    corrected = revision("rules", "2024-01-01", "alpha corrected", rev_id="rules@2024-01-01.1")
    await store.commit(ALICE, [plan_revision(await store.beliefs(ALICE, "rules"), corrected)], T0 + 100)
    assert await store.clauses(ALICE, held, then) == before
    assert await store.clauses(ALICE, held, NOW) == []
    assert await found(store, "alpha", then) == ids(V1.rev_id, 0, 1)
    assert await found(store, "alpha") == ids(corrected.rev_id, 0)


async def test_a_list_is_filled_though_most_is_out_of_date(store: SqliteKnowledge) -> None:
    """Nine tenths of the clauses that match ended long ago, and match better: the current ones are found."""
    old = [revision(f"old-{n}", "2010-01-01", *["target target"] * 100) for n in range(9)]
    await store.commit(ALICE, [first(r, "2011-01-01") for r in old], T0)
    await put(store, revision("now", "2024-01-01", *["target " + "filler " * 30] * 100))
    hits = await found(store, "target", NOW, 60)
    assert len(hits) == 60
    assert {name.partition("@")[0] for name in hits} == {"now"}


async def test_a_dear_query_is_cut_to_rare_terms_and_still_fills_its_list(store: SqliteKnowledge) -> None:
    """Words that stand nearly everywhere are asked only where the rarer ones leave a filter too few."""
    texts = [f"common and number {n}" for n in range(BUDGETS[0] + 1)]
    await put(store, revision("big", "2024-01-01", *texts))
    await put(store, revision("one", "2024-01-01", "rare", labels=("secret",)), revision("two", "2024-01-01", "seldom"))
    asked = query_terms("common rare seldom")
    for wanted, best in ((NOW, {"one", "two"}), (replace(NOW, labels=frozenset[str]()), {"two"})):
        hits = await store.lexical(ALICE, asked, wanted, 10)
        names = [row.doc_id for row in await store.clauses(ALICE, [hit.key for hit in hits], wanted)]
        assert set(names[: len(best)]) == best
        assert names[len(best) :] == ["big"] * (10 - len(best))
    only = await store.lexical(ALICE, asked, NOW, 2)
    assert len(only) == 2


async def test_many_terms_are_bearable(store: SqliteKnowledge) -> None:
    """A message of thousands of different words is a query too, and finds what its first words name."""
    await put(store, V1)
    words = ["alpha", *(f"word{n}" for n in range(5000))]
    assert len(await store.lexical(ALICE, words, NOW, 10)) == 2
    assert len(await store.lexical(ALICE, list("税法规定的义务人应当"), NOW, 10)) == 0


async def test_a_stale_plan_of_another_process_is_refused(store: SqliteKnowledge) -> None:
    """Two stores on one file: the second to commit a plan made from the same state learns of the first."""
    await put(store, V1)
    other = await SqliteKnowledge.open(store.path)
    plan = await amendment(other, V2)
    await put(store, revision("rules", "2026-01-01", "gamma"))
    with pytest.raises(Exception, match="changed since the plan was made"):
        await other.commit(ALICE, [plan], T0)
    await other.close()
