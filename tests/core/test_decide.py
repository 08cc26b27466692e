"""What a run does next: properties over whole histories, and the paths that people, crashes and limits take."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devassist.core.commands import (
    Abort,
    CallModel,
    CallTools,
    CloseCall,
    CutCall,
    CutModel,
    Fail,
    Finish,
    Hold,
    Switch,
    Wait,
)
from devassist.core.decide import MAX_INTERRUPTIONS, MAX_MODEL_CUTS, decide
from devassist.core.event_parts import Limits
from devassist.core.events import ModelFailed, WaitBegun
from devassist.core.patience import FIRST_BACKOFF_US, FIRST_MAX_FAILURES
from devassist.core.signals import ApprovalGiven, CancelRequested, SettlementGiven, TimerFired
from devassist.core.states import CLOSED, State
from tests.core.build import Script
from tests.core.simulate import ACTOR, Walk, simulate
from tests.core.steps_to import LOOK, MAIL, PUT, asked

walks = st.integers(0, 2**40).map(lambda seed: simulate(Random(seed)))
often = settings(max_examples=200)


# -- whole histories -------------------------------------------------------------------------------------------------


@often
@given(walks)
def test_every_run_ends(walk: Walk) -> None:
    """Whatever the world does, a run comes to an end, and what is decided is legal each time (``apply`` took it)."""
    assert walk.state.state in CLOSED
    assert decide(walk.state) is None


@often
@given(walks)
def test_two_effects_are_never_open_but_for_pure_calls_together(walk: Walk) -> None:
    """With an attempt open nothing is begun; several are begun at once only where the agent allows it and all are
    pure."""
    for state, command in walk.decided:
        open_attempts = (state.open_model >= 0) + sum(c.phase == "running" for c in state.calls)
        if isinstance(command, CallModel | CallTools | Wait | Hold | Finish | Fail | Abort):
            assert open_attempts == 0
        if isinstance(command, CallTools) and len(command.calls) > 1:
            assert state.started.parallel
            assert {c.call.effect for c in state.calls} == {"pure"}


@often
@given(st.integers(0, 2**40).map(lambda seed: simulate(Random(seed), cancels=0.3)))
def test_a_cancelled_run_is_aborted_after_every_call_has_an_outcome(walk: Walk) -> None:
    """From the cancel on nothing is begun, every call is closed, and the run ends as ABORTED."""
    after = [(s, c) for s, c in walk.decided if s.cancel is not None and not s.closed]
    for _, command in after:
        assert isinstance(command, CutModel | CutCall | CloseCall | Abort)
    if after:
        assert walk.state.state is State.ABORTED
        assert all(c.phase == "done" for c in walk.state.calls)


@often
@given(walks)
def test_a_call_that_may_have_taken_effect_is_never_repeated_silently(walk: Walk) -> None:
    """A further attempt of a once-call follows only on a person's word; no call is begun after a closed one says so."""
    for state, command in walk.decided:
        for index in command.calls if isinstance(command, CallTools) else ():
            c = state.calls[index]
            if c.call.effect == "once" and c.attempts:
                assert c.answer in ("repeat", "approve")
            if c.attempts and c.phase == "interrupted":
                assert c.attempts < MAX_INTERRUPTIONS


@often
@given(walks)
def test_limits_hold(walk: Walk) -> None:
    """No step beyond the limit is begun, and no model call once tokens, cost or time are used up."""
    limits = walk.state.started.limits
    for state, command in walk.decided:
        if isinstance(command, CallModel):
            assert command.step < limits.steps
            assert state.input_tokens + state.output_tokens < limits.tokens
            assert state.driven < limits.deadline_ms * 1000
            assert limits.cost < 0 or state.cost < limits.cost


@often
@given(walks)
def test_each_answer_is_used_once(walk: Walk) -> None:
    """An attempt consumes the word that allowed it: attempts of a once-call never outnumber the words given."""
    words = Counter[tuple[int, int]]()
    for state, command in walk.decided:
        for index in command.calls if isinstance(command, CallTools) else ():
            c = state.calls[index]
            if c.call.effect == "once":
                words[state.reply_seq, index] += 1
                answers = [e for e in walk.script.events if isinstance(e, ApprovalGiven | SettlementGiven)]
                assert words[state.reply_seq, index] <= 1 + len(answers)


@often
@given(walks)
def test_after_a_restore_a_person_decides_on_every_once_call(walk: Walk) -> None:
    """Of a run that was open when the journal was put back, no once-call is begun without a word given since then."""
    for state, command in walk.decided:
        for index in command.calls if isinstance(command, CallTools) and state.restored else ():
            c = state.calls[index]
            assert c.call.effect != "once" or c.approved or c.answer in ("approve", "repeat")


@often
@given(walks)
def test_models_are_switched_in_their_order(walk: Walk) -> None:
    """Each switch goes to the next fallback, never past the last, and no attempt follows an open breaker at once."""
    for state, command in walk.decided:
        if isinstance(command, Switch):
            assert command.choice == state.choice + 1 <= state.started.fallbacks
        if isinstance(command, CallModel):
            assert state.breaker is None


# -- cut off ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [LOOK, PUT])
def test_repeatable_calls_are_repeated_a_few_times(wanted: Any) -> None:
    """A pure or idempotent call that is cut off is tried again, then the model is told."""
    script = asked(wanted)
    for attempt in range(MAX_INTERRUPTIONS):
        assert decide(script.now) == CallTools((0,))
        script.attempt(epoch=attempt + 1)
        assert decide(script.now) == CutCall(script.now.calls[0].intent, "interrupted")
        script.unknown()
    closing = "not_run" if wanted is LOOK else "abandoned"
    assert decide(script.now) == CloseCall(0, closing, "tool_interrupted")
    script.close(0, closing, "tool_interrupted")
    assert decide(script.now) == CallModel(1, 2)


def test_a_cut_off_model_attempt_is_repeated_at_once() -> None:
    """A crash is no fault of the provider: no back-off, and it has a count of its own."""
    script = Script()
    for attempt in range(MAX_MODEL_CUTS):
        assert decide(script.now) == CallModel(0, attempt + 1)
        script.think(epoch=attempt + 1)
        assert decide(script.now) == CutModel(script.now.open_model, "interrupted")
        script.model_failed("interrupted", 503)
    assert decide(script.now) == Fail("model_interrupted", 503)


def test_what_a_cancel_cuts_off_says_so() -> None:
    """A call in the middle of which the cancel came is unknown; one that was never made was cancelled."""
    script = asked(PUT, MAIL)
    script.attempt()
    script.add(CancelRequested("c", ACTOR))
    assert decide(script.now) == CutCall(script.now.calls[0].intent, "cancelled")
    script.returned(outcome="unknown", code="cancelled", result=None)
    assert decide(script.now) == CloseCall(0, "abandoned", "cancelled")
    script.close(0, "abandoned", "cancelled")
    assert decide(script.now) == CloseCall(1, "cancelled", "cancelled")


# -- failures and limits ---------------------------------------------------------------------------------------------


def failed(script: Script, **fields: Any) -> None:
    error = {"code": "provider_error", "status": 502, "retryable": True, "took": 1} | fields
    script.add(ModelFailed(script.now.open_model, **error))


def test_a_provider_that_fails_is_asked_again_after_a_pause() -> None:
    """Each pause is longer; the provider's own wish counts where it is longer still; then the run fails."""
    script = Script()
    script.think()
    failed(script, retry_after=9_000_000)
    assert decide(script.now) == Wait(script.now.at + 9_000_000)
    for number in range(1, FIRST_MAX_FAILURES):
        until = script.now.at + FIRST_BACKOFF_US[number - 1]
        script.add(WaitBegun("backoff", until))
        assert decide(script.now) is None
        script.add(TimerFired(f"t{number}", until))
        assert decide(script.now) == CallModel(0, number + 1)
        script.think()
        failed(script)
    assert decide(script.now) == Fail("provider_error", 502)


def test_a_fault_that_no_retry_mends_fails_at_once() -> None:
    """A refused key, say."""
    script = Script()
    script.think()
    failed(script, code="provider_unauthorised", status=502, retryable=False)
    assert decide(script.now) == Fail("provider_unauthorised", 502)


def test_corrections_run_out() -> None:
    """One more than allowed fails the run with the fault's code; a usable reply starts the count anew."""
    script = Script(limits=Limits(corrections=1))
    script.think()
    script.fault("reply_empty", "Say something.")
    assert decide(script.now) == CallModel(1, 2)
    script.think()
    script.calls(LOOK)
    script.attempt()
    script.returned(0, 1)
    for _ in range(2):
        script.think()
        script.fault("tool_not_found", "No such tool.")
    assert decide(script.now) == Fail("tool_not_found", 502)


def test_a_fault_of_the_service_fails_the_run_before_another_call_is_made() -> None:
    """The calls left get a result, and the run fails with the fault's code and status."""
    script = asked(LOOK, MAIL)
    script.attempt()
    script.returned(outcome="fault", code="tool_fault", status=500, result=None, shown=None)
    assert decide(script.now) == CloseCall(1, "not_run", "not_run")
    script.close(1, "not_run", "not_run")
    assert decide(script.now) == Fail("tool_fault", 500)


@pytest.mark.parametrize("code", ["deadline_exceeded", "outcome_unknown", "tool_interrupted"])
def test_a_tools_own_code_is_not_ours(code: str) -> None:
    """A tool that fails under a code that the run uses itself has failed, no more."""
    script = asked(LOOK)
    script.attempt()
    script.returned(outcome="failed", code=code, status=504, result=None)
    assert decide(script.now) == CallModel(1, 2)


def test_an_answer_in_hand_is_delivered_though_late() -> None:
    """The deadline ends the asking, not the answer."""
    script = Script(limits=Limits(deadline_ms=1))
    script.think()
    script.final("Late, but here.")
    assert decide(script.now) == Finish(script.now.reply_seq)
