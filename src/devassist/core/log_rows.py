"""Rows of the decision log: what one event says in columns, given where its run stands.

Pure: ``log_row`` takes an event and the run's ``RunContext`` and returns the row, with references in place of texts,
and the context for the next event. It needs no full fold, so a follower can carry thousands of runs along. A row's
``metadata`` is the recorded body without the fields that have a column of the same value (``COLUMN_FIELDS``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from devassist.core.events import (
    ApprovalGiven,
    CallClosed,
    ChildFinished,
    Event,
    Held,
    LateOutcome,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    RunFailed,
    RunFinished,
    RunStarted,
    SettlementGiven,
    ToolIntended,
    ToolReturned,
)
from devassist.core.states import TABLE, State

COLUMN_FIELDS = ("agent", "code", "conversation", "k", "step", "tenant", "tool")
"""Body fields that a column of the log repeats; all others, references among them, are the row's metadata."""
INPUT_CHARS, OUTPUT_CHARS, MESSAGE_CHARS = 1_000, 4_000, 2_000
"""How much of a text the columns input_text, output_text and error_message show."""


class RunContext(NamedTuple):
    """What the rows of a run have in common, and where it stands. ``attempts`` gives the tool of each tool intent by
    its seq, ``calls`` the tools that the latest decision asked for."""

    tenant: str
    domain: str
    actor: str
    agent: str
    conversation: str
    state: State | None = None
    step: int | None = None
    attempts: tuple[tuple[int, str], ...] = ()
    calls: tuple[str, ...] = ()


class LogRow(NamedTuple):
    """``input``, ``output`` and ``message`` are references to texts of the run, or None."""

    kind: str
    step: int | None
    state: State | None
    tool_name: str | None = None
    input: str | None = None
    output: str | None = None
    error_code: str | None = None
    message: str | None = None
    duration_ms: int = 0


class _Shown(NamedTuple):
    """The columns that an event itself fills."""

    tool: str | None = None
    input: str | None = None
    output: str | None = None
    code: str | None = None
    message: str | None = None
    took: int = 0


_NOTHING = _Shown()


def started(event: RunStarted) -> RunContext:
    """The context before the first event of a run."""
    return RunContext(event.tenant, event.domain, event.actor, event.agent, event.conversation)


def log_row(event: Event, seq: int, context: RunContext) -> tuple[LogRow, RunContext]:
    """The row of ``event`` at ``seq``, and the context after it.

    Reads, does not judge: where the table has no entry for an event, the state stays as it was (``verify`` says so).
    """
    kind = event.kind
    state, step = context.state, context.step
    if state is None:
        state = State.INIT if kind == "run_started" else None
    else:
        state = TABLE.get((state, kind), state)
    if isinstance(event, ModelIntended):
        step = event.step
    show = _SHOW.get(kind)
    shown = _NOTHING if show is None else show(event, context)
    row = LogRow(
        kind, step, state, shown.tool, shown.input, shown.output, shown.code, shown.message, (shown.took + 500) // 1000
    )
    match event:
        case ToolIntended():
            attempts = (*context.attempts, (seq, event.tool))
            return row, context._replace(state=state, step=step, attempts=attempts)
        case ModelReplied():
            return row, context._replace(state=state, step=step, calls=tuple(call.tool for call in event.calls))
        case _ if state is context.state and step == context.step:
            return row, context
        case _:
            return row, context._replace(state=state, step=step)


def _tool_of(context: RunContext, intent: int) -> str | None:
    return next((tool for seq, tool in reversed(context.attempts) if seq == intent), None)


def _called(context: RunContext, call: int) -> str | None:
    return context.calls[call] if 0 <= call < len(context.calls) else None


def _run_started(event: RunStarted, context: RunContext) -> _Shown:
    return _Shown(input=event.message)


def _model_replied(event: ModelReplied, context: RunContext) -> _Shown:
    return _Shown(event.tool, None, event.reply, event.code, event.correction, event.took)


def _model_failed(event: ModelFailed, context: RunContext) -> _Shown:
    return _Shown(code=event.code, message=event.message, took=event.took)


def _tool_intended(event: ToolIntended, context: RunContext) -> _Shown:
    return _Shown(event.tool, event.args)


def _tool_returned(event: ToolReturned, context: RunContext) -> _Shown:
    message = None if event.outcome == "result" else event.shown
    return _Shown(_tool_of(context, event.of), None, event.result, event.code, message, event.took)


def _call_closed(event: CallClosed, context: RunContext) -> _Shown:
    message = None if event.closing == "happened" else event.shown
    return _Shown(_called(context, event.call), None, event.result, event.code, message)


def _held(event: Held, context: RunContext) -> _Shown:
    return _Shown(_called(context, event.call))


def _run_finished(event: RunFinished, context: RunContext) -> _Shown:
    return _Shown(output=event.answer)


def _run_failed(event: RunFailed, context: RunContext) -> _Shown:
    return _Shown(code=event.code, message=event.message)


def _approval_given(event: ApprovalGiven, context: RunContext) -> _Shown:
    return _Shown(input=event.note)


def _settlement_given(event: SettlementGiven, context: RunContext) -> _Shown:
    return _Shown(input=event.note, output=event.result)


def _child_finished(event: ChildFinished, context: RunContext) -> _Shown:
    return _Shown(output=event.result)


def _late_outcome(event: LateOutcome, context: RunContext) -> _Shown:
    message = None if event.outcome == "result" else event.shown
    return _Shown(_tool_of(context, event.of), None, event.result, event.code, message)


_SHOW: dict[str, Callable[[Any, RunContext], _Shown]] = {
    "run_started": _run_started, "model_replied": _model_replied, "model_failed": _model_failed,
    "tool_intended": _tool_intended, "tool_returned": _tool_returned, "call_closed": _call_closed, "held": _held,
    "run_finished": _run_finished, "run_failed": _run_failed, "approval_given": _approval_given,
    "settlement_given": _settlement_given, "child_finished": _child_finished, "late_outcome": _late_outcome,
}  # fmt: skip
"""Kinds that are not named fill no column of their own."""
