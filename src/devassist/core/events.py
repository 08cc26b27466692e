"""The events of a run: what the journal can say.

Each kind is a frozen dataclass with a version (``event_codec`` turns them into bodies and back). They hold ids, enums,
numbers and payload references only: never free text, never a person's name.

Words: a *reference* (``Ref``) is the base64url of a payload's 32-byte commitment; ``of`` names the intent of an outcome
by its seq; times are microseconds since the Unix epoch, durations (``took``) microseconds, money micro-units.
Owner events are appended by the driver under its epoch; signals by anyone authorised, unique by ``signal_id``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from devassist.core.tooling import Effect

Ref = str
OnUnknown = Literal["hold", "tell"]
Release = Literal["live", "gated"]
Outcome = Literal["result", "retry", "failed", "unknown", "needs_approval", "fault"]
Closing = Literal["cancelled", "rejected", "not_run", "happened", "abandoned"]


class Limits(NamedTuple):
    """Bounds of a run: steps, corrections in a row, tokens, driven time (ms), cost (micro-units, -1 = none)."""

    steps: int = 8
    corrections: int = 2
    tokens: int = 200_000
    deadline_ms: int = 300_000
    cost: int = -1


class DecidedCall(NamedTuple):
    """One call that a decision asked for. ``args`` names the checked arguments (canonical JSON)."""

    tool: str
    effect: Effect
    args: Ref
    native_id: str | None = None


class Past(NamedTuple):
    """One message of the conversation's history as it was read when the turn came."""

    role: str
    ref: Ref


@dataclass(frozen=True, slots=True)
class RunStarted:
    """INIT: the resolved definition, whose texts the run holds, its bounds."""

    kind: ClassVar[str] = "run_started"
    version: ClassVar[int] = 1
    tenant: str
    domain: str  # erasure domain id (hex) of the run's texts
    actor: str  # domain id (hex) of the caller
    agent: str
    definition: Ref
    request: Ref
    message: Ref
    conversation: str
    limits: Limits
    protocol: str = "text"
    release: Release = "live"
    on_unknown: OnUnknown = "hold"
    parallel: bool = False
    grounded: bool = False
    flags: tuple[str, ...] = ()
    root: str | None = None  # trace id (hex) of the root run of a child
    parent_call: str | None = None
    replaces: str | None = None
    idem: str | None = None  # digest of route and Idempotency-Key
    digest: str | None = None  # digest of the request that the key stands for


@dataclass(frozen=True, slots=True)
class ModelIntended:
    """A model attempt is about to be made. Its prompt: that of ``base``, plus what ``add`` (seqs) contributed, less
    what was left out (the oldest ``left_history`` messages, and entries of seqs in ``left`` = [from, to))."""

    kind: ClassVar[str] = "model_intended"
    version: ClassVar[int] = 1
    step: int
    attempt: int
    model: str
    model_kind: str
    epoch: int
    add: tuple[int, ...]
    tokens: int
    base: int | None = None
    history: tuple[Past, ...] = ()
    left_history: int = 0
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """A reply and the decision it holds: ``calls`` to make, a ``final`` answer, or a ``fault`` sent back as a
    correction. ``reply`` is the raw text; ``discarded`` counts characters written after the action, never used."""

    kind: ClassVar[str] = "model_replied"
    version: ClassVar[int] = 1
    of: int
    reply: Ref
    decision: Literal["calls", "final", "fault"]
    took: int
    finish: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = -1
    native: Ref | None = None
    reasoning: Ref | None = None
    thought: Ref | None = None
    calls: tuple[DecidedCall, ...] = ()
    answer: Ref | None = None
    unstructured: bool = False
    code: str | None = None
    tool: str | None = None
    correction: Ref | None = None
    discarded: int = 0


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """An attempt gave no usable reply. ``retry_after`` is what the provider asked for (microseconds, 0 = nothing)."""

    kind: ClassVar[str] = "model_failed"
    version: ClassVar[int] = 1
    of: int
    code: str
    status: int
    retryable: bool
    took: int
    message: Ref | None = None
    retry_after: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = -1


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """The next attempts go to another model; a decision of its own, never inside an attempt."""

    kind: ClassVar[str] = "model_switched"
    version: ClassVar[int] = 1
    model: str
    model_kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolIntended:
    """An attempt of a call is about to be made. The effect must not start after ``deadline``."""

    kind: ClassVar[str] = "tool_intended"
    version: ClassVar[int] = 1
    decision: int
    call: int
    step: int
    attempt: int
    tool: str
    effect: Effect
    args: Ref
    deadline: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """What came of an attempt. ``result`` is the tool's JSON, ``shown`` the text that the model is shown; ``fault`` is
    the service's own failure: nothing is shown to the model and the run fails."""

    kind: ClassVar[str] = "tool_returned"
    version: ClassVar[int] = 1
    of: int
    outcome: Outcome
    took: int
    result: Ref | None = None
    shown: Ref | None = None
    code: str | None = None
    status: int = 0


@dataclass(frozen=True, slots=True)
class CallClosed:
    """A call ends without a further attempt: cancelled, rejected, not run, settled as happened, or abandoned."""

    kind: ClassVar[str] = "call_closed"
    version: ClassVar[int] = 1
    decision: int
    call: int
    closing: Closing
    shown: Ref | None = None
    result: Ref | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """The run waits for a person: to approve a call, or to settle one whose outcome is unknown."""

    kind: ClassVar[str] = "held"
    version: ClassVar[int] = 1
    reason: Literal["approval", "settlement"]
    decision: int
    call: int
    digest: str


@dataclass(frozen=True, slots=True)
class WaitBegun:
    """The run waits until a time (back-off and jitter included) or for a child."""

    kind: ClassVar[str] = "wait_begun"
    version: ClassVar[int] = 1
    reason: Literal["backoff", "child"]
    until: int


@dataclass(frozen=True, slots=True)
class RunFinished:
    """FINAL_ANSWER: ``answer`` is the released text, ``output`` the agent's JSON, ``verdicts`` what was checked."""

    kind: ClassVar[str] = "run_finished"
    version: ClassVar[int] = 1
    of: int
    answer: Ref
    output: Ref | None = None
    verdicts: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFailed:
    """ERROR: the run cannot go on. ``message`` says so to people."""

    kind: ClassVar[str] = "run_failed"
    version: ClassVar[int] = 1
    code: str
    status: int
    message: Ref
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class RunAborted:
    """ABORTED: cancelled, after every open call has an outcome."""

    kind: ClassVar[str] = "run_aborted"
    version: ClassVar[int] = 1
    reason: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Signal: someone asks that the run end."""

    kind: ClassVar[str] = "cancel_requested"
    version: ClassVar[int] = 1
    signal_id: str
    actor: str


@dataclass(frozen=True, slots=True)
class ApprovalGiven:
    """Signal: a person decides on the call with ``digest``; ``args`` replaces its arguments when given."""

    kind: ClassVar[str] = "approval_given"
    version: ClassVar[int] = 1
    signal_id: str
    actor: str
    digest: str
    decision: Literal["approve", "reject"]
    note: Ref | None = None
    args: Ref | None = None


@dataclass(frozen=True, slots=True)
class SettlementGiven:
    """Signal: a person says what became of a call in doubt."""

    kind: ClassVar[str] = "settlement_given"
    version: ClassVar[int] = 1
    signal_id: str
    actor: str
    digest: str
    outcome: Literal["happened", "repeat", "abandon"]
    result: Ref | None = None
    note: Ref | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Signal: the time that a wait named has come."""

    kind: ClassVar[str] = "timer_fired"
    version: ClassVar[int] = 1
    signal_id: str
    until: int


@dataclass(frozen=True, slots=True)
class ChildFinished:
    """Signal: a child run ended."""

    kind: ClassVar[str] = "child_finished"
    version: ClassVar[int] = 1
    signal_id: str
    child: str
    state: str
    result: Ref | None = None


@dataclass(frozen=True, slots=True)
class LateOutcome:
    """Signal: what a superseded owner still had in hand; ``signal_id`` is call_id + attempt."""

    kind: ClassVar[str] = "late_outcome"
    version: ClassVar[int] = 1
    signal_id: str
    of: int
    outcome: Outcome
    result: Ref | None = None
    shown: Ref | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of no run, in a stream of its own (access, deploy, knowledge, erasure, endpoint, conversation, notes).

    ``name`` says what happened, ``data`` holds ids, enums and numbers (strings only, so bodies stay flat)."""

    kind: ClassVar[str] = "fact"
    version: ClassVar[int] = 1
    name: str
    actor: str
    data: tuple[tuple[str, str], ...] = ()


Owned = (
    RunStarted | ModelIntended | ModelReplied | ModelFailed | ModelSwitched | ToolIntended | ToolReturned | CallClosed
    | Held | WaitBegun | RunFinished | RunFailed | RunAborted
)  # fmt: skip
Signal = CancelRequested | ApprovalGiven | SettlementGiven | TimerFired | ChildFinished | LateOutcome
Event = Owned | Signal | Fact

CLASSES: tuple[type[Any], ...] = (
    RunStarted, ModelIntended, ModelReplied, ModelFailed, ModelSwitched, ToolIntended, ToolReturned, CallClosed, Held,
    WaitBegun, RunFinished, RunFailed, RunAborted, CancelRequested, ApprovalGiven, SettlementGiven, TimerFired,
    ChildFinished, LateOutcome, Fact,
)  # fmt: skip
KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in CLASSES}
SIGNALS: frozenset[str] = frozenset(
    cls.kind for cls in (CancelRequested, ApprovalGiven, SettlementGiven, TimerFired, ChildFinished, LateOutcome)
)
TERMINAL: frozenset[str] = frozenset({"run_finished", "run_failed", "run_aborted"})
CORE_FLAGS: frozenset[str] = frozenset()
"""Numbered changes of the core's behaviour that this build knows; a run with another flag is left to another worker."""
SCHEMA_GENERATION = 1
"""Rises with every new kind or version; a worker leaves runs of a later generation untouched."""
