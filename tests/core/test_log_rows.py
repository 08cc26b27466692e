"""The decision log's rows: which event fills which column, and what stays in the metadata."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core import event_codec
from devassist.core.event_codec import encode
from devassist.core.event_parts import DecidedCall, Limits
from devassist.core.events import (
    CLASSES,
    CallClosed,
    Event,
    Held,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    ModelSwitched,
    RunAborted,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.log_rows import LogRow, RunContext, current, log_row, metadata, started
from devassist.core.signals import (
    ApprovalGiven,
    CancelRequested,
    ChildFinished,
    Fact,
    LateOutcome,
    SettlementGiven,
    TimerFired,
)
from devassist.core.states import State

INIT = RunStarted(
    "default", "d0", "a0", "dev", "DEF", "REQ", "MSG", "c1", Limits(), idem="k", digest="g"
)  # fmt: skip
CALLED = RunContext("default", "d0", "a0", "dev", "c1", State.TOOL_EXECUTE, 2, ((7, "search"), (9, "run")), ("a", "b"))


def body(event: Event) -> dict[str, Any]:
    return json.loads(encode(event))


def row(event: Event, context: RunContext = CALLED, seq: int = 11) -> LogRow:
    return log_row(body(event), seq, context)[0]


def test_a_run_in_rows() -> None:
    """State, step, tool, texts and durations of a whole run, computed from bodies alone."""
    calls = (DecidedCall("search", "pure", "ARGS"),)
    events: list[Event] = [
        INIT,
        ModelIntended(0, 1, "m", "scripted", 1, (0,), 10),
        ModelReplied(1, "RAW", "calls", 1_500, calls=calls, thought="TH"),
        ToolIntended(2, 0, 0, 1, "search", "pure", "ARGS", 99, 1),
        ToolReturned(3, "result", 2_499, "RES", "SHOWN"),
        ModelIntended(1, 2, "m", "scripted", 1, (4,), 20),
        ModelReplied(5, "RAW2", "final", 499, answer="ANS"),
        RunFinished(6, "ANS", verdicts=("cited",)),
    ]
    context, rows = started(body(INIT)), list[LogRow]()
    for seq, event in enumerate(events):
        one, context = log_row(body(event), seq, context)
        rows.append(one)
    i, ll, t, f = State.INIT, State.LLM_DECIDE, State.TOOL_EXECUTE, State.FINAL_ANSWER
    assert rows == [
        LogRow("run_started", None, i, input="MSG"),
        LogRow("model_intended", 0, ll),
        LogRow("model_replied", 0, ll, output="RAW", duration_ms=2),
        LogRow("tool_intended", 0, t, "search", input="ARGS"),
        LogRow("tool_returned", 0, t, "search", output="RES", duration_ms=2),
        LogRow("model_intended", 1, ll),
        LogRow("model_replied", 1, ll, output="RAW2"),
        LogRow("run_finished", 1, f, output="ANS"),
    ]
    assert (context.tenant, context.domain, context.actor, context.agent, context.conversation) == (
        "default", "d0", "a0", "dev", "c1",
    )  # fmt: skip


CASES: dict[str, tuple[Event, dict[str, Any]]] = {
    "a correction": (
        ModelReplied(8, "RAW", "fault", 0, code="no_action", correction="COR", tool="search"),
        {"tool_name": "search", "output": "RAW", "error_code": "no_action", "message": "COR"},
    ),
    "a failed attempt": (
        ModelFailed(8, "provider_error", 502, True, 3_000, "WHY"),
        {"error_code": "provider_error", "message": "WHY", "duration_ms": 3},
    ),
    "a failed call": (
        ToolReturned(7, "failed", 1_000, "RES", "TOLD", "tool_timeout"),
        {"tool_name": "search", "output": "RES", "error_code": "tool_timeout", "message": "TOLD", "duration_ms": 1},
    ),
    "a call in doubt": (ToolReturned(9, "unknown", 0, code="gone"), {"tool_name": "run", "error_code": "gone"}),
    "a rejected call": (
        CallClosed(8, 1, "rejected", "TOLD", code="approval_rejected"),
        {"tool_name": "b", "error_code": "approval_rejected", "message": "TOLD"},
    ),
    "a settled call": (
        CallClosed(8, 0, "happened", "TOLD", "RES", "settled"),
        {"tool_name": "a", "output": "RES", "error_code": "settled"},
    ),
    "a failed run": (
        RunFailed("step_limit", 422, "WHY"),
        {"error_code": "step_limit", "message": "WHY", "state": State.ERROR},
    ),
    "a hold": (Held("approval", 8, 1, "dig"), {"tool_name": "b", "state": State.AWAIT_APPROVAL}),
    "an abort": (RunAborted("cancelled"), {"state": State.ABORTED}),
    "a wait": (WaitBegun("backoff", 5), {"state": State.WAIT}),
    "a late outcome": (
        LateOutcome("s", 7, "failed", None, "TOLD", "late"),
        {"tool_name": "search", "error_code": "late", "message": "TOLD"},
    ),
    "a late result": (LateOutcome("s", 7, "result", "RES", "TOLD"), {"tool_name": "search", "output": "RES"}),
    "an approval": (ApprovalGiven("s", "a1", "dig", "approve", "NOTE", "ARGS"), {"input": "NOTE"}),
    "a settlement": (SettlementGiven("s", "a1", "dig", "happened", "RES", "NOTE"), {"input": "NOTE", "output": "RES"}),
    "a child's end": (ChildFinished("s", "ff", "FINAL_ANSWER", "RES"), {"output": "RES"}),
    "a cancel": (CancelRequested("s", "a1"), {}),
    "a timer": (TimerFired("s", 5), {}),
    "an unknown intent": (ToolReturned(1, "result", 0, "RES"), {"output": "RES"}),
}


@pytest.mark.parametrize(("event", "columns"), CASES.values(), ids=CASES.keys())
def test_the_columns_of_an_event(event: Event, columns: dict[str, Any]) -> None:
    """What is not named keeps its default, and state and step those of the run."""
    assert row(event) == LogRow(event.kind, 2, State.TOOL_EXECUTE)._replace(**columns)


def test_a_fact_has_neither_state_nor_step() -> None:
    """It is of no run."""
    context = RunContext("default", "", "", "", "")
    fact = Fact("key_created", "a1", (("key", "k1"),))
    assert log_row(body(fact), 3, context) == (LogRow("fact", None, None), context)
    assert metadata(body(fact)) == {"name": "key_created", "actor": "a1", "data": [["key", "k1"]]}


def test_metadata_is_what_no_column_shows() -> None:
    """References of shown texts, and fields with a column of their own, are left out; all else stays."""
    assert metadata(body(INIT)) == {
        "domain": "d0", "definition": "DEF", "request": "REQ", "limits": list(Limits()), "idem": "k", "digest": "g",
    }  # fmt: skip
    replied = ModelReplied(1, "RAW", "calls", 5, calls=(DecidedCall("t", "once", "A"),), thought="TH", input_tokens=3)
    assert metadata(body(replied)) == {
        "of": 1, "decision": "calls", "calls": [["t", "once", "A", None]], "thought": "TH", "input_tokens": 3,
    }  # fmt: skip
    assert metadata(body(CancelRequested("s", "a1"))) == {"signal_id": "s", "actor": "a1"}
    assert metadata({"k": "run_aborted", "v": 2, "reason": "x"}) == {"v": 2, "reason": "x"}


@given(st.sampled_from(CLASSES), st.data())
def test_no_body_is_too_odd_to_be_a_row(cls: type[Any], data: st.DataObject) -> None:
    """Missing fields leave columns empty: reading the log never depends on what ``verify`` has yet to find."""
    whole = {"k": cls.kind, "v": 1}
    given_row, context = log_row(whole, data.draw(st.integers(0, 9)), CALLED)
    assert given_row.kind == cls.kind
    assert metadata(whole) == {}
    assert context.tenant == "default"


def test_old_versions_are_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of events that an older build wrote are made from the lifted body."""
    monkeypatch.setitem(event_codec.UPCASTERS, ("model_switched", 0), lambda old: {"model": old["name"], "reason": "r"})
    lifted = current({"k": "model_switched", "v": 0, "name": "m2"})
    assert lifted == {"k": "model_switched", "v": 1, "model": "m2", "reason": "r"}
    now = body(ModelSwitched("m", "scripted", "fallback"))
    assert current(now) is now
