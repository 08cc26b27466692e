"""``decide``: the one pure function that says what a run does next.

It looks at a RunState only and compares recorded times only, so the same record always gives the same command: a fresh
start, a resume after a crash and a replay are one thing.
"""

from __future__ import annotations

from devassist.core.commands import (
    Abort,
    CallModel,
    CallTools,
    CloseCall,
    Command,
    CutCall,
    CutModel,
    Fail,
    Finish,
    Hold,
    Wait,
)
from devassist.core.event_parts import Closing
from devassist.core.holds import hold_digest
from devassist.core.patience import after_failure
from devassist.core.run_state import CUT_OFF, CallState, RunState
from devassist.core.states import State

MAX_MODEL_CUTS = 6
"""Model attempts in a row that were cut off (crashes), before the run fails."""
MAX_INTERRUPTIONS = 3
"""Attempts of a repeatable call that were cut off, before the model is told that it fails."""
INTERRUPTED = CUT_OFF
UNKNOWN = "outcome_unknown"


def decide(state: RunState) -> Command | None:
    """The next command, or None when the run is closed or waits for something that is not recorded yet.

    Never called while an effect of this driver is under way: an open attempt means that it was cut off.
    """
    if state.closed:
        return None
    if state.open_model >= 0:
        return CutModel(state.open_model, "cancelled" if state.cancel else INTERRUPTED)
    for c in state.calls:
        if c.phase == "running":
            return CutCall(c.intent, "cancelled" if state.cancel else INTERRUPTED)
    if state.cancel is not None:
        return _cancel(state)
    if state.state is State.WAIT and state.timer < state.wait_until:
        return None
    if any(c.phase != "done" for c in state.calls):
        return _calls(state)
    return _think(state)


def _cancel(state: RunState) -> Command:
    """Every open call gets a result, then the run ends."""
    for index, c in enumerate(state.calls):
        if c.phase != "done":
            return _close(index, c, "cancelled", "cancelled")
    return Abort("cancelled")


def _close(index: int, c: CallState, closing: Closing, code: str) -> CloseCall:
    """End a call as ``closing``, unless an attempt of it may have taken effect."""
    unknown = c.phase == "doubt" or (c.phase == "interrupted" and c.call.effect != "pure")
    return CloseCall(index, "abandoned" if unknown else closing, code)


def _given_up(state: RunState) -> bool:
    """Whether a person gave a call up, which ends the run as failed. Where doubts are told it is the model's turn."""
    return state.started.on_unknown == "hold" and any(
        c.closing == "abandoned" and c.code == UNKNOWN for c in state.calls
    )


def _calls(state: RunState) -> Command | None:
    """Calls of one decision run in call order; together only where the agent allows it and all are pure. None is begun
    once the run is bound to fail."""
    if any(c.fault for c in state.calls) or _given_up(state):
        index, c = next((i, c) for i, c in enumerate(state.calls) if c.phase != "done")
        return _close(index, c, "not_run", "not_run")
    ready: list[int] = []
    together = state.started.parallel and all(c.call.effect == "pure" for c in state.calls)
    for index, c in enumerate(state.calls):
        if c.phase == "done":
            continue
        if c.phase == "asked" and together:
            ready.append(index)
            continue
        if ready:
            break
        return _call(state, index, c)
    return CallTools(tuple(ready)) if _in_time(state) else CloseCall(ready[0], "not_run", "deadline_exceeded")


def _call(state: RunState, index: int, c: CallState) -> Command | None:
    if c.phase == "interrupted":
        if c.attempts >= MAX_INTERRUPTIONS:
            return _close(index, c, "not_run", "tool_interrupted")
    elif c.phase == "doubt":
        return _doubt(state, index, c)
    elif c.phase == "held":
        return _approval(state, index, c)
    if not _in_time(state):
        return _close(index, c, "not_run", "deadline_exceeded")
    if c.answer is not None or _needs_person(state, c):  # what was rejected stays so, whatever else is settled since
        return _approval(state, index, c)
    return CallTools((index,))


def _needs_person(state: RunState, c: CallState) -> bool:
    """Whether a call may only be made once a person approved it: while a doubt about its tool is open, and where its
    effect may lie in time that is not on record."""
    if c.approved:
        return False
    if state.restored and c.call.effect == "once":
        return True
    told = state.doubts if state.started.on_unknown == "tell" else ()
    return c.call.tool in state.inherited or any(tool == c.call.tool for tool, _ in told)


def _doubt(state: RunState, index: int, c: CallState) -> Command | None:
    if state.started.on_unknown == "tell" and not state.restored:
        return CloseCall(index, "abandoned", UNKNOWN)
    match c.answer:
        case "happened":
            return CloseCall(index, "happened", "settled")
        case "repeat":
            # Cut off, it may still be under way somewhere, until its deadline.
            still = c.code == INTERRUPTED and max(state.at, state.timer) < c.deadline
            return Wait(c.deadline) if still else CallTools((index,))
        case "abandon":
            return CloseCall(index, "abandoned", UNKNOWN)
        case _:
            return None if c.digest else Hold(index, "settlement", hold_digest(state, index))


def _approval(state: RunState, index: int, c: CallState) -> Command | None:
    match c.answer:
        case "approve":
            return CallTools((index,))
        case "reject":
            return CloseCall(index, "rejected", "approval_rejected")
        case _:
            return None if c.digest else Hold(index, "approval", hold_digest(state, index))


def _in_time(state: RunState) -> bool:
    return state.driven < state.started.limits.deadline_ms * 1000


def _think(state: RunState) -> Command:
    """No call is open: answer, give up, or ask the model."""
    limits = state.started.limits
    reply = state.reply
    if reply is not None and reply.decision == "final":
        return Finish(state.reply_seq)  # an answer in hand is never thrown away, late or not
    if not _in_time(state):
        return Fail("deadline_exceeded", 504)
    broken = next((c for c in state.calls if c.fault), None)
    if broken is not None:
        return Fail(broken.code or "service_fault", broken.fault)
    if _given_up(state):
        return Fail(UNKNOWN, 502)
    out_of_patience = state.corrections > limits.corrections
    if reply is not None and reply.decision == "fault" and (reply.code == "content_filtered" or out_of_patience):
        return Fail(reply.code or "model_fault", 502)
    command = after_failure(state)
    if command is not None:
        return command
    if state.cuts >= MAX_MODEL_CUTS:
        return Fail("model_interrupted", 503)
    step = state.step + 1 if reply is not None or state.step < 0 else state.step
    if step >= limits.steps:
        return Fail("step_limit", 422)
    if state.input_tokens + state.output_tokens >= limits.tokens:
        return Fail("token_limit", 422)
    if 0 <= limits.cost <= state.cost:
        return Fail("cost_limit", 422)
    return CallModel(step, state.attempts + 1)
