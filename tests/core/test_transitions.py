"""The table and the fold: what may follow what, and that folding in portions changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devassist.core.errors import IllegalTransition
from devassist.core.events import (
    CLASSES,
    TERMINAL,
    BreakerSeen,
    CallClosed,
    Held,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    ModelSwitched,
    RunAborted,
    RunFailed,
    RunFinished,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.heads import head_fields
from devassist.core.run_state import RunState
from devassist.core.signals import (
    SIGNALS,
    ApprovalGiven,
    CancelRequested,
    ChildFinished,
    Fact,
    LateOutcome,
    RunRestored,
    SettlementGiven,
    TimerFired,
)
from devassist.core.states import CLOSED, OPEN, STATUS, TABLE, State
from devassist.core.transitions import apply, fold
from tests.core.build import Script
from tests.core.runs import SCRIPTS, doubtful, plain
from tests.core.simulate import Walk, simulate

EXAMPLES: tuple[Any, ...] = (
    plain().events[0],
    ModelIntended(0, 1, "m", "scripted", 9, (), 1),
    ModelReplied(1, "r", "final", 1, answer="a"),
    ModelFailed(1, "c", 502, True, 1),
    ModelSwitched("m", "scripted", "why"),
    ToolIntended(2, 0, 0, 1, "t", "pure", "a", 9, 9),
    ToolReturned(3, "result", 1),
    CallClosed(2, 0, "cancelled"),
    Held("approval", 2, 0, "d"),
    WaitBegun("backoff", 9),
    RunFinished(2, "a"),
    RunFailed("c", 500, "m"),
    RunAborted("cancelled"),
    CancelRequested("s", "00"),
    ApprovalGiven("s", "00", "d", "approve"),
    SettlementGiven("s", "00", "d", "happened"),
    TimerFired("s", 9),
    ChildFinished("s", "00", "ERROR"),
    LateOutcome("s", 3, "result"),
    RunRestored("s", 1, 2),
    BreakerSeen(0, 9),
    Fact("granted", "00"),
)
walks = st.integers(0, 2**40).map(lambda seed: simulate(Random(seed), cancels=0.1))
often = settings(max_examples=150)


def states() -> Iterator[tuple[State, RunState]]:
    """Run states as they come up, of every kind."""
    for make in SCRIPTS.values():
        state: RunState | None = None
        for event, seq, at in make().placed:
            state = apply(state, event, seq, at)
            yield state.state, state


BY_STATE = {state: [s for kind, s in states() if kind is state] for state in State}


def test_there_is_an_example_of_every_kind_and_state() -> None:
    """The pairs below are all pairs."""
    assert {type(e) for e in EXAMPLES} == set(CLASSES)
    assert all(BY_STATE[state] for state in State)
    assert set(STATUS) == set(State)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", EXAMPLES, ids=lambda e: e.kind)
def test_every_pair_is_in_the_table_or_refused(state: State, event: Any) -> None:
    """A pair outside the table raises and leaves the state as it was; one in the table leads where it says, or is
    refused because it answers nothing that is open."""
    target = TABLE.get((state, event.kind))
    for before in BY_STATE[state]:
        copy = before._replace()
        try:
            after = apply(before, event, before.seq + 1, before.at)
        except IllegalTransition:
            assert target is None or event.kind not in SIGNALS
        else:
            assert target is after.state
        assert before == copy


def test_closed_states_accept_nothing() -> None:
    """Nor does the table name a way out of them, and the events that end a run lead nowhere else."""
    assert not any(state in CLOSED for state, _ in TABLE)
    assert {target for (_, kind), target in TABLE.items() if kind in TERMINAL} == CLOSED
    assert all(target not in CLOSED for (_, kind), target in TABLE.items() if kind not in TERMINAL)


def test_signals_never_change_the_state() -> None:
    """They are legal in every open state and stay in it."""
    assert {(s, k): t for (s, k), t in TABLE.items() if k in SIGNALS} == {(s, k): s for s in OPEN for k in SIGNALS}


@often
@given(walks)
def test_a_signal_only_wakes(walk: Walk) -> None:
    """In whole histories: after a signal the state is the same and the run is due at once; the owner's next event
    clears that, unless it begins a wait."""
    state: RunState | None = None
    for event, seq, at in walk.script.placed:
        after = apply(state, event, seq, at)
        if state is not None and event.kind in SIGNALS:
            assert (after.state, after.wake_at) == (state.state, at)
        elif isinstance(event, WaitBegun):
            assert after.wake_at == event.until
        else:
            assert after.wake_at == -1
        state = after


@often
@given(walks, st.floats(0, 1))
def test_folding_in_portions_is_folding_at_once(walk: Walk, share: float) -> None:
    """fold(a + b) == fold(b, fold(a)), wherever the history is cut."""
    placed = walk.script.placed
    cut = round(share * len(placed))
    assert fold(placed[cut:], fold(placed[:cut])) == fold(placed) == walk.state


@often
@given(walks)
def test_counters_are_what_the_history_says(walk: Walk) -> None:
    """Tokens, attempts and calls are sums over the events; time never falls and never outruns the history."""
    events, state = walk.script.events, walk.state
    replies = [e for e in events if isinstance(e, ModelReplied | ModelFailed)]
    assert state.input_tokens == sum(e.input_tokens for e in replies)
    assert state.output_tokens == sum(e.output_tokens for e in replies)
    assert state.attempts == sum(isinstance(e, ModelIntended) for e in events)
    assert state.tool_calls == len({(e.decision, e.call) for e in events if isinstance(e, ToolIntended)})
    assert 0 <= state.driven <= state.at - walk.script.placed[0][2]


@often
@given(walks)
def test_every_call_of_a_step_is_answered_in_call_order(walk: Walk) -> None:
    """Before the next model attempt the transcript holds one observation a call, whatever the order of arrival."""
    for state, _ in walk.decided:
        if not state.calls or not all(c.phase == "done" for c in state.calls):
            continue
        shown = [e.call for e in state.transcript if e.role == "observation" and e.step == state.step]
        assert shown == sorted(shown)
        missing = set(range(len(state.calls))) - set(shown)
        assert len(set(shown)) == len(shown)
        assert all(state.calls[i].fault for i in missing)


@often
@given(walks)
def test_the_head_is_derived_from_the_state(walk: Walk) -> None:
    """What a store keeps beside the events: the state's name, whether it is driven, and when to wake it."""
    fields = head_fields(walk.state)
    assert (fields.state, fields.driving) == (str(walk.state.state), False)
    for state, _ in walk.decided:
        assert head_fields(state).wake_at == max(state.wake_at, 0)


def refuse(script: Script, event: Any, *, seq: int = 1, at: int = 0) -> str:
    before = script.now
    with pytest.raises(IllegalTransition) as refused:
        apply(before, event, before.seq + seq, before.at + at)
    return refused.value.detail


def test_a_run_begins_with_init_alone() -> None:
    """Nothing else comes first, INIT stands at seq 0, and it never comes again."""
    init = EXAMPLES[0]
    for event, seq in ((EXAMPLES[1], 0), (init, 1)):
        with pytest.raises(IllegalTransition):
            apply(None, event, seq, 0)
    assert "run_started" in refuse(Script(), init)


def test_places_have_no_gap_and_times_do_not_fall() -> None:
    """A gap, a repetition and an earlier time are refused."""
    script, event = Script(), EXAMPLES[1]
    for seq, at in ((2, 0), (0, 0), (1, -1)):
        assert "after seq 0" in refuse(script, event, seq=seq, at=at)


def test_outcomes_name_the_open_attempt() -> None:
    """A reply, failure or result of another attempt than the open one is refused."""
    script = Script()
    script.think()
    assert "open attempt is 1" in refuse(script, ModelReplied(0, "r", "final", 1))
    assert "open attempt is 1" in refuse(script, ModelFailed(7, "c", 502, True, 1))
    script.calls(("a", {}, "pure"), ("b", {}, "pure"))
    script.attempt(0)
    assert "not an open attempt" in refuse(script, ToolReturned(1, "result", 1))
    script.returned(0, 1)
    assert "not an open attempt" in refuse(script, ToolReturned(3, "result", 1))


def test_nothing_begins_or_ends_over_an_open_attempt() -> None:
    """No second attempt, no switch, wait, hold or end while one is under way."""
    script = Script()
    script.think()
    refuse(script, ModelIntended(0, 2, "m", "scripted", 1, (), 1))
    refuse(script, ModelSwitched("m", "scripted", "why"))
    refuse(script, WaitBegun("backoff", 9))
    refuse(script, RunAborted("cancelled"))
    script.calls(("a", {}, "pure"), ("b", {}, "pure"))
    script.attempt(0)
    refuse(script, ToolIntended(2, 0, 0, 2, "a", "pure", "r", 9, 1))
    refuse(script, Held("approval", 2, 1, "d"))
    refuse(script, WaitBegun("backoff", 9))
    refuse(script, RunFailed("c", 500, "m"))
    script.returned(0, 1)
    assert "a call has no result" in refuse(script, ModelIntended(1, 2, "m", "scripted", 1, (), 1))


def test_attempts_are_counted_without_gaps() -> None:
    """The next attempt, of a model or of a call, is the last one plus one, and closed calls get none."""
    script = Script()
    refuse(script, ModelIntended(0, 2, "m", "scripted", 1, (), 1))
    script.think()
    script.calls(("a", {}, "pure"))
    refuse(script, ToolIntended(2, 0, 0, 2, "a", "pure", "r", 9, 1))
    refuse(script, ToolIntended(2, 1, 0, 1, "a", "pure", "r", 9, 1))
    refuse(script, ToolIntended(1, 0, 0, 1, "a", "pure", "r", 9, 1))
    script.attempt()
    script.returned(0, 1)
    refuse(script, ToolIntended(2, 0, 0, 2, "a", "pure", "r", 9, 1))
    refuse(script, CallClosed(2, 0, "cancelled"))


def test_an_older_epoch_is_refused() -> None:
    """What a superseded owner still wrote would not fold."""
    script = Script()
    script.think(epoch=3)
    script.model_failed("interrupted")
    assert "older than 3" in refuse(script, ModelIntended(0, 2, "m", "scripted", 2, (), 1))


def test_a_late_fault_fails_the_run_too() -> None:
    """A fault of the service delivered late shows nothing to the model, and is a fault all the same."""
    script = doubtful()
    script.add(LateOutcome("l", script.now.calls[0].intent, "fault", code="tool_fault"))
    (call,) = script.now.calls
    assert (call.phase, call.fault) == ("done", 500)
