"""How long a run bears with a model that gives no reply: wait, make the prompt shorter, go to another model, give up.

Pure. A run keeps to the rules that it began under: those of flags ``retry2`` and ``retry3``, or the first ones without.
"""

from __future__ import annotations

from devassist.core.commands import JITTER_US, Command, Fail, Switch, Wait
from devassist.core.events import RETRY_2, RETRY_3, BreakerSeen, ModelFailed
from devassist.core.prompt import droppable
from devassist.core.run_state import CUT_OFF, RunState
from devassist.core.states import State
from devassist.core.transitions import OVERFLOW

MAX_FAILURES = 5
"""Attempts in a row without a usable reply from one model, before the run fails."""
SWITCH_AFTER = 2
"""Attempts in a row, before a run goes to the next fallback model, if it has one."""
SWITCH_WAIT_US = 5_000_000
"""A provider that asks for a longer wait than this is left at once, if there is another."""
BACKOFF_US = (500_000, 1_500_000, 4_500_000, 12_000_000)
MAX_OVERFLOWS = 2
"""Times that a prompt is made shorter in a row."""
BREAKER_OPEN = "provider_circuit_open"
BREAKER_WAIT_US = 60_000_000
"""An endpoint that is left alone for longer than this is not waited for: who asks is better told so at once."""
NEVER_ELSEWHERE = frozenset({"content_filtered", "deadline_exceeded"})
"""What no other model is asked after: a refusal on grounds of content is not to be got round."""

FIRST_MAX_FAILURES = 3
FIRST_BACKOFF_US = (500_000, 2_000_000, 8_000_000)


def after_failure(state: RunState) -> Command | None:
    """What follows from the latest attempt's failure, or from an open breaker; None: an attempt is due.

    A run without another model to go to waits for its own, as long as its time allows and the wait is not too long.
    """
    if RETRY_2 not in state.started.flags:
        return _first_rules(state)
    seen = state.breaker
    if seen is not None:
        return _left_alone(state, seen)
    failure = state.last_failure
    if failure is None or failure.code == CUT_OFF or state.state is State.WAIT:
        return None
    if failure.code == OVERFLOW:
        if state.overflows <= MAX_OVERFLOWS and droppable(state.transcript) > state.left_out:
            return None
        return _elsewhere(state, failure)
    if not failure.retryable:
        return _elsewhere(state, failure)
    if _next(state) is not None and (state.failures >= SWITCH_AFTER or failure.retry_after > SWITCH_WAIT_US):
        return _elsewhere(state, failure)
    if state.failures >= MAX_FAILURES:
        return Fail(failure.code, failure.status)
    pause = max(BACKOFF_US[min(state.failures, len(BACKOFF_US)) - 1], failure.retry_after)
    # A wait that was asked for is kept to closely; one of our own is spread, or all who failed would come back at once.
    jitter = JITTER_US if failure.retry_after == pause else max(JITTER_US, pause // 4)
    return _wait(state, Wait(state.at + pause, jitter), failure.code, failure.status)


def _left_alone(state: RunState, seen: BreakerSeen) -> Command:
    """Another model that may be asked now, a later one first; else a wait for the first that may be."""
    known = dict(state.left_alone) if RETRY_3 in state.started.flags else {seen.choice: seen.until}
    others = [*range(state.choice + 1, state.started.fallbacks + 1), *sorted(c for c in known if c < state.choice)]
    free = next((choice for choice in others if known.get(choice, 0) <= state.at), None)
    if free is not None:
        return Switch(free, BREAKER_OPEN)
    soonest = min(known.values())
    if soonest - state.at > BREAKER_WAIT_US:
        return Fail(BREAKER_OPEN, 503)
    return _wait(state, Wait(soonest, JITTER_US, "breaker"), BREAKER_OPEN, 503)


def _next(state: RunState) -> int | None:
    """The fallback to go to."""
    return state.choice + 1 if state.choice < state.started.fallbacks else None


def _elsewhere(state: RunState, failure: ModelFailed) -> Command:
    following = None if failure.code in NEVER_ELSEWHERE else _next(state)
    return Fail(failure.code, failure.status) if following is None else Switch(following, failure.code)


def _wait(state: RunState, wait: Wait, code: str, status: int) -> Command:
    """No wait is begun that may end when the run may not go on: rather another model now, or the failure itself."""
    left = state.started.limits.deadline_ms * 1000 - state.driven
    if wait.until + wait.jitter - state.at < left:
        return wait
    following = _next(state)
    return Fail(code, status) if following is None else Switch(following, code)


def _first_rules(state: RunState) -> Command | None:
    failure = state.last_failure
    if failure is None or failure.code == CUT_OFF or state.state is State.WAIT:
        return None
    if not failure.retryable or state.failures >= FIRST_MAX_FAILURES:
        return Fail(failure.code, failure.status)
    pause = max(FIRST_BACKOFF_US[min(state.failures, len(FIRST_BACKOFF_US)) - 1], failure.retry_after)
    return Wait(state.at + pause)
