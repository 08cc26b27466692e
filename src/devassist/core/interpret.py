"""From a model's reply to a decision: one pure function for driving and for replaying.

The arguments of calls are checked against the schemas that the run was started with; ``check`` is passed in because
JSON Schema is not core's business, but it must be pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from devassist.core.codec import json_text
from devassist.core.definition import Definition
from devassist.core.errors import ToolArgumentsInvalid
from devassist.core.messages import ModelReply
from devassist.core.react import Call, Fault, Final, ToolCalls, correction, parse
from devassist.core.react_texts import CORRECTIONS_BEGIN
from devassist.core.run_state import RunState
from devassist.core.tooling import Effect, ToolSpec

Check = Callable[[ToolSpec, dict[str, Any]], dict[str, Any]]

_CONSULT = {
    "zh": f"{CORRECTIONS_BEGIN['zh']}回答之前必须先调用工具查询条款，不能凭记忆作答。请先输出一次工具调用。",
    "en": f"{CORRECTIONS_BEGIN['en']}Look the clause up before you answer, not from memory. Call a tool first.",
}


class DraftCall(NamedTuple):
    """One call to make; ``args`` is the JSON text of the checked arguments."""

    tool: str
    effect: Effect
    args: str
    native_id: str | None


class Draft(NamedTuple):
    """A decision in plain text, before its texts become payloads. ``correction`` goes back to the model on a fault."""

    decision: Literal["calls", "final", "fault"]
    thought: str = ""
    calls: tuple[DraftCall, ...] = ()
    answer: str = ""
    unstructured: bool = False
    code: str | None = None
    tool: str | None = None
    correction: str = ""
    discarded: int = 0


def consulted(state: RunState) -> bool:
    """Whether a tool has shown the model anything in this run."""
    return any(e.role == "observation" for e in state.transcript)


def interpret(reply: ModelReply, definition: Definition, check: Check, state: RunState) -> Draft:
    """The decision that ``reply`` holds in ``state``. Total: every reply gives calls, a final answer or a fault."""
    names = [t.name for t in definition.tools]
    decision = parse(reply, names, corrections=state.corrections, protocol=definition.protocol)
    if isinstance(decision, ToolCalls):
        checked = _checked(decision.calls, definition, check)
        if isinstance(checked, tuple):
            return Draft("calls", decision.thought, checked, discarded=_tail(reply, decision.discarded))
        decision = Fault(checked.code, checked.detail, decision.thought, checked.tool)
    if isinstance(decision, Final):
        last_chance = state.corrections >= definition.limits.corrections
        if not definition.grounded or consulted(state) or last_chance or not names:
            return Draft(
                "final", decision.thought, answer=decision.text, unstructured=decision.unstructured,
                discarded=_tail(reply, decision.discarded),
            )  # fmt: skip
        return Draft("fault", decision.thought, code="answer_ungrounded", correction=_CONSULT[definition.lang])
    # A name that the model made up is its text, and stands in the reply; events hold ours.
    known = decision.tool if decision.tool is not None and definition.spec(decision.tool) else None
    return Draft(
        "fault", decision.thought, code=decision.code, tool=known,
        correction=correction(decision, definition.lang, names),
    )  # fmt: skip


def _tail(reply: ModelReply, discarded: str) -> int:
    """How many characters at the end of the raw reply came after the decision."""
    return len(discarded) if discarded and reply.text.endswith(discarded) else 0


def _checked(calls: tuple[Call, ...], definition: Definition, check: Check) -> tuple[DraftCall, ...] | Fault:
    drafts: list[DraftCall] = []
    for call in calls:
        spec = definition.spec(call.name)
        if spec is None:
            return Fault("tool_not_found", f"no tool {call.name!r}", tool=call.name)
        try:
            args = check(spec, call.args)
        except ToolArgumentsInvalid as error:
            return Fault(error.code, error.detail, tool=call.name)
        drafts.append(DraftCall(spec.name, spec.effect, json_text(args), call.native_id))
    return tuple(drafts)
