"""How long a run bears with its model: the rules of flags ``retry2`` and ``retry3``, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.commands import JITTER_US, CallModel, Command, CutModel, Fail, Switch, Wait
from devassist.core.decide import MAX_MODEL_CUTS, decide
from devassist.core.event_parts import Limits
from devassist.core.events import RETRY_2, RETRY_3, BreakerSeen, ModelFailed
from devassist.core.patience import (
    BACKOFF_US,
    BREAKER_OPEN,
    BREAKER_WAIT_US,
    MAX_FAILURES,
    NEVER_ELSEWHERE,
    SWITCH_AFTER,
    SWITCH_WAIT_US,
)
from devassist.core.run_state import RunState
from devassist.core.transitions import OVERFLOW
from tests.core.build import Script
from tests.core.failing import FINAL, RETRYABLE, begun, failed, intend, switch, wait_out
from tests.core.steps_to import LOOK

# -- waiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", RETRYABLE)
def test_each_pause_is_longer_and_then_the_run_fails(code: str) -> None:
    """Every kind of failure that may pass is waited out, with the same patience, and the last one is the run's."""
    script, pauses = begun(), list[int]()
    for _ in range(MAX_FAILURES - 1):
        command = failed(script, code)
        pauses.append(wait_out(script, command).until - script.placed[-2][2])
        assert isinstance(decide(script.now), CallModel)
    assert pauses == list(BACKOFF_US)
    assert pauses == sorted(set(pauses))
    assert failed(script, code) == Fail(code, 502)


def test_what_a_provider_asks_for_is_kept_to() -> None:
    """Never earlier than asked, and closely; a shorter wish than the own pause changes nothing."""
    for asked, pause in ((7_000_000, 7_000_000), (1, BACKOFF_US[0]), (0, BACKOFF_US[0])):
        script = begun()
        command = failed(script, "provider_rate_limited", retry_after=asked)
        assert command == Wait(script.now.at + pause, JITTER_US)


def test_own_pauses_are_spread() -> None:
    """Those who failed together do not come back together: up to a quarter of a long pause is left to chance."""
    script = begun()
    for pause in BACKOFF_US:
        command = failed(script)
        assert isinstance(command, Wait)
        assert command.jitter == max(JITTER_US, pause // 4)
        wait_out(script, command)


def test_waits_for_a_provider_are_driven_time() -> None:
    """They count against the deadline, and none is begun that the run would not outlive."""
    script = begun(limits=Limits(deadline_ms=20_000))
    wait_out(script, failed(script, retry_after=15_000_000))
    assert failed(script, retry_after=5_000_000) == Fail("provider_error", 502)
    assert 15_000_000 <= script.now.driven < 16_000_000


def test_a_reply_makes_patience_whole_again() -> None:
    """Failures are counted in a row: after a reply the first pause is short, and all attempts are there."""
    script = begun()
    for _ in range(MAX_FAILURES - 1):
        wait_out(script, failed(script))
    intend(script)
    script.calls(LOOK)
    script.attempt()
    script.returned(0, 1)
    assert failed(script) == Wait(script.now.at + BACKOFF_US[0], JITTER_US)


@pytest.mark.parametrize("code", [*FINAL, *NEVER_ELSEWHERE, OVERFLOW])
def test_what_no_wait_mends_fails_at_once(code: str) -> None:
    """A refused key, a spent quota, a malformed request, a prompt that nothing can be left out of."""
    assert failed(begun(), code) == Fail(code, 502)


def test_a_crash_is_no_failure_of_the_provider() -> None:
    """An attempt that was cut off is made again at once, under a count of its own."""
    script = begun(fallbacks=1)
    for number in range(MAX_MODEL_CUTS):
        assert decide(script.now) == CallModel(0, number + 1)
        intend(script)
        assert decide(script.now) == CutModel(script.now.open_model, "interrupted")
        script.add(ModelFailed(script.now.open_model, "interrupted", 503, True, 0))
    assert decide(script.now) == Fail("model_interrupted", 503)
    assert script.now.failures == 0


# -- another model ---------------------------------------------------------------------------------------------------


def test_the_next_model_is_gone_to_after_some_failures() -> None:
    """Each model has its chances, the last one all of them; no pause comes before the next model's first attempt."""
    script = begun(fallbacks=2)
    for choice in (1, 2):
        for _ in range(SWITCH_AFTER - 1):
            wait_out(script, failed(script))
        assert switch(script, failed(script)) == Switch(choice, "provider_error")
        assert isinstance(decide(script.now), CallModel)
    for _ in range(MAX_FAILURES - 1):
        wait_out(script, failed(script))
    assert failed(script) == Fail("provider_error", 502)


def test_a_long_wish_to_wait_is_a_reason_to_go() -> None:
    """With another model there is no need to wait; a short one is waited out."""
    script = begun(fallbacks=1)
    wait_out(script, failed(script, "provider_rate_limited", retry_after=SWITCH_WAIT_US))
    script = begun(fallbacks=1)
    command = failed(script, "provider_rate_limited", retry_after=SWITCH_WAIT_US + 1)
    assert command == Switch(1, "provider_rate_limited")


def test_without_time_to_wait_the_next_model_is_asked() -> None:
    """Rather than fail, a run whose time is nearly over goes where it need not wait."""
    limits = Limits(deadline_ms=600)
    assert failed(begun(fallbacks=1, limits=limits)) == Switch(1, "provider_error")
    assert failed(begun(limits=limits)) == Fail("provider_error", 502)


@pytest.mark.parametrize("code", FINAL)
def test_a_refusal_sends_the_run_elsewhere_at_once(code: str) -> None:
    """Where no wait helps, another model may."""
    script = begun(fallbacks=1)
    assert switch(script, failed(script, code)).reason == code
    assert failed(script, code) == Fail(code, 502)


@pytest.mark.parametrize("code", sorted(NEVER_ELSEWHERE))
def test_some_failures_are_taken_nowhere_else(code: str) -> None:
    """What a provider's filter blocked is not shown to another, and a run out of time has none for another model."""
    assert failed(begun(fallbacks=1), code) == Fail(code, 502)


def test_a_blocked_reply_is_taken_nowhere_else() -> None:
    """A filter's verdict on a reply that came is final as well."""
    script = begun(fallbacks=1)
    intend(script)
    script.fault("content_filtered", "")
    assert decide(script.now) == Fail("content_filtered", 502)


# -- breakers --------------------------------------------------------------------------------------------------------


def test_an_open_breaker_sends_the_run_elsewhere() -> None:
    """Without an attempt, and once for each model."""
    script = begun(fallbacks=1)
    script.add(BreakerSeen(0, script.now.at + 9_000_000))
    assert switch(script, decide(script.now)) == Switch(1, BREAKER_OPEN)
    assert decide(script.now) == CallModel(0, 1)


def test_an_open_breaker_is_waited_for_without_another_model() -> None:
    """Until it lets an attempt through, again and again, as long as the run's time allows."""
    script = begun(limits=Limits(deadline_ms=30_000))
    for _ in range(3):
        until = script.now.at + 9_000_000
        script.add(BreakerSeen(0, until))
        assert decide(script.now) == Wait(until, JITTER_US, "breaker")
        wait_out(script, decide(script.now))
        assert decide(script.now) == CallModel(0, 1)
    script.add(BreakerSeen(0, script.now.at + 9_000_000))
    assert decide(script.now) == Fail(BREAKER_OPEN, 503)


def test_a_breaker_that_stays_open_for_long_is_not_waited_for() -> None:
    """People hear of it at once; only who is told to wait by the provider itself waits longer."""
    for longer in (0, 1):
        script = begun()
        until = script.now.at + BREAKER_WAIT_US + longer
        script.add(BreakerSeen(0, until), ms=0)
        expected = Fail(BREAKER_OPEN, 503) if longer else Wait(until, JITTER_US, "breaker")
        assert decide(script.now) == expected
    script = begun()
    assert isinstance(failed(script, retry_after=2 * BREAKER_WAIT_US), Wait)


def leave(script: Script, left_us: int) -> Command | None:
    """The breaker of the model in use is seen open, and stays so for a while."""
    script.add(BreakerSeen(script.now.choice, script.now.at + left_us), ms=0)
    return decide(script.now)


LATER = (RETRY_2, RETRY_3)


def test_a_run_goes_back_to_a_model_that_it_never_asked() -> None:
    """The last one is left alone for long, the agent's own only for a moment: that is waited out, then it is asked."""
    script = begun(fallbacks=1, flags=LATER)
    until = script.now.at + 5_000_000
    assert switch(script, leave(script, 5_000_000)) == Switch(1, BREAKER_OPEN)
    command = leave(script, 3 * BREAKER_WAIT_US)
    assert command == Wait(until, JITTER_US, "breaker")
    wait_out(script, command)
    assert isinstance(decide(script.now), CallModel)  # the last one is asked for once more, and still left alone
    assert switch(script, leave(script, 3 * BREAKER_WAIT_US)) == Switch(0, BREAKER_OPEN)
    assert isinstance(decide(script.now), CallModel)
    assert (script.now.choice, script.now.breaker) == (0, None)


def test_a_run_that_began_before_does_not_go_back() -> None:
    """It keeps to its rules: the last model's breaker ends it."""
    script = begun(fallbacks=1)
    switch(script, leave(script, 5_000_000))
    assert leave(script, 3 * BREAKER_WAIT_US) == Fail(BREAKER_OPEN, 503)


def test_a_model_that_failed_a_run_is_not_gone_back_to() -> None:
    """Only one that was left for its breaker, and not asked since, may yet answer; so nobody goes round for ever."""
    script = begun(fallbacks=1, flags=LATER)
    wait_out(script, failed(script))
    switch(script, failed(script))
    assert leave(script, 3 * BREAKER_WAIT_US) == Fail(BREAKER_OPEN, 503)
    script = begun(fallbacks=1, flags=LATER)
    switch(script, leave(script, 1))
    switch(script, leave(script, 3 * BREAKER_WAIT_US))
    assert script.now.choice == 0
    wait_out(script, failed(script))
    switch(script, failed(script))
    assert leave(script, 3 * BREAKER_WAIT_US) == Fail(BREAKER_OPEN, 503)


def test_a_later_model_comes_first_and_one_known_to_be_left_alone_last() -> None:
    """Of three, the middle one is left for long: from the own one the run goes past it."""
    script = begun(fallbacks=2, flags=LATER)
    switch(script, leave(script, 5_000))
    switch(script, leave(script, 3 * BREAKER_WAIT_US))
    assert switch(script, leave(script, 3 * BREAKER_WAIT_US)) == Switch(0, BREAKER_OPEN)
    assert leave(script, 5_000_000) == Wait(script.now.at + 5_000_000, JITTER_US, "breaker")


# -- runs of before --------------------------------------------------------------------------------------------------


@given(st.sampled_from([*RETRYABLE, *FINAL, OVERFLOW]), st.integers(0, 20_000_000))
def test_runs_of_before_keep_their_rules(code: str, retry_after: int) -> None:
    """Without the flag there are two pauses and no other model, whatever the definition names."""
    script, waits = Script("go", fallbacks=2, limits=Limits(deadline_ms=10_000)), 0
    while isinstance(command := failed(script, code, retry_after=retry_after), Wait):
        assert command.until == script.now.at + max((500_000, 2_000_000)[waits], retry_after)
        wait_out(script, command)
        waits += 1
    assert command == Fail(code, 502)
    assert waits == (2 if code in RETRYABLE else 0)
    state: RunState = script.now
    assert state.driven < 1_000_000, "waiting did not count"
