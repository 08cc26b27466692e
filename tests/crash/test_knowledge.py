"""kill -9 at every statement of a commit to the table of knowledge: all of it is there, or nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import apsw

from devassist.core.terms import query_terms
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.testing.knowledge_kit import ALICE, NOW, T0
from tests.crash.knowledge import OTHER, V1, V2, begin
from tests.crash.nursery import process

AT_ONCE = 6


async def seen(place: Path) -> Any:
    """All that can be seen of a store."""
    store = await SqliteKnowledge.open(place / "knowledge.db")
    hits = await store.lexical(ALICE, query_terms("alpha beta"), NOW, 100)
    found = (
        sorted(hit.key for hit in hits), await store.head(), await store.outbox(0, 1000), await store.changes(0, 100),
        [await store.beliefs(ALICE, doc_id) for doc_id in ("rules", "other")],
        [await store.revision(ALICE, made.rev_id) for made in (V1, V2, OTHER)],
        await store.frequencies(ALICE, ["alpha", "beta"]), await store.titles(ALICE), await store.all_keys(0, 100),
    )  # fmt: skip
    await store.close()
    db = apsw.Connection(str(place / "knowledge.db"))
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.execute("INSERT INTO fts_1(fts_1) VALUES ('integrity-check')")
    db.close()
    return found


async def test_killed_at_every_statement_of_a_commit(tmp_path: Path, nursery: Path) -> None:
    """Clauses, index, beliefs, outbox and record are as before, or as after, never between; and the next commit goes
    through."""

    async def commit(name: str, at: int) -> int:
        place = tmp_path / name
        shutil.copytree(tmp_path / "start", place)
        argument = json.dumps({"place": str(place), "at": at})
        async with process(nursery, "knowledge:commit", argument, tmp_path / f"stderr-{name}") as made:
            return await made.wait()

    await begin(tmp_path / "start")
    before = await seen(tmp_path / "start")
    assert await commit("whole", 0) == 0
    after = await seen(tmp_path / "whole")
    assert before != after
    statements = int((tmp_path / "whole" / "statements").read_text())
    assert statements > 30
    gate = asyncio.Semaphore(AT_ONCE)

    async def killed(at: int) -> None:
        async with gate:
            assert await commit(f"killed-{at}", at) == -signal.SIGKILL
            assert await seen(tmp_path / f"killed-{at}") == before, at
            if at % 10 == 0:
                assert await _again(nursery, tmp_path / f"killed-{at}") == 0
                assert await seen(tmp_path / f"killed-{at}") == after

    async with asyncio.TaskGroup() as tasks:
        for at in range(1, statements + 1):
            tasks.create_task(killed(at))


async def _again(nursery: Path, place: Path) -> int:
    argument = json.dumps({"place": str(place), "at": 0})
    async with process(nursery, "knowledge:commit", argument, place / "stderr") as made:
        return await made.wait()


async def test_killed_at_any_moment_of_many_commits(tmp_path: Path, nursery: Path) -> None:
    """A process that commits on and on is killed: each document that it acknowledged is there, and every document that
    is there is whole."""
    argument = json.dumps({"place": str(tmp_path)})
    async with process(nursery, "knowledge:commit_on", argument, tmp_path / "stderr") as made:
        told = tmp_path / "acknowledged"
        async with asyncio.timeout(60):
            while not told.exists() or told.read_text().count("\n") < 20:
                await asyncio.sleep(0.01)
        made.send(signal.SIGKILL)
        assert await made.wait() == -signal.SIGKILL
    acknowledged = [line for line in told.read_text().splitlines(keepends=True) if line.endswith("\n")]
    store = await SqliteKnowledge.open(tmp_path / "knowledge.db")
    rows, _ = await store.documents(ALICE, NOW, limit=100_000)
    assert {line.strip() for line in acknowledged} <= {row.doc_id for row in rows}
    assert {row.clauses for row in rows} == {5}
    keys = await store.all_keys(0, 1_000_000)
    assert len(keys) == len(await store.outbox(0, 1_000_000)) == 5 * len(rows)
    assert await store.frequencies(ALICE, ["word"]) == (len(keys), {"word": len(keys)})
    assert [change.at for change in await store.changes(0, 1_000_000)] == [T0 + n for n in range(len(rows))]
    await store.close()
