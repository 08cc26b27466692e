"""``fold``: what a run is, computed from its events and nothing else.

``apply(state, event)`` returns the next RunState or raises IllegalTransition and changes nothing. Times are those that
the events carry. ``fold(a + b) == fold(b, fold(a))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from devassist.core.errors import IllegalTransition
from devassist.core.events import (
    RETRY_2,
    BreakerSeen,
    CallClosed,
    Event,
    Held,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    ModelSwitched,
    RunStarted,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.holds import doubt_digest
from devassist.core.run_state import CUT_OFF, CallPhase, CallState, Entry, RunState
from devassist.core.signals import (
    SIGNALS,
    ApprovalGiven,
    CancelRequested,
    LateOutcome,
    RunRestored,
    SettlementGiven,
    TimerFired,
)
from devassist.core.states import TABLE, State

OVERFLOW = "context_length_exceeded"
"""The code of an attempt whose prompt the model's context did not hold."""


def apply(state: RunState | None, event: Event, seq: int, at: int) -> RunState:
    """The state after ``event`` stood at ``seq`` and ``at``. Raises IllegalTransition; the given state is untouched."""
    if state is None:
        if not isinstance(event, RunStarted) or seq != 0:
            raise IllegalTransition(f"a run begins with run_started at seq 0, not with {event.kind} at {seq}")
        return RunState(started=event, state=State.INIT, seq=0, at=at, transcript=(Entry("user", 0, event.message),))
    target = TABLE.get((state.state, event.kind))
    if target is None:
        raise IllegalTransition(f"{event.kind} is not legal in {state.state} (seq {seq})")
    if seq != state.seq + 1 or at < state.at:
        raise IllegalTransition(f"{event.kind} stands at seq {seq}, time {at}, after seq {state.seq}, time {state.at}")
    return _APPLY[event.kind](state, event, target, seq, at)


def fold(events: Iterable[tuple[Event, int, int]], state: RunState | None = None) -> RunState | None:
    """Fold (event, seq, at) triples onto ``state``."""
    for event, seq, at in events:
        state = apply(state, event, seq, at)
    return state


def _driven(state: RunState, at: int, epoch: int) -> int:
    """Driven time so far: people, children and the gap before a takeover do not count; waiting for a provider does."""
    if state.provider_wait:
        return state.driven + max(min(at, state.wait_until) - state.moved, 0)
    if state.state in (State.LLM_DECIDE, State.TOOL_EXECUTE) and epoch == state.epoch:
        return state.driven + at - state.moved
    return state.driven


def _own(state: RunState, target: State, seq: int, at: int, **changes: Any) -> RunState:
    """An owner event: moves the state and clears the wake-up that it answers. ``cut``: it only records that an attempt
    was cut off, maybe long before and by another owner, so the time until now was not driven."""
    epoch = changes.pop("epoch", state.epoch)
    if epoch < state.epoch:
        raise IllegalTransition(f"epoch {epoch} at seq {seq} is older than {state.epoch}")
    driven = state.driven if changes.pop("cut", False) else _driven(state, at, epoch)
    changes.update(
        state=target, seq=seq, at=at, driven=driven, moved=at, epoch=epoch, wake_at=-1, provider_wait=False
    )  # fmt: skip
    return state.having(changes)


def _need(condition: bool, message: str, *values: object) -> None:
    """``values`` are set into ``message`` only where it is needed."""
    if not condition:
        raise IllegalTransition(message.format(*values))


def _model_intended(s: RunState, e: ModelIntended, target: State, seq: int, at: int) -> RunState:
    _need(s.open_model < 0, "model_intended at {}: the attempt of seq {} is open", seq, s.open_model)
    _need(all(c.phase == "done" for c in s.calls), "model_intended at {}: a call has no result", seq)
    _need(e.attempt == s.attempts + 1, "model_intended at {}: attempt {} after {}", seq, e.attempt, s.attempts)
    transcript = s.transcript
    if e.history:
        past = tuple(Entry("past", seq, p.ref, p.role) for p in e.history)
        transcript = past + transcript
    return _own(
            s, target, seq, at, epoch=e.epoch, step=e.step, attempts=e.attempt, model=e.model, model_kind=e.model_kind,
            open_model=seq, base=seq, transcript=transcript, reply=None, reply_seq=-1, calls=(),
            wait_until=-1, timer=-1, choice=e.choice, asked=e.tokens, left_out=_left_out(transcript, e), breaker=None,
            inherited=s.inherited + e.doubts, left_alone=_others(s, e.choice) if s.left_alone else (),
        )  # fmt: skip


def _left_out(transcript: tuple[Entry, ...], e: ModelIntended) -> int:
    """How many entries a prompt left out."""
    if not e.left:
        return e.left_history
    first, end = e.left
    return e.left_history + sum(first <= x.seq < end and x.role not in ("past", "user") for x in transcript)


def _model_replied(s: RunState, e: ModelReplied, target: State, seq: int, at: int) -> RunState:
    _need(e.of == s.open_model, "model_replied at {} is of {}, the open attempt is {}", seq, e.of, s.open_model)
    name = "fault" if e.decision == "fault" else ""
    transcript = (*s.transcript, Entry("reply", seq, e.reply, name, e.native, s.step, e.discarded))
    corrections = 0
    if e.decision == "fault":
        corrections = s.corrections + 1
        if e.correction is not None:
            transcript = (*transcript, Entry("correction", seq, e.correction, "", None, s.step))
    return _own(
        s, target, seq, at, open_model=-1, reply=e, reply_seq=seq, last_failure=None, failures=0, cuts=0, overflows=0,
        corrections=corrections, calls=tuple(CallState(c) for c in e.calls), transcript=transcript,
        input_tokens=s.input_tokens + e.input_tokens, output_tokens=s.output_tokens + e.output_tokens,
        cost=_add(s.cost, e.cost),
    )  # fmt: skip


def _model_failed(s: RunState, e: ModelFailed, target: State, seq: int, at: int) -> RunState:
    _need(e.of == s.open_model, "model_failed at {} is of {}, the open attempt is {}", seq, e.of, s.open_model)
    cut = e.code == CUT_OFF
    # A prompt that was too long says nothing of the provider: it is made shorter, and the failures are not counted.
    overflow = e.code == OVERFLOW and RETRY_2 in s.started.flags
    return _own(
        s, target, seq, at, cut=cut, open_model=-1, last_failure=e, failures=s.failures + (not cut and not overflow),
        cuts=s.cuts + cut, overflows=s.overflows + overflow, ceiling=s.asked * 3 // 5 if overflow else s.ceiling,
        input_tokens=s.input_tokens + e.input_tokens, output_tokens=s.output_tokens + e.output_tokens,
        cost=_add(s.cost, e.cost),
    )  # fmt: skip


def _add(cost: int, more: int) -> int:
    return cost if more < 0 else max(cost, 0) + more


def _model_switched(s: RunState, e: ModelSwitched, target: State, seq: int, at: int) -> RunState:
    _no_attempt(s, e, seq)
    return _own(
        s, target, seq, at, model=e.model, model_kind=e.model_kind, failures=0, last_failure=None, overflows=0,
        ceiling=0, breaker=None, choice=e.choice if e.choice >= 0 else s.choice,
    )  # fmt: skip


def _breaker_seen(s: RunState, e: BreakerSeen, target: State, seq: int, at: int) -> RunState:
    _no_attempt(s, e, seq)
    left_alone = (*_others(s, e.choice), (e.choice, e.until))
    return _own(s, target, seq, at, breaker=e, left_alone=left_alone, wait_until=-1, timer=-1)


def _others(s: RunState, choice: int) -> tuple[tuple[int, int], ...]:
    """What is known of the breakers of other models."""
    return tuple(known for known in s.left_alone if known[0] != choice)


def _with_call(s: RunState, index: int, new: CallState) -> tuple[CallState, ...]:
    return (*s.calls[:index], new, *s.calls[index + 1 :])


def _open_call(s: RunState, decision: int, index: int, seq: int) -> CallState:
    there = decision == s.reply_seq and 0 <= index < len(s.calls)
    _need(there, "seq {}: no call {} of decision {}", seq, index, decision)
    call = s.calls[index]
    _need(call.phase != "done", "seq {}: call {} of decision {} is closed", seq, index, decision)
    return call


def _tool_intended(s: RunState, e: ToolIntended, target: State, seq: int, at: int) -> RunState:
    c = _open_call(s, e.decision, e.call, seq)
    _need(c.phase != "running", "tool_intended at {}: an attempt of call {} is open", seq, e.call)
    _need(e.attempt == c.attempts + 1, "tool_intended at {}: attempt {} after {}", seq, e.attempt, c.attempts)
    approved = c.approved or c.answer == "approve"
    new = CallState(
        c.call._replace(args=e.args), "running", seq, e.attempt, approved=approved, deadline=e.deadline
    )  # fmt: skip
    first = c.attempts == 0
    return _own(
        s, target, seq, at, epoch=e.epoch, calls=_with_call(s, e.call, new), tool_calls=s.tool_calls + first,
        doubts=_settled(s, c.intent), wait_until=-1, timer=-1,
    )  # fmt: skip


def _tool_returned(s: RunState, e: ToolReturned, target: State, seq: int, at: int) -> RunState:
    index = next((i for i, c in enumerate(s.calls) if c.intent == e.of and c.phase == "running"), -1)
    _need(index >= 0, "tool_returned at {} is of {}, which is not an open attempt", seq, e.of)
    return _outcome(s, index, e, target, seq, at)


def _outcome(
    s: RunState, index: int, e: ToolReturned | LateOutcome, target: State, seq: int, at: int
) -> RunState:  # fmt: skip
    c = s.calls[index]
    phase: CallPhase = "done"
    if e.outcome == "unknown":
        phase = "doubt" if c.call.effect == "once" else "interrupted"
    elif e.outcome == "needs_approval":
        phase = "held"
    fault = 0
    if e.outcome == "fault":
        fault = (e.status if isinstance(e, ToolReturned) else 0) or 500
    new = c._replace(phase=phase, code=e.code, digest=None, fault=fault)
    transcript = s.transcript
    if phase == "done" and e.shown is not None:
        transcript = _observed(s, seq, e.shown, index)
    doubts = _settled(s, c.intent)
    if phase == "doubt":
        doubts = (*doubts, (c.call.tool, c.intent))
    return _own(
        s, target, seq, at, cut=e.code == CUT_OFF, calls=_with_call(s, index, new), transcript=transcript, doubts=doubts
    )  # fmt: skip


def _settled(s: RunState, intent: int) -> tuple[tuple[str, int], ...]:
    """The open doubts without that of an attempt."""
    return tuple(d for d in s.doubts if d[1] != intent)


def _observed(s: RunState, seq: int, shown: str, index: int) -> tuple[Entry, ...]:
    """The transcript with one more observation: shown in call order, whatever the order of arrival."""
    call = s.calls[index].call
    new = Entry("observation", seq, shown, call.tool, call.native_id, s.step, call=index)
    place = len(s.transcript)
    while place and s.transcript[place - 1].call > index and s.transcript[place - 1].step == s.step:
        place -= 1
    return (*s.transcript[:place], new, *s.transcript[place:])


def _call_closed(s: RunState, e: CallClosed, target: State, seq: int, at: int) -> RunState:
    c = _open_call(s, e.decision, e.call, seq)
    _need(c.phase != "running", "call_closed at {}: the attempt of call {} has no outcome", seq, e.call)
    transcript = s.transcript if e.shown is None else _observed(s, seq, e.shown, e.call)
    new = c._replace(phase="done", code=e.code, digest=None, answer=None, closing=e.closing)
    doubts = _settled(s, c.intent) if e.closing == "happened" else s.doubts
    return _own(s, target, seq, at, calls=_with_call(s, e.call, new), transcript=transcript, doubts=doubts)


def _held(s: RunState, e: Held, target: State, seq: int, at: int) -> RunState:
    c = _open_call(s, e.decision, e.call, seq)
    _no_attempt(s, e, seq)
    return _own(s, target, seq, at, calls=_with_call(s, e.call, c._replace(digest=e.digest, answer=None)))


def _wait_begun(s: RunState, e: WaitBegun, target: State, seq: int, at: int) -> RunState:
    _no_attempt(s, e, seq)
    for_provider = e.reason != "child" and RETRY_2 in s.started.flags
    moved = _own(s, target, seq, at, wait_until=e.until, timer=-1, breaker=None)
    return moved._replace(wake_at=e.until, provider_wait=for_provider)


def _ended(s: RunState, e: Event, target: State, seq: int, at: int) -> RunState:
    _no_attempt(s, e, seq)
    return _own(s, target, seq, at)


def _no_attempt(s: RunState, e: Event, seq: int) -> None:
    _need(s.open_model < 0, "{} at {}: the model attempt of seq {} has no outcome", e.kind, seq, s.open_model)
    _need(all(c.phase != "running" for c in s.calls), "{} at {}: a tool attempt has no outcome", e.kind, seq)


def _signal(s: RunState, e: Event, target: State, seq: int, at: int) -> RunState:
    moved = s._replace(seq=seq, at=at, wake_at=at)
    match e:
        case CancelRequested():
            return moved._replace(cancel=s.cancel or e.signal_id)
        case TimerFired():
            return moved._replace(timer=max(s.timer, e.until))
        case ApprovalGiven():
            return _answered(moved, e.digest, e.decision, e.args)
        case SettlementGiven():
            told = tuple(d for d in s.doubts if e.outcome == "repeat" or doubt_digest(s.started, d[1]) != e.digest)
            return _answered(moved, e.digest, e.outcome, e.result)._replace(doubts=told)
        case RunRestored():
            # What a person said before may have been done already in the time that is not on record.
            asked = tuple(c._replace(answer=None, answer_ref=None) if c.digest else c for c in s.calls)
            return moved._replace(restored=True, calls=asked)
        case LateOutcome():
            index = next((i for i, c in enumerate(s.calls) if c.intent == e.of), -1)
            open_phases = ("running",) if e.outcome == "unknown" else ("running", "doubt", "interrupted")
            if index >= 0 and s.calls[index].phase in open_phases:
                settled = _outcome(moved, index, e, target, seq, at)
                return settled._replace(wake_at=at)
            return moved if e.outcome == "unknown" else moved._replace(doubts=_settled(s, e.of))
        case _:
            return moved


def _answered(s: RunState, digest: str, answer: str, ref: str | None) -> RunState:
    """Binds once: an answer whose digest matches no open hold, or comes second, changes nothing."""
    for index, c in enumerate(s.calls):
        if c.digest == digest and c.answer is None:
            return s._replace(calls=_with_call(s, index, c._replace(answer=answer, answer_ref=ref)))
    return s


_APPLY: dict[str, Callable[[RunState, Any, State, int, int], RunState]] = {
    "model_intended": _model_intended, "model_replied": _model_replied, "model_failed": _model_failed,
    "model_switched": _model_switched, "breaker_seen": _breaker_seen, "tool_intended": _tool_intended,
    "tool_returned": _tool_returned, "call_closed": _call_closed, "held": _held, "wait_begun": _wait_begun,
    "run_finished": _ended, "run_failed": _ended, "run_aborted": _ended, **dict.fromkeys(SIGNALS, _signal),
}  # fmt: skip
