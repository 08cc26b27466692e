"""What ``decide`` says must come next, as the event that would record it: from commands to the record."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    Switch,
    Wait,
)
from devassist.core.decide import INTERRUPTED
from devassist.core.definition import Definition
from devassist.core.events import (
    BreakerSeen,
    Event,
    ModelFailed,
    ModelReplied,
    ModelSwitched,
    RunFailed,
    RunStarted,
    ToolReturned,
)
from devassist.core.run_state import RunState
from devassist.core.signals import SIGNALS

JITTER_US = 1_000_000
"""A wait may at least be this much longer than derived: it is spread by chance, and what came of it is recorded."""
_CUT = frozenset({INTERRUPTED, "cancelled"})


class Due(NamedTuple):
    """The kind of event that must come, and the fields that it must have."""

    kind: str
    fields: dict[str, Any]


def is_fact(event: Event, command: Command | None) -> bool:
    """Whether ``event`` tells what happened outside rather than what was decided: nothing derives it.

    An attempt that was cut off is decided; so is giving up, except for want of the model that was to be asked.
    """
    match event:
        case ModelReplied() | RunStarted() | BreakerSeen():
            return True
        case ModelSwitched():
            return not isinstance(command, Switch)  # before they were decided, switches were made from outside
        case ModelFailed(code=code):
            return code not in _CUT
        case ToolReturned(outcome=outcome, code=code):
            return outcome != "unknown" or code not in _CUT
        case RunFailed(code="model_unavailable"):
            return isinstance(command, CallModel | Switch)
        case _:
            return event.kind in SIGNALS


def due(command: Command | None, state: RunState, definition: Definition) -> Due | None:
    """The event that records ``command`` in ``state``; None where nothing is to be done."""
    match command:
        case None:
            return None
        case CallModel(step, attempt):
            model, kind = (state.model, state.model_kind) if state.model else (definition.model, definition.model_kind)
            base = state.base if state.base >= 0 else None
            fields = {"step": step, "attempt": attempt, "model": model, "model_kind": kind, "base": base}
            fields["choice"] = state.choice
            return Due("model_intended", fields | {"add": _new(state)})
        case CallTools(calls):
            return tool_due(state, calls[0])
        case CutModel(of, code):
            return Due("model_failed", {"of": of, "retryable": True, **_cut(code)})
        case CutCall(of, code):
            return Due("tool_returned", {"of": of, "outcome": "unknown", **_cut(code)})
        case CloseCall(call, closing, code):
            settled = {"result": state.calls[call].answer_ref} if closing == "happened" else {}
            fields = {"decision": state.reply_seq, "call": call, "closing": closing, "code": code}
            return Due("call_closed", fields | settled)
        case Hold(call, reason, digest):
            return Due("held", {"decision": state.reply_seq, "call": call, "reason": reason, "digest": digest})
        case Wait():
            return Due("wait_begun", {"reason": command.reason})
        case Switch(choice, reason):
            return Due("model_switched", {"choice": choice, "reason": reason})
        case Finish(of):
            return Due("run_finished", {"of": of})
        case Fail(code, status):
            return Due("run_failed", {"code": code, "status": status})
        case Abort(reason):
            return Due("run_aborted", {"reason": reason})


def tool_due(state: RunState, index: int) -> Due:
    """The intent of an attempt of call ``index``: with the arguments that a person put in their place, if one did."""
    c = state.calls[index]
    args = c.answer_ref if c.answer == "approve" and c.answer_ref else c.call.args
    return Due(
        "tool_intended",
        {
            "decision": state.reply_seq, "call": index, "step": state.step, "attempt": c.attempts + 1,
            "tool": c.call.tool, "effect": c.call.effect, "args": args,
        },
    )  # fmt: skip


def _cut(code: str) -> dict[str, Any]:
    """An interruption that was in hand before a cancel came is recorded as it was."""
    return {"code": code} if code == INTERRUPTED else {}


def _new(state: RunState) -> tuple[int, ...]:
    """The events whose texts are new in this prompt."""
    return tuple(dict.fromkeys(e.seq for e in state.transcript if e.seq > state.base and e.role != "past"))
