"""Rows of the decision log: what one event says in columns, given where its run stands.

Pure: ``log_row`` takes an event's body and the run's ``RunContext`` and returns the row, with references in place of
texts, and the context for the next event. It reads bodies and not event objects, and needs no fold, because it runs for
every event ever written: a follower carries thousands of runs along. It reads and does not judge: a field that is not
there leaves its column empty, an illegal event leaves the state as it was, and ``verify`` says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from devassist.core.event_codec import UPCASTERS
from devassist.core.events import KINDS
from devassist.core.states import TABLE, State

INPUT_CHARS, OUTPUT_CHARS, MESSAGE_CHARS = 1_000, 4_000, 2_000
"""How much of a text the columns input_text, output_text and error_message show."""

_TEXTS: dict[str, tuple[str, str, str]] = {
    "run_started": ("message", "", ""),
    "model_replied": ("", "reply", "correction"),
    "model_failed": ("", "", "message"),
    "tool_intended": ("args", "", ""),
    "tool_returned": ("", "result", "shown"),
    "call_closed": ("", "result", "shown"),
    "run_finished": ("", "answer", ""),
    "run_failed": ("", "", "message"),
    "approval_given": ("note", "", ""),
    "settlement_given": ("note", "result", ""),
    "child_finished": ("", "result", ""),
    "late_outcome": ("", "result", "shown"),
}
"""Which fields hold the references of input, output and message; kinds that are not named hold none."""
_NO_TEXTS = ("", "", "")
_WELL: dict[str, tuple[str, str]] = {
    "tool_returned": ("outcome", "result"),
    "late_outcome": ("outcome", "result"),
    "call_closed": ("closing", "happened"),
}
"""Where all went well: what the model was shown is then no error message."""
_COLUMNS = frozenset({"agent", "code", "conversation", "k", "step", "tenant", "took", "tool"})
_IN_COLUMNS: dict[str, frozenset[str]] = {
    kind: _COLUMNS.union(f for f in texts if f != "shown") for kind, texts in _TEXTS.items()
}
_IN_COLUMNS["run_started"] |= {"actor"}
_IN_COLUMNS["run_finished"] |= {"degraded"}


_VERSIONS = {kind: cls.version for kind, cls in KINDS.items()}


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
    """``input``, ``output`` and ``message`` are references to texts of the run, or None. ``degraded``: the codes that
    an answer was marked with, joined by commas."""

    kind: str
    step: int | None
    state: State | None
    tool_name: str | None = None
    input: str | None = None
    output: str | None = None
    error_code: str | None = None
    message: str | None = None
    duration_ms: int = 0
    degraded: str | None = None


def current(body: dict[str, Any]) -> dict[str, Any]:
    """The body in the version that this build writes: old ones are lifted, later ones are left as they are."""
    if not UPCASTERS:
        return body
    kind, version = body.get("k", ""), body.get("v", 0)
    while (lift := UPCASTERS.get((kind, version))) is not None:
        fields = lift({name: value for name, value in body.items() if name not in ("k", "v")})
        version += 1
        body = {"k": kind, "v": version, **fields}
    return body


def started(body: Mapping[str, Any]) -> RunContext:
    """The context before the first event of a run, from that event's body."""
    tenant, domain, actor, agent, conversation = (
        str(body.get(name, "")) for name in ("tenant", "domain", "actor", "agent", "conversation")
    )
    return RunContext(tenant, domain, actor, agent, conversation)


def metadata(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a body says beyond the columns: numbers, enums, and references of texts that no column shows. The first
    version and the current one go without saying."""
    shown = _IN_COLUMNS.get(body.get("k", ""), _COLUMNS)
    extra = {name: value for name, value in body.items() if name not in shown}
    if extra.get("v") in (1, _VERSIONS.get(body.get("k", ""))):
        extra.pop("v", None)
    return extra


def log_row(body: Mapping[str, Any], seq: int, context: RunContext) -> tuple[LogRow, RunContext]:
    """The row of the event with ``body`` (a ``current`` one) at ``seq``, and the context after it."""
    get = body.get
    kind: str = get("k", "")
    state = context.state
    after = State.INIT if kind == "run_started" else TABLE.get((state, kind), state) if state is not None else None
    step = get("step", context.step)
    tool = get("tool")
    if kind == "tool_intended":
        context = context._replace(state=after, step=step, attempts=(*context.attempts, (seq, tool or "")))
    elif kind == "model_replied":
        context = context._replace(state=after, calls=tuple(call[0] for call in get("calls", ())))
    else:
        if kind in ("tool_returned", "late_outcome"):
            tool = next((name for intent, name in reversed(context.attempts) if intent == get("of")), None)
        elif kind in ("call_closed", "held"):
            tool = next(iter(context.calls[get("call", 0) :]), None)
        if after is not state or step != context.step:
            context = context._replace(state=after, step=step)
    input_, output, message = _TEXTS.get(kind, _NO_TEXTS)
    if kind in _WELL and get(_WELL[kind][0]) == _WELL[kind][1]:
        message = ""
    took = (get("took", 0) + 500) // 1000
    degraded = ",".join(get("degraded", ())) or None
    return LogRow(kind, step, after, tool, get(input_), get(output), get("code"), get(message), took, degraded), context
