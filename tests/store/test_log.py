"""The decision log on SQLite: a projection that anyone can read, restart, rebuild and erase."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from devassist.core.codec import canonical
from devassist.core.errors import Unavailable
from devassist.core.events import ModelFailed, ModelIntended, ModelReplied
from devassist.core.heads import HeadFields
from devassist.core.log_rows import INPUT_CHARS, MESSAGE_CHARS, OUTPUT_CHARS
from devassist.core.scope import SYSTEM
from devassist.core.states import State
from devassist.ports.decision_log import LogQuery
from devassist.ports.journal import Append, Body
from devassist.store import log_sqlite
from devassist.store.log_query import COLUMNS
from devassist.store.log_sqlite import SqliteLog
from devassist.store.memory_journal import MemoryJournal
from devassist.store.sql_files import script
from tests.store.log_bench import ADMIN, BOB, Bench, a_few_runs
from tests.store.pen import ALICE


async def test_a_row_says_what_happened_to_any_sql_client(bench: Bench) -> None:
    """All columns, in the promised order, with texts, person, chain and time, in plain SQL."""
    run = (await a_few_runs(bench))[0]
    log = await bench.log()
    await log.catch_up()
    records = await bench.journal.read(SYSTEM, run.stream)
    rows = [dict(zip(COLUMNS, r, strict=True)) for r in bench.rows() if r[0] == run.trace_id]
    assert [r["kind"] for r in rows] == [r.kind for r in records]
    assert [(r["hash"], r["prev_hash"]) for r in rows] == [
        (r.hash.hex(), p.hash.hex() if p else "00" * 32) for p, r in zip([None, *records], records, strict=False)
    ]
    first, reply, intent, outcome, last = rows[0], rows[2], rows[3], rows[4], rows[-1]
    assert first | {
        "seq": 0, "state": "INIT", "step": None, "tenant": "default", "user_id": "alice", "agent": "dev",
        "input_text": "出差住宿标准是多少？", "output_text": None, "conversation_id": run.trace_id,
    } == first  # fmt: skip
    assert reply["output_text"].startswith("Thought: look it up.")
    assert (reply["duration_ms"], reply["step"]) == (7, 0)
    assert (intent["tool_name"], json.loads(intent["input_text"])["step"]) == ("get_policy", 0)
    assert (outcome["tool_name"], outcome["output_text"]) == ("get_policy", '{"found":"found 0"}')
    assert (outcome["duration_ms"], json.loads(outcome["metadata"])["outcome"]) == (1, "result")
    assert (last["state"], last["output_text"], last["step"]) == ("FINAL_ANSWER", "每晚不超过 600 元。", 2)
    moment = datetime.fromtimestamp(records[0].at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert first["timestamp"] == f"{moment}.{records[0].at % 1_000_000:06}Z"


async def test_faults_fill_their_columns(bench: Bench) -> None:
    """A correction and a failure show their code and message."""
    failed = (await a_few_runs(bench))[1]
    await (await bench.log()).catch_up()
    sql = f"SELECT error_code, error_message, state FROM decision_log WHERE trace_id = '{failed.trace_id}' AND seq > 1"
    assert bench.rows(sql) == [
        ("no_action", "Say which action.", "LLM_DECIDE"),
        ("no_action", "The model gave no usable answer.", "ERROR"),
    ]


async def test_facts_are_rows_without_a_trace(bench: Bench) -> None:
    """Their stream stands in the metadata."""
    await bench.fact("deploy", "prompt_deployed", version="v2")
    await (await bench.log()).catch_up()
    ((trace, seq, kind, state, metadata),) = bench.rows("SELECT trace_id, seq, kind, state, metadata FROM decision_log")
    (record,) = await bench.journal.changes(0)
    assert (trace, seq, kind, state) == (None, 0, "fact", None)
    assert json.loads(metadata) == {
        "name": "prompt_deployed", "actor": "system", "data": [["version", "v2"]], "stream": record.stream.hex(),
    }  # fmt: skip


async def test_the_sqlite3_command_reads_it(bench: Bench, in_ci: bool) -> None:
    """Debian's 3.40 knows every function that the view uses."""
    if shutil.which("sqlite3") is None and not in_ci:
        pytest.skip("there is no sqlite3 command; apt-get install sqlite3 brings it")
    await a_few_runs(bench)
    await (await bench.log()).catch_up()
    command = ["sqlite3", "-json", str(bench.path), "SELECT * FROM decision_log WHERE kind = 'run_finished' LIMIT 1"]
    (row,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert tuple(row) == COLUMNS


async def test_texts_are_stored_once_and_cut(bench: Bench) -> None:
    """One row per distinct text of a run; columns show 1,000, 4,000 and 2,000 characters."""
    run = await bench.pen().begin("问" * 9_000 + "\0")
    await run.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    await run.add(ModelReplied(1, run.text("答" * 9_000), "fault", 0, code="x", correction=run.text("错" * 9_000)))
    await run.add(ModelIntended(1, 2, "m", "scripted", 1, (0,), 100))
    await run.add(ModelReplied(3, run.text("答" * 9_000), "fault", 0, code="x", correction=run.text("N\0UL")))
    await (await bench.log()).catch_up()
    rows = bench.rows("SELECT input_text, output_text, error_message FROM decision_log ORDER BY seq")
    assert [[len(t) if t else 0 for t in row] for row in rows] == [
        [INPUT_CHARS, 0, 0], [0, 0, 0], [0, OUTPUT_CHARS, MESSAGE_CHARS], [0, 0, 0], [0, OUTPUT_CHARS, 4],
    ]  # fmt: skip
    assert rows[-1][2] == "N\u2400UL"
    assert bench.rows("SELECT count(*), max(length(body)) FROM texts") == [(4, OUTPUT_CHARS)]


async def test_restarts_and_batches_of_any_size_change_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows followed one by one, by a new process each, equal those followed at once."""
    await a_few_runs(bench)
    await (await bench.log()).catch_up()
    monkeypatch.setattr(log_sqlite, "BATCH", 1)
    other = tmp_path / "other.db"
    for _ in range(await bench.journal.tip()):
        log = await SqliteLog.open(other, bench.journal, bench.vault)
        assert await log.follow_once() == 1
        await log.close()
    assert bench.rows(path=other) == bench.rows()
    assert bench.rows("SELECT count(*) FROM texts", other) == bench.rows("SELECT count(*) FROM texts")


async def test_following_again_changes_nothing(bench: Bench) -> None:
    """At least once, idempotent: after a lost cursor the same rows are there once."""
    await a_few_runs(bench)
    log = await bench.log()
    await log.catch_up()
    before = bench.rows()
    assert await log.follow_once() == 0
    await log.close()
    bench.rows("UPDATE cursor SET position = 0")
    await (await bench.log()).catch_up()
    assert bench.rows() == before


async def test_a_rebuild_gives_the_same_rows(bench: Bench) -> None:
    """From zero, and it says how many."""
    await a_few_runs(bench)
    await bench.erase(BOB)
    log = await bench.log()
    await log.catch_up()
    before = bench.rows()
    assert await log.rebuild() == len(before) == await bench.journal.tip()
    assert bench.rows() == before
    assert await log.lag() == 0


async def test_two_processes_may_follow_into_one_file(bench: Bench) -> None:
    """Whoever finds the cursor moved, or the log rebuilt, goes on from there."""
    logs = [await bench.log() for _ in range(2)]
    for number in range(6):
        run = await bench.pen().begin(f"question {number}")
        await logs[number % 2].catch_up()
        if number == 3:
            await logs[0].rebuild()
        await run.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    await asyncio.gather(*(log.catch_up() for log in logs))
    assert bench.rows("SELECT count(*), count(DISTINCT trace_id), count(input_text) FROM decision_log") == [(12, 6, 6)]
    assert [await log.lag() for log in logs] == [0, 0]


async def test_the_background_task_follows(bench: Bench) -> None:
    """What is appended appears; stopping and starting again loses nothing; the index is brought on when idle."""
    log = await bench.log()
    await log.start()
    await log.start()
    run = await bench.pen().begin("first")
    await _until(lambda: len(bench.rows()) == 1)
    await log.stop()
    await log.stop()
    await run.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    assert await log.lag() == 1
    await log.start()
    await _until(lambda: len(bench.rows()) == 2)
    await _until(lambda: bench.rows("SELECT indexed FROM cursor") == [(1,)])


async def test_a_fault_is_no_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While batches fail, queries show what there is and how far behind it is; then all of it is there, once."""
    monkeypatch.setattr(log_sqlite, "RETRY_S", 0.01)
    log = await bench.log()
    await bench.pen().begin("first")
    await log.catch_up()
    write, faults = log._writer.write, iter([apsw.FullError("disk full"), ZeroDivisionError(), apsw.IOError("gone")])

    def failing(*args: Any) -> bool:
        fault = next(faults, None)
        done = write(*args)
        if fault is not None:
            raise fault
        return done

    monkeypatch.setattr(log._writer, "write", failing)
    await bench.pen().whole("second", "answer")
    page = await log.query(ADMIN, LogQuery())
    assert (len(page.rows), page.lag) == (13, 0)
    await log.start()
    for number in range(4):
        await bench.pen().whole(f"more {number}", "answer")
    await _until(lambda: len(bench.rows()) == 13 + 4 * 12)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_what_cannot_be_read_stops_nothing(bench: Bench) -> None:
    """An event of a later build, a broken body and a lost text are rows too; all that follows is there."""
    run = await bench.pen().begin("question")
    actor = await bench.vault.domain(ALICE, "user", "alice")
    odd = [
        {"k": "model_intended", "v": 99, "step": 3, "new_field": "x"},
        {"k": "model_replied", "v": 1, "calls": 7},
        {"k": "model_failed", "v": 1, "message": "not a reference"},
        {"k": "model_failed", "v": 1, "message": "A" * 43},
    ]
    bodies = (*(Body(b["k"], canonical(b)) for b in odd), Body("model_failed", b"[1"))
    head = HeadFields("LLM_DECIDE", driving=True, wake_at=0)
    await bench.journal.append(ALICE, Append(run.stream, 0, 1, run.at, bodies, head))
    run.seq, run.state = 5, State.LLM_DECIDE
    await run.add(ModelFailed(1, "late", 502, True, 0, run.text("still here")))
    await (await bench.log()).catch_up()
    rows = bench.rows("SELECT kind, step, error_message, user_id FROM decision_log ORDER BY seq")
    assert [r[0] for r in rows[1:]] == [b.kind for b in bodies] + ["model_failed"]
    assert rows[-1] == ("model_failed", 3, "still here", "alice")
    assert actor


async def test_a_journal_put_back_to_an_earlier_day_is_followed_anew(bench: Bench) -> None:
    """A log that is ahead of its journal is of another history."""
    await a_few_runs(bench)
    await (await bench.log()).catch_up()
    bench.journal = MemoryJournal(bench.vault)
    await bench.pen().begin("the only run")
    await (await bench.log()).catch_up()
    assert bench.rows("SELECT input_text FROM decision_log") == [("the only run",)]


async def test_a_file_that_is_no_log_is_refused(bench: Bench) -> None:
    """The error names it."""
    bench.path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(Unavailable, match=r"log\.db"):
        await bench.log()


async def test_the_schema_says_what_core_says(bench: Bench) -> None:
    """States of the CHECK, lengths of the previews, and an index for the rows of a trace."""
    schema = script("log_schema.sql")
    assert all(f"state = '{state}'" in schema for state in State)
    assert schema.count("state = '") == len(State)
    for column, chars in (("i", INPUT_CHARS), ("o", OUTPUT_CHARS), ("m", MESSAGE_CHARS)):
        assert f"substr({column}.body, 1, {chars})" in schema
    await a_few_runs(bench)
    await (await bench.log()).catch_up()
    plan = bench.rows("EXPLAIN QUERY PLAN SELECT * FROM decision_log WHERE trace_id = 'x' ORDER BY seq")
    assert not [step for *_, step in plan if step.startswith("SCAN")]
