"""Replay: what drove a run derives it again; a changed decision is found, with the seq at which it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devassist.audit.record import Recorded, recorded
from devassist.audit.replay import rederive, replay
from devassist.core.errors import RunNotFound
from devassist.core.events import (
    Event,
    Held,
    ModelIntended,
    ModelReplied,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
)
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.tools.schema import SchemaChecker
from tests.audit.hand_made import CLAUSE, USER, HandMade, grounded

CHECKER = SchemaChecker()


async def hand_made() -> HandMade:
    vault = MemoryVault()
    return await grounded(HandMade(MemoryJournal(vault), vault))


async def of_run(run: HandMade) -> Recorded:
    return await recorded(run.journal, USER, run.stream)


async def test_a_run_by_hand_replays() -> None:
    """Every decision of a grounded run with an approval is derived again, as recorded."""
    run = await hand_made()
    report = await replay(run.journal, USER, run.stream, CHECKER)
    assert report.differences == ()
    assert (report.trace_id, report.ok, report.skipped) == (run.stream.hex(), True, 0)
    assert report.decisions == 6 + 6  # six owner decisions; INIT, two prompts, two replies and the release from texts


async def test_erased_texts_are_counted_not_guessed() -> None:
    """What stands in the events is still derived; what stood in the texts is skipped."""
    run = await hand_made()
    await run.vault.destroy(USER, run.domain)
    report = await replay(run.journal, USER, run.stream, CHECKER)
    assert (report.ok, report.decisions, report.skipped) == (True, 7, 5)


async def test_what_is_no_run_is_not_replayed() -> None:
    """Neither is another tenant's."""
    run = await hand_made()
    with pytest.raises(RunNotFound):
        await replay(run.journal, USER, bytes(16), CHECKER)


# -- lies --------------------------------------------------------------------------------------------------------------


def changed(run: Recorded, seq: int, **fields: Any) -> Recorded:
    """The record with one event's fields replaced."""
    placed = [(replace(e, **fields) if s == seq else e, s, at) for e, s, at in run.placed]
    first = placed[0][0]
    assert isinstance(first, RunStarted)
    return Recorded(run.stream, first, placed, run.texts)


def at(run: Recorded, kind: type[Any], nth: int = 0) -> tuple[int, Any]:
    return [(seq, e) for e, seq, _ in run.placed if isinstance(e, kind)][nth]


LIES: dict[str, tuple[type[Event], int, dict[str, Any], str]] = {
    "limits": (RunStarted, 0, {"grounded": False}, "grounded"),
    "step": (ModelIntended, 0, {"step": 3}, "step"),
    "model": (ModelIntended, 1, {"model": "another"}, "model"),
    "prompt": (ModelIntended, 1, {"tokens": 5}, "tokens"),
    "left out": (ModelIntended, 1, {"left": (2, 3)}, "left"),
    "read": (ModelIntended, 1, {"add": (2,)}, "add"),
    "thought": (ModelReplied, 0, {"thought": None}, "thought"),
    "decision": (ModelReplied, 1, {"decision": "fault", "code": "x", "answer": None}, "decision"),
    "calls": (ModelReplied, 0, {"calls": ()}, "calls"),
    "discarded": (ModelReplied, 1, {"discarded": 2}, "discarded"),
    "unstructured": (ModelReplied, 1, {"unstructured": True}, "unstructured"),
    "tool": (ToolIntended, 0, {"tool": "rm"}, "tool"),
    "effect": (ToolIntended, 1, {"effect": "once"}, "effect"),
    "hold": (Held, 0, {"digest": "0" * 64}, "digest"),
    "verdict": (RunFinished, 0, {"verdicts": ("quote_not_found",)}, "verdicts"),
    "output": (RunFinished, 0, {"output": None}, "output"),
    "degraded": (RunFinished, 0, {"degraded": ("x",)}, "degraded"),
}


@pytest.mark.parametrize("name", LIES)
async def test_a_changed_decision_is_found(name: str) -> None:
    """The difference names its seq, its field, what was recorded and what is derived."""
    kind, nth, fields, field = LIES[name]
    run = await of_run(await hand_made())
    seq, event = at(run, kind, nth)
    differences = rederive(changed(run, seq, **fields), CHECKER).differences
    found = next(d for d in differences if d.seq == seq and d.field.startswith(field))
    assert found.recorded != found.derived
    if field in fields and not field.startswith(("calls", "thought", "output")):
        assert found.recorded == str(fields[field])
        assert found.derived == str(getattr(event, field))


async def test_a_released_text_that_nobody_checked_is_found() -> None:
    """The answer that was shown must be the one that the retrieved clauses allow."""
    run = await of_run(await hand_made())
    seq, _ = at(run, RunFinished)
    lie = changed(run, seq, answer="lie")
    lie.texts["lie"] = "“Employees have fifty days of leave each year.” (Leave Policy, Article 5)"
    (found,) = rederive(lie, CHECKER).differences
    assert (found.seq, found.field) == (seq, "answer")
    assert "fifty" in found.recorded
    assert "five" in found.derived


async def test_a_reply_that_means_something_else_is_found() -> None:
    """The raw reply decides, not what was noted of it."""
    run = await of_run(await hand_made())
    _, event = at(run, ModelReplied)
    run.texts[event.reply] = 'Thought: look it up\nAction: tool:get_policy\nargs: {"question": "How many dogs?"}'
    (found,) = rederive(run, CHECKER).differences
    assert (found.field, found.recorded, found.derived) == (
        "calls/0/args", '{"question":"How many days?"}', '{"question":"How many dogs?"}'
    )  # fmt: skip


async def test_events_out_of_turn_are_found() -> None:
    """An ending that nothing called for, and a transition that cannot be."""
    run = await of_run(await hand_made())
    cut = [p for p in run.placed if p[1] < 9]
    early = Recorded(run.stream, run.started, [*cut, (RunFailed("step_limit", 422, "m"), 9, cut[-1][2])], run.texts)
    (found,) = rederive(early, CHECKER).differences
    assert (found.seq, found.field, found.recorded, found.derived) == (9, "kind", "run_failed", "model_intended")
    torn = Recorded(run.stream, run.started, [p for p in run.placed if p[1] != 4], run.texts)
    assert any(d.field == "kind" for d in rederive(torn, CHECKER).differences)


async def test_results_that_hold_no_clauses_make_a_difference_and_no_error() -> None:
    """Rows that are no clauses are ignored: the release derived from them has no source."""
    run = await of_run(await hand_made())
    ref = at(run, ToolReturned, 1)[1].result
    assert run.texts[ref] == CLAUSE
    run.texts[ref] = '{"matches":[{"label":"Article 5"}]}'
    derived = {d.field: d.derived for d in rederive(run, CHECKER).differences}
    assert "answer" in derived
    assert "no_clause" in derived["verdicts"]
