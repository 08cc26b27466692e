"""Questions to the decision log: filters, pages, words in any language, and whose rows one may see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devassist.core.errors import InvalidRequest
from devassist.core.events import ModelIntended, ModelReplied
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.decision_log import LogQuery
from devassist.store import log_query
from devassist.store.log_sqlite import SqliteLog
from tests.store.log_bench import ADMIN, BOB, Bench, a_few_runs
from tests.store.pen import ALICE

STRANGER = Scope(tenant="elsewhere", actor="alice", rights=frozenset({"admin"}))
EVERYTHING = LogQuery(limit=1000)


async def ask(log: SqliteLog, scope: Scope = ADMIN, **filters: Any) -> list[dict[str, Any]]:
    return (await log.query(scope, replace(EVERYTHING, **filters))).rows


async def test_every_filter_picks_its_rows(bench: Bench) -> None:
    """Each one alone gives what the same condition gives over all rows, newest first, whatever path finds it."""
    runs = await a_few_runs(bench)
    log = await bench.log()
    rows = await ask(log)
    assert [r["timestamp"] for r in rows] == sorted((r["timestamp"] for r in rows), reverse=True)
    assert len(rows) == 12 + 1 + 4 + 2 + 12
    some: list[tuple[str, str, Any]] = [
        ("trace_id", "trace_id", runs[1].trace_id), ("kind", "kind", "model_replied"), ("kind", "kind", "run_started"),
        ("kind", "kind", "fact"), ("state", "state", "ERROR"), ("state", "state", "FINAL_ANSWER"),
        ("state", "state", "INIT"), ("state", "state", "TOOL_EXECUTE"), ("error_code", "error_code", "no_action"),
        ("tool_name", "tool_name", "search_docs"), ("user_id", "user_id", "bob"), ("agent", "agent", "policy"),
        ("conversation_id", "conversation_id", runs[0].trace_id), ("step", "step", 1), ("user_id", "user_id", "nobody"),
    ]  # fmt: skip
    for field, column, value in some:
        expected = [r for r in rows if r[column] == value]
        assert await ask(log, **{field: value}) == expected, (field, value)
        assert bool(expected) == (value != "nobody")
        for other, value2 in (("user_id", "bob"), ("kind", "run_started"), ("step", 0), ("tool_name", "search_docs")):
            both = [r for r in expected if r[other] == value2]
            assert field == other or await ask(log, **{field: value, other: value2}) == both, (field, other)


async def test_a_span_of_time_is_half_open(bench: Bench) -> None:
    """``since`` counts, ``until`` does not."""
    run = await bench.pen().whole("question", "answer")
    log = await bench.log()
    times = sorted(r.at for r in await bench.journal.read(SYSTEM, run.stream))
    for filters in ({}, {"trace_id": run.trace_id}, {"tool_name": "get_policy"}):
        found = await ask(log, since=times[2], until=times[6], **filters)
        assert {r["seq"] for r in found} <= set(range(2, 6))
        assert len(await ask(log, since=times[2], until=times[2], **filters)) == 0
    assert len(await ask(log, since=times[2], until=times[6])) == len([t for t in times if times[2] <= t < times[6]])


@pytest.mark.parametrize("filters", [{}, {"user_id": "alice"}, {"tool_name": "get_policy"}, {"text": "question"}])
@pytest.mark.parametrize("few", [0, 500])
async def test_pages_cover_everything_once(
    bench: Bench, filters: dict[str, Any], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In either direction, with equal times, by every path, and while new rows arrive."""
    monkeypatch.setattr(log_query, "FEW", few)
    for number in range(5):
        await bench.pen().whole(f"question {number}", "answer")
    log = await bench.log()
    for oldest_first in (False, True):
        whole = await ask(log, oldest_first=oldest_first, **filters)
        pages: list[dict[str, Any]] = []
        query = LogQuery(limit=7, oldest_first=oldest_first, **filters)
        while True:
            page = await log.query(ADMIN, query)
            pages += page.rows
            assert len(page.rows) == 7 or page.next is None
            if page.next is None:
                break
            query = replace(query, after=page.next)
            if not oldest_first:
                await bench.pen(BOB).begin("a newcomer")
        assert pages == whole
        assert len(whole) > 7


async def test_everyone_sees_their_own_rows(bench: Bench) -> None:
    """A user those of his runs, an administrator those of the tenant, the system all."""
    await a_few_runs(bench)
    theirs = await bench.pen(Scope("elsewhere", "alice")).begin("of another tenant")
    log = await bench.log()
    assert {r["user_id"] for r in await ask(log, ALICE)} == {"alice"}
    assert {r["user_id"] for r in await ask(log, BOB)} == {"bob"}
    assert await ask(log, ALICE, user_id="bob") == []
    assert await ask(log, ALICE, text="second") == []
    assert {r["user_id"] for r in await ask(log)} == {"alice", "bob", None}
    assert [r["trace_id"] for r in await ask(log, STRANGER)] == [theirs.trace_id]
    assert {r["tenant"] for r in await ask(log, SYSTEM)} == {"default", "elsewhere"}
    assert await ask(log, Scope("default", "never seen")) == []


TEXTS = {
    "a": "The refund policy covers 100% of hotel_costs, see \"Annex B\" (draft).",
    "b": "差旅报销标准：一线城市每晚不超过600元，需经理审批。",
    "c": "Правила возврата: ПОЛНАЯ стоимость",
    "d": "SELECT * FROM t WHERE a LIKE 'x%' OR NOT b -- C:\\temp\\*",
    "e": "Straße ABC déjà vu",
}  # fmt: skip
SEARCHES = {
    "refund": "a", "REFUND": "a", "fund pol": "a", "policy refund": "a", "refund 差旅": "", "100%": "a", "0%": "a",
    "hotel_costs": "a", "hotelXcosts": "", '"Annex': "a", "(draft)": "a", "差旅": "b", "审批": "b", "600": "b",
    "差旅 审批": "b", "差旅报销标准": "b", "标差": "", "возврата": "c", "полная": "c", "ПР": "c", "NOT": "d", "x%": "d",
    "t WHERE": "d", "C:\\temp\\*": "d", "\\": "d", "*": "d", "DÉJÀ": "e", "straße": "e", "é": "e", "ь": "c", "_": "a",
    "AND": "", "refund*": "", "a": "ade", "不": "b",
}  # fmt: skip


@pytest.mark.parametrize("few", [0, 500], ids=["dense", "sparse"])
@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
async def test_words_are_found_in_any_language(
    bench: Bench, indexed: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of words, two-character words, several words, operators and wildcards as they stand; no case matters."""
    monkeypatch.setattr(log_query, "FEW", few)
    names = {(await bench.pen().begin(text)).trace_id: name for name, text in TEXTS.items()}
    log = await bench.log()
    await log.catch_up()
    while indexed and log._writer.backlog:
        await log._index()
    for search, expected in SEARCHES.items():
        rows = await ask(log, text=search, oldest_first=True)
        assert "".join(names[r["trace_id"]] for r in rows) == expected, search


async def test_words_are_found_in_inputs_outputs_and_messages(bench: Bench) -> None:
    """One text that several events name is found in each of them."""
    run = await bench.pen().begin("alpha question")
    await run.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    await run.add(
        ModelReplied(1, run.text("beta reply"), "fault", 0, code="x", correction=run.text("gamma correction"))
    )
    await run.add(ModelIntended(1, 2, "m", "scripted", 1, (2,), 100))
    await run.add(
        ModelReplied(3, run.text("beta reply"), "fault", 0, code="x", correction=run.text("gamma correction"))
    )
    log = await bench.log()
    for word, seqs in (("alpha", [0]), ("beta", [2, 4]), ("gamma", [2, 4]), ("a", [0, 2, 4])):
        assert [r["seq"] for r in await ask(log, text=word, oldest_first=True)] == seqs


BAD: dict[str, LogQuery] = {
    "limit": LogQuery(limit=0), "kind": LogQuery(kind="no_such"), "state": LogQuery(state="DONE"),
    "trace_id": LogQuery(trace_id="XYZ"), "after": LogQuery(after="1.2"), "text": LogQuery(text="  "),
    "user_id": LogQuery(user_id="\ud800"), "step": LogQuery(step=2**70),
}  # fmt: skip


@pytest.mark.parametrize(("field", "query"), BAD.items(), ids=BAD.keys())
async def test_a_wrong_filter_is_named(bench: Bench, field: str, query: LogQuery) -> None:
    """InvalidRequest says which one and what would be right."""
    log = await bench.log()
    with pytest.raises(InvalidRequest) as refused:
        await log.query(ADMIN, query)
    assert [path for path, _ in refused.value.errors] == [field]


async def test_a_query_sees_what_was_written_before_it(bench: Bench) -> None:
    """Without a background task, too; the page says how far the log is behind."""
    log = await bench.log()
    for number in range(3):
        run = await bench.pen().begin(f"question {number}")
        page = await log.query(ADMIN, LogQuery(trace_id=run.trace_id))
        assert (len(page.rows), page.lag, page.next) == (1, 0, None)


async def test_a_query_does_not_wait_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the log cannot reach the journal's end in time, the page shows what there is, and the lag."""
    log = await bench.log()
    run = await bench.pen().begin("question")
    await log.catch_up()
    monkeypatch.setattr("devassist.store.log_sqlite.PATIENCE_S", 0.05)
    await run.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    async with log._turn:
        page = await log.query(ADMIN, LogQuery())
    assert (len(page.rows), page.lag) == (1, 1)
    await log.catch_up()
    assert (await log.query(ADMIN, LogQuery())).lag == 0
