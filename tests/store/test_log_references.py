"""Which runs relied on which clauses: followed from the journal, kept to whom they belong, erased and rebuilt."""

from __future__ import annotations

import json

import pytest

from devassist.core.errors import InvalidRequest
from devassist.core.event_parts import DecidedCall
from devassist.core.events import ModelIntended, ModelReplied, RunFinished, ToolIntended, ToolReturned
from devassist.core.scope import Scope
from devassist.ports.decision_log import Reliance
from devassist.store.log_references import mentions
from tests.store.log_bench import ADMIN, BOB, Bench
from tests.store.pen import ALICE, Pen

FIRST, SECOND = "leave@2026-01-01", "leave@2026-06-01"


def hit(clause: str, rank: int, rev_id: str = FIRST) -> dict[str, object]:
    return {"doc_id": "leave", "rev_id": rev_id, "clause_id": f"{rev_id}#{clause}", "rank": rank}


async def searched(bench: Bench, who: Scope, hits: list[dict[str, object]], cited: list[dict[str, object]]) -> Pen:
    """A run that searched once and cited some of what it found."""
    pen = await bench.pen(who).begin("年休假几天？", agent="rag")
    await pen.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    args = pen.text('{"query":"年休假"}')
    decided = ModelReplied(pen.seq, pen.text("look"), "calls", 1, calls=(DecidedCall("search_docs", "pure", args),))
    await pen.add(decided, ToolIntended(pen.seq + 1, 0, 0, 1, "search_docs", "pure", args, pen.at + 10**7, 1))
    record = pen.text(json.dumps({"hits": hits, "rule": "eligible/1"}))
    await pen.add(
        ToolReturned(pen.seq, "result", 1, pen.text('{"hits":[]}'), pen.text("shown"), retrieval=record),
        ModelIntended(1, 2, "m", "scripted", 1, (pen.seq,), 200, base=1),
    )
    answer = pen.text("十天 [1]")
    checks = pen.text(json.dumps({"rule": "cite/1", "citations": cited, "removed": 0}))
    await pen.add(
        ModelReplied(pen.seq, pen.text("final"), "final", 1, answer=answer),
        RunFinished(pen.seq + 1, answer, checks=checks),
    )
    return pen


def told(rows: list[Reliance]) -> list[tuple[str, str, str, int | None]]:
    return [(row.trace_id, row.clause_id, row.used, row.rank) for row in rows]


async def test_a_run_stands_with_what_it_retrieved_and_cited(bench: Bench) -> None:
    """Once for each clause, cited before merely retrieved, by document and by revision, newest run first."""
    one = await searched(bench, ALICE, [hit("art-1", 1), hit("art-2", 2)], [hit("art-2", 0)])
    two = await searched(bench, BOB, [hit("art-2", 1, SECOND), hit("art-2", 2, SECOND)], [])
    log = await bench.log()
    found = await log.relied(ADMIN, doc_id="leave")
    assert told(found.rows) == [
        (two.trace_id, f"{SECOND}#art-2", "retrieved", 1),
        (one.trace_id, f"{FIRST}#art-2", "cited", 2),
        (one.trace_id, f"{FIRST}#art-1", "retrieved", 1),
    ]
    assert {(row.user_id, row.agent, row.state) for row in found.rows} == {
        ("alice", "rag", "FINAL_ANSWER"), ("bob", "rag", "FINAL_ANSWER"),
    }  # fmt: skip
    assert told((await log.relied(ADMIN, rev_id=FIRST)).rows) == told(found.rows)[1:]
    assert (await log.relied(ADMIN, doc_id="other")).rows == []
    view = bench.rows("SELECT user_id, doc_id, clause_id, used, rank FROM knowledge_used WHERE used = 'cited'")
    assert view == [("alice", "leave", f"{FIRST}#art-2", "cited", 0)]


async def test_a_user_sees_his_own(bench: Bench) -> None:
    """And one who has asked nothing sees nothing."""
    one = await searched(bench, ALICE, [hit("art-1", 1)], [])
    await searched(bench, BOB, [hit("art-1", 1)], [])
    log = await bench.log()
    assert {row.trace_id for row in (await log.relied(ALICE, doc_id="leave")).rows} == {one.trace_id}
    assert (await log.relied(Scope("default", "carol"), doc_id="leave")).rows == []
    assert (await log.relied(Scope("elsewhere", "alice", ADMIN.rights), doc_id="leave")).rows == []


async def test_pages_hold_whole_runs(bench: Bench) -> None:
    """Each run once with all its clauses, whatever the pages."""
    runs = [await searched(bench, ALICE, [hit(f"art-{n}", n) for n in (1, 2, 3)], []) for _ in range(5)]
    log = await bench.log()
    seen: list[str] = []
    after: str | None = None
    while True:
        page = await log.relied(ADMIN, doc_id="leave", after=after, limit=2)
        assert all(sum(row.trace_id == other.trace_id for other in page.rows) == 3 for row in page.rows)
        seen += dict.fromkeys(row.trace_id for row in page.rows)
        after = page.next
        if after is None:
            break
    assert seen == [run.trace_id for run in reversed(runs)]


async def test_an_erasure_takes_the_links_along(bench: Bench) -> None:
    """Nobody is found to have used anything any more, in the table's bytes neither; a rebuild gives the same."""
    await searched(bench, BOB, [hit("art-1", 1), hit("art-2", 2)], [hit("art-1", 0)])
    kept = await searched(bench, ALICE, [hit("art-1", 1)], [])
    log = await bench.log()
    assert len((await log.relied(ADMIN, doc_id="leave")).rows) == 3
    await bench.erase(BOB)
    await log.catch_up()
    rows = (await log.relied(ADMIN, doc_id="leave")).rows
    assert {row.trace_id for row in rows} == {kept.trace_id}
    of_bob = bench.rows("SELECT hex(f.clause) FROM log_references f JOIN log_runs u ON u.run = f.run "
                        "JOIN domains d ON d.id = u.domain WHERE d.erased = 1")  # fmt: skip
    assert of_bob == [("00000000",)] * 3
    await log.rebuild()
    assert told((await log.relied(ADMIN, doc_id="leave")).rows) == told(rows)
    assert bench.rows("SELECT count(*) FROM log_references") == [(1,)]


async def test_a_rebuild_makes_the_same_rows(bench: Bench) -> None:
    """Links are derived from the journal like everything else."""
    for who in (ALICE, BOB):
        await searched(bench, who, [hit("art-1", 1), hit("art-2", 2)], [hit("art-2", 0)])
    log = await bench.log()
    before = (await log.relied(ADMIN, doc_id="leave")).rows
    await log.rebuild()
    assert (await log.relied(ADMIN, doc_id="leave")).rows == before


@pytest.mark.parametrize("wrong", [{}, {"doc_id": "a", "rev_id": "b"}, {"doc_id": ""}, {"doc_id": "a", "after": "x"},
                                   {"doc_id": "a", "limit": 0}])  # fmt: skip
async def test_a_wrong_question_is_named(bench: Bench, wrong: dict[str, object]) -> None:
    """Either a document or a revision, a page's own ``next``, and a limit."""
    log = await bench.log()
    with pytest.raises(InvalidRequest) as caught:
        await log.relied(ADMIN, **wrong)  # pyright: ignore[reportArgumentType]
    assert caught.value.errors


@pytest.mark.parametrize("text", ["", "[]", "{", '{"hits": 3}', '{"hits": [1, null, {}]}', '{"hits": [{"rev_id": 7}]}'])
def test_a_text_that_says_nothing_names_no_clause(text: str) -> None:
    """A projection does not stop at what it cannot read."""
    assert mentions("tool_returned", text) == []
