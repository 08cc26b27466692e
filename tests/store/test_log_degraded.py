"""Degraded answers in the decision log, and logs that another build made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import InvalidRequest
from devassist.core.events import ModelIntended, ModelReplied, RunFinished
from devassist.ports.decision_log import LogQuery
from devassist.store.database import connect
from devassist.store.log_query import COLUMNS
from devassist.store.log_sqlite import SqliteLog
from devassist.store.log_writer import VERSION
from tests.store.log_bench import ADMIN, BOB, Bench, a_few_runs
from tests.store.pen import ALICE, Pen

OLD_SCHEMA = (Path(__file__).parent / "log_schema_1.sql").read_text("utf-8")


async def answered(bench: Bench, *degraded: str, scope: Any = ALICE) -> Pen:
    """A run whose answer was marked so."""
    pen = await bench.pen(scope).begin("How many days?")
    await pen.add(ModelIntended(0, 1, "m", "openai", 1, (0,), 10))
    final = pen.text("Thirty.")
    await pen.add(ModelReplied(pen.seq, pen.text("Final: Thirty."), "final", 5, answer=final))
    await pen.add(RunFinished(pen.seq, final, degraded=degraded))
    return pen


async def found(log: SqliteLog, degraded: str | None, scope: Any = ADMIN, **more: Any) -> list[tuple[str, str | None]]:
    page = await log.query(scope, LogQuery(degraded=degraded, **more))
    assert all(row["kind"] == "run_finished" for row in page.rows)
    return [(row["trace_id"], row["degraded"]) for row in page.rows]


async def test_one_query_lists_all_degraded_answers(bench: Bench) -> None:
    """All of them, or those marked with one code, newest first; the codes are text for any SQL client, and other rows
    have none."""
    await answered(bench)
    one = await answered(bench, "model_switched")
    two = await answered(bench, "model_switched", "not_consulted")
    three = await answered(bench, "unstructured", scope=BOB)
    log = await bench.log()
    await log.catch_up()
    both = (two.trace_id, "model_switched,not_consulted")
    assert await found(log, "1") == [(three.trace_id, "unstructured"), both, (one.trace_id, "model_switched")]
    assert await found(log, "model_switched") == [both, (one.trace_id, "model_switched")]
    assert await found(log, "not_consulted") == [both]
    assert await found(log, "switched") == []
    assert await found(log, "1", BOB) == [(three.trace_id, "unstructured")]
    assert await found(log, "1", user_id="bob") == [(three.trace_id, "unstructured")]
    assert await found(log, "1", trace_id=one.trace_id, kind="run_finished") == [(one.trace_id, "model_switched")]
    assert await found(log, "model_switched", text="thirty", limit=1) == [both]
    rows = bench.rows("SELECT count(*), count(degraded) FROM decision_log WHERE degraded LIKE '%model_switched%'")
    assert rows == [(2, 2)]
    assert bench.rows("SELECT count(*) FROM decision_log WHERE degraded IS NOT NULL") == [(3,)]
    assert bench.rows("SELECT count(*) FROM decision_log WHERE metadata LIKE '%degraded%'") == [(0,)]


async def test_pages_of_degraded_answers(bench: Bench) -> None:
    """They go on where the page before ended, both ways."""
    runs = [(await answered(bench, "model_switched")).trace_id for _ in range(7)]
    for _ in range(3):
        await answered(bench)
    log = await bench.log()
    for oldest_first in (False, True):
        seen: list[str] = []
        after = None
        while True:
            query = LogQuery(degraded="1", limit=3, after=after, oldest_first=oldest_first)
            page = await log.query(ADMIN, query)
            seen += [row["trace_id"] for row in page.rows]
            if (after := page.next) is None:
                break
        assert seen == (runs if oldest_first else runs[::-1])


async def test_a_query_of_degraded_answers_uses_its_index(bench: Bench) -> None:
    """However many answers there are, only those that were marked are looked at."""
    await answered(bench, "model_switched")
    log = await bench.log()
    await log.catch_up()
    statement = "EXPLAIN QUERY PLAN SELECT run, seq FROM log_rows WHERE degraded IS NOT NULL ORDER BY at"
    assert "log_rows_degraded" in str(bench.rows(statement))


@pytest.mark.parametrize("wrong", ["", "yes please", "1,2", "Model_Switched", "x" * 65])
async def test_a_filter_that_is_no_code_is_refused(bench: Bench, wrong: str) -> None:
    """It says what would be right, and nothing is searched."""
    log = await bench.log()
    with pytest.raises(InvalidRequest, match="degraded must be 1"):
        await log.query(ADMIN, LogQuery(degraded=wrong))


# -- logs of other builds ----------------------------------------------------------------------------------------------


def write_old(path: Path, position: int) -> None:
    """A log as the first release left it, with one text in it."""
    db = connect(path, journal_mode="WAL", secure_delete="ON")
    db.execute(OLD_SCHEMA)
    db.execute("INSERT INTO log_runs(run, stream, kind, tenant) VALUES (1, x'00', 'run', 'default')")
    db.execute("INSERT INTO texts VALUES (1, 1, 7, 'an old text of somebody')")
    db.execute("INSERT INTO texts_fts(rowid, body) SELECT id, body FROM texts")
    columns = "run, seq, at, kind, input, metadata, hash"
    db.execute(f"INSERT INTO log_rows({columns}) VALUES (1, 0, 5, 'run_started', 1, '{{}}', x'00')")
    db.execute("UPDATE cursor SET position = ?, indexed = 1", (position,))
    db.close()


@pytest.mark.parametrize("version", [0, 1, VERSION + 1])
async def test_a_log_of_another_build_is_made_again(bench: Bench, version: int) -> None:
    """It is dropped, down to its bytes, and derived from the journal; nothing has to be done by hand."""
    await a_few_runs(bench)
    run = await answered(bench, "model_switched")
    write_old(bench.path, await bench.journal.tip())
    db = connect(bench.path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    log = await bench.log()
    await log.catch_up()
    assert await found(log, "1") == [(run.trace_id, "model_switched")]
    tip = await bench.journal.tip()
    assert bench.rows("SELECT count(*) FROM log_rows") == [(tip,)]
    assert tuple((await log.query(ADMIN, LogQuery())).rows[0]) == COLUMNS
    assert bench.rows("SELECT generation FROM cursor") == [(2,)]
    await log.rebuild()
    await log.close()
    assert b"an old text" not in bench.path.read_bytes()


async def test_a_log_of_this_build_is_kept(bench: Bench) -> None:
    """Opening it again derives nothing anew, and does not wait for who writes to it."""
    await answered(bench, "model_switched")
    first = await bench.log()
    await first.catch_up()
    writing = connect(bench.path)
    writing.execute("BEGIN IMMEDIATE")
    try:
        second = await bench.log()
        assert second._writer.position == await bench.journal.tip()
    finally:
        writing.execute("ROLLBACK")
        writing.close()
    assert bench.rows("SELECT generation FROM cursor") == [(1,)]
    assert bench.rows("PRAGMA user_version") == [(VERSION,)]


async def test_another_process_that_still_follows_starts_again(bench: Bench) -> None:
    """A follower that had the file open sees that it was begun anew, and no row is missing or doubled."""
    first = await bench.log()
    await answered(bench, "model_switched")
    await first.catch_up()
    db = connect(bench.path)
    db.execute("PRAGMA user_version = 1")
    db.close()
    await bench.log()
    await answered(bench)
    await first.catch_up()
    assert bench.rows("SELECT count(*) FROM log_rows") == [(await bench.journal.tip(),)]
    assert len(await found(first, "1")) == 1
