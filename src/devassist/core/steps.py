"""Events to TraceSteps: what stream, API and pages show of a run, one dict a step, every key always present.

A call gives one step, complete once the call is done, in call order; a reply that could not be acted on gives one with
the correction as its error; the final turn gives one when its answer is released. What a gated run has not released
(a refused reply, a raw final reply, what a model wrote after its action) stands in steps for administrators only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from devassist.core.events import (
    CallClosed,
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
from devassist.core.run_state import RunState
from devassist.core.signals import LateOutcome
from devassist.core.transitions import apply
from devassist.core.wire import Cutter, Text, fit

_CLOSED: dict[str, tuple[int, str]] = {
    "cancelled": (409, "The run was cancelled before this call had a result."),
    "approval_rejected": (403, "A person rejected this call."),
    "deadline_exceeded": (504, "The run's time was over before this call had a result."),
    "tool_interrupted": (503, "This call was cut off each time that it was tried."),
    "outcome_unknown": (502, "Whether this call took effect is unknown."),
    "not_run": (409, "The run ended before this call was made."),
}
"""Status and plain words of calls that ended without a result, by code."""
_CLOSING = {"abandoned": "outcome_unknown", "rejected": "approval_rejected"}
_RETRYABLE = frozenset({429, 503})
_FAULT_STATUS = {"tool_not_found": 404, "content_filtered": 502}


@dataclass(frozen=True, slots=True)
class Failing:
    """The error of a step: ``shown`` names the text that the model was told, ``words`` stand where there is none."""

    code: str
    status: int
    retryable: bool
    shown: str | None = None
    words: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A complete step before its texts are read. Times are microseconds; ``took`` is without what a person took to
    answer. ``drop`` characters of the raw text's end are not shown."""

    step: int
    call: int
    started: int
    finished: int
    took: int
    raw: str | None
    thought: str | None = None
    drop: int = 0
    tool: str | None = None
    args: str | None = None
    result: str | None = None
    shown: str | None = None
    error: Failing | None = None
    in_doubt: bool = False


def tool_error(event: ToolReturned | LateOutcome) -> Failing | None:
    """What an outcome says went wrong, or None."""
    if event.outcome == "result":
        return None
    status = event.status if isinstance(event, ToolReturned) else 0
    retry = event.outcome == "retry"
    code = event.code or ("tool_retry" if retry else "tool_failed")
    status = status or _CLOSED.get(code, (400, ""))[0]
    return Failing(code, status, retry or status in _RETRYABLE, event.shown)


def closed_error(event: CallClosed) -> Failing | None:
    """Why a call ended without a result, or None where a person said that it happened."""
    if event.closing == "happened":
        return None
    code = event.code or _CLOSING.get(event.closing, event.closing)
    status, words = _CLOSED.get(code, (400, code))
    return Failing(code, status, False, event.shown, words)


class StepBuilder:
    """Turns events into steps, one at a time. ``admin`` is shown what a gated run did not release."""

    def __init__(self, text: Text, *, admin: bool = False) -> None:
        self._text = text
        self._admin = admin
        self._gated = False
        self._thought_at = 0
        self._reply: ModelReplied | None = None
        self._step = 0
        self._begin_calls()

    def _begin_calls(self) -> None:
        self._first: dict[int, int] = {}
        self._attempts: dict[int, int] = {}
        self._held_at: dict[int, int] = {}
        self._held_for: dict[int, int] = {}
        self._args: dict[int, str] = {}
        self._doubts: set[int] = set()
        self._done: set[int] = set()
        self._ready: dict[int, Turn] = {}
        self._next = 0

    def feed(self, event: Event, seq: int, at: int, state: RunState) -> list[dict[str, Any]]:
        """Steps that ``event`` at ``seq`` completes; ``state`` is the run's state after it."""
        return [self.render(turn) for turn in self.turns(event, at, state)]

    def turns(self, event: Event, at: int, state: RunState) -> list[Turn]:
        """As ``feed``, without reading a text."""
        match event:
            case RunStarted():
                self._gated = event.release == "gated"
            case ModelIntended():
                self._thought_at, self._step, self._reply = at, event.step, None
                self._begin_calls()
            case ModelReplied():
                self._reply = event
                if event.decision == "fault":
                    return [self._fault(event, at)]
            case ToolIntended():
                if event.call in self._first:
                    self._held_for[event.call] = self._held(event.call, at)
                self._held_at.pop(event.call, None)
                self._first.setdefault(event.call, at)
                self._attempts[state.seq] = event.call
                self._args[event.call] = event.args
            case Held():
                self._held_at[event.call] = at
            case RunFinished():
                return self._final(event, at)
            case _:
                pass
        return self._calls(event, at, state)

    def _fault(self, reply: ModelReplied, at: int) -> Turn:
        code = reply.code or "model_fault"
        corrected = code != "content_filtered"
        error = Failing(code, _FAULT_STATUS.get(code, 400), corrected, reply.correction)
        raw = None if self._gated and not self._admin else reply.native or reply.reply
        return Turn(self._step, 0, self._thought_at, at, reply.took, raw, reply.thought, tool=reply.tool, error=error)

    def _final(self, event: RunFinished, at: int) -> list[Turn]:
        reply = self._reply
        if reply is None:
            return []
        released = self._gated and not self._admin
        raw = event.answer if released else reply.reply
        return [Turn(self._step, 0, self._thought_at, at, reply.took, raw, reply.thought)]

    def _calls(self, event: Event, at: int, state: RunState) -> list[Turn]:
        """Note which calls are done after ``event``; give those that no earlier open call holds back."""
        reply = self._reply
        if reply is None or reply.decision != "calls":
            return []
        for index in self._touched(event, state):
            call = state.calls[index]
            if call.phase == "doubt":
                self._doubts.add(index)
            if index not in self._done and (call.phase == "done" or state.closed):
                self._done.add(index)
                complete = self._complete if call.phase == "done" else self._left
                self._ready[index] = complete(reply, index, event, at)
        given: list[Turn] = []
        while (turn := self._ready.pop(self._next, None)) is not None:
            given.append(turn)
            self._next += 1
        return given

    def _touched(self, event: Event, state: RunState) -> Iterable[int]:
        """The calls that ``event`` may have ended or left in doubt: one at the most, all of them at the run's end."""
        if state.closed:
            return range(len(state.calls))
        match event:
            case CallClosed():
                return (event.call,)
            case ToolReturned() | LateOutcome():
                index = self._attempts.get(event.of)
                return () if index is None else (index,)
            case _:
                return ()

    def _held(self, index: int, at: int) -> int:
        """How long a call that was begun has waited for a person by now."""
        return self._held_for.get(index, 0) + at - self._held_at.get(index, at)

    def _complete(self, reply: ModelReplied, index: int, event: Event, at: int) -> Turn:
        if isinstance(event, CallClosed):
            unsettled = index in self._doubts and event.closing != "happened"
            return self._turn(reply, index, at, event, closed_error(event), in_doubt=unsettled)
        if isinstance(event, ToolReturned | LateOutcome):
            return self._turn(reply, index, at, event, tool_error(event))
        return self._turn(reply, index, at, None, None)

    def _left(self, reply: ModelReplied, index: int, event: Event, at: int) -> Turn:
        """A call that has no outcome when its run ends."""
        status, words = _CLOSED["not_run"]
        error = Failing("not_run", status, False, None, words)
        if isinstance(event, RunFailed):
            error = Failing(event.code, event.status, False, event.message, words)
        return self._turn(reply, index, at, None, error, in_doubt=index in self._doubts)

    def _turn(
        self, reply: ModelReplied, index: int, at: int, event: ToolReturned | LateOutcome | CallClosed | None,
        error: Failing | None, *, in_doubt: bool = False,
    ) -> Turn:  # fmt: skip
        call, started = reply.calls[index], self._first.get(index, at)
        hidden = self._gated and not self._admin
        took = at - started - self._held(index, at) if index in self._first else 0
        return Turn(
            self._step, index, started, at, took, reply.native or reply.reply, reply.thought,
            reply.discarded if hidden and reply.native is None else 0, call.tool, self._args.get(index, call.args),
            event.result if event else None, event.shown if event else None, error, in_doubt,
        )  # fmt: skip

    def render(self, turn: Turn) -> dict[str, Any]:
        """The step of ``turn``, its texts read and cut to fit a message."""
        texts = {ref: self._text(ref) for ref in _refs(turn)}

        def build(cut: Cutter, left_out: int) -> dict[str, Any]:
            def text(ref: str | None, path: str, drop: int = 0) -> str | None:
                whole = texts[ref] if ref else None
                return cut.text(whole[:-drop] if whole and drop else whole, path, ref)

            def value(ref: str | None, path: str, rank: int) -> Any:
                return cut.json(texts[ref] if ref else None, path, ref, leave_out=left_out >= rank)

            return {
                "step_index": turn.step,
                "call_index": turn.call,
                "thought": text(turn.thought, "/thought"),
                "action_raw": text(turn.raw, "/action_raw", turn.drop),
                "tool_name": cut.text(turn.tool, "/tool_name", turn.raw),
                "tool_args": value(turn.args, "/tool_args", 2),
                "observation": value(turn.result, "/observation", 1),
                "observation_text": text(turn.shown, "/observation_text"),
                "error": None if turn.error is None else _error(turn.error, text),
                "started_at_ms": turn.started // 1000,
                "finished_at_ms": turn.finished // 1000,
                "latency_ms": turn.took // 1000,
                "in_doubt": turn.in_doubt,
                "truncated": cut.cuts,
            }

        return fit(build)


def _error(error: Failing, text: Any) -> dict[str, Any]:
    message = text(error.shown, "/error/message") if error.shown else error.words
    return {"code": error.code, "message": message, "retryable": error.retryable, "status": error.status}


def _refs(turn: Turn) -> set[str]:
    refs = {turn.raw, turn.thought, turn.args, turn.result, turn.shown, turn.error.shown if turn.error else None}
    return {ref for ref in refs if ref is not None}


def steps(events: Iterable[tuple[Event, int, int]], text: Text, *, admin: bool = False) -> list[dict[str, Any]]:
    """The complete steps of (event, seq, at) triples from INIT on. Raises IllegalTransition."""
    builder, state, found = StepBuilder(text, admin=admin), None, list[dict[str, Any]]()
    for event, seq, at in events:
        state = apply(state, event, seq, at)
        found += builder.feed(event, seq, at, state)
    return found


def admin_only(events: Iterable[Event]) -> frozenset[str]:
    """References that only administrators may read: reasoning, what a gated run did not release, how a search went
    (it tells how much was withheld) and what became of sentences that were left out."""
    hidden, shown, gated = set[str | None](), set[str | None](), False
    for event in events:
        if isinstance(event, RunStarted):
            gated = event.release == "gated"
        elif isinstance(event, ModelReplied):
            hidden.add(event.reasoning)
            shown |= {event.thought, event.correction, *(c.args for c in event.calls)}
            if gated and (event.decision != "calls" or event.discarded):
                hidden |= {event.reply, event.native, event.answer}
        elif isinstance(event, ToolReturned | LateOutcome):
            hidden.add(event.retrieval)
        elif isinstance(event, RunFinished):
            hidden.add(event.checks)
            shown |= {event.answer, event.output}
    return frozenset(ref for ref in hidden - shown if ref is not None)
