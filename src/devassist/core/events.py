"""The events of a run: what the journal can say.

Each kind is a frozen dataclass with a version (``event_codec`` turns them into bodies and back). They hold ids, enums,
numbers and payload references only: never free text, never a person's name.

Words: a *reference* (``Ref``) is the base64url of a payload's 32-byte commitment; ``of`` names the intent of an outcome
by its seq; times are microseconds since the Unix epoch, durations (``took``) microseconds, money micro-units.
Owner events are appended by the driver under its epoch; what others write stands in ``core.signals``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from devassist.core.event_parts import Closing, DecidedCall, Limits, OnUnknown, Outcome, Past, Ref, Release
from devassist.core.signals import SIGNAL_CLASSES, Fact, Signal
from devassist.core.tooling import Effect


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
    fallbacks: int = 0  # how many models the definition names besides its own
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
    choice: int = 0  # 0 the definition's own model, n its nth fallback
    breaker: Literal["closed", "half_open"] = "closed"  # what the circuit breaker of the endpoint said
    doubts: tuple[str, ...] = ()  # tools whose outcome is unknown in earlier runs of the conversation


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
    """The next attempts go to another model; a decision of its own, never inside an attempt. ``choice``: which one (see
    ModelIntended), -1 where that was not recorded. ``reason`` is the code of the failure that led to it."""

    kind: ClassVar[str] = "model_switched"
    version: ClassVar[int] = 1
    model: str
    model_kind: str
    reason: str
    choice: int = -1


@dataclass(frozen=True, slots=True)
class BreakerSeen:
    """The circuit breaker of the endpoint of model ``choice`` was open when an attempt was due, so none was made.
    ``until`` is when it lets one through to try."""

    kind: ClassVar[str] = "breaker_seen"
    version: ClassVar[int] = 1
    choice: int
    until: int


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
    the service's own failure: nothing is shown to the model and the run fails. ``retrieval`` is the record of a search:
    what it asked, found and left out, with the number of each clause."""

    kind: ClassVar[str] = "tool_returned"
    version: ClassVar[int] = 2
    of: int
    outcome: Outcome
    took: int
    result: Ref | None = None
    shown: Ref | None = None
    code: str | None = None
    status: int = 0
    retrieval: Ref | None = None


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
    """The run waits until a time (jitter included) or for a child: after a failure, or for an open breaker."""

    kind: ClassVar[str] = "wait_begun"
    version: ClassVar[int] = 1
    reason: Literal["backoff", "child", "breaker"]
    until: int


@dataclass(frozen=True, slots=True)
class RunFinished:
    """FINAL_ANSWER: ``answer`` is the released text, ``output`` the agent's JSON, ``verdicts`` what was checked,
    ``checks`` the JSON of each citation's verdict with its rule's version."""

    kind: ClassVar[str] = "run_finished"
    version: ClassVar[int] = 2
    of: int
    answer: Ref
    output: Ref | None = None
    verdicts: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    checks: Ref | None = None


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


Owned = (
    RunStarted | ModelIntended | ModelReplied | ModelFailed | ModelSwitched | BreakerSeen | ToolIntended | ToolReturned
    | CallClosed | Held | WaitBegun | RunFinished | RunFailed | RunAborted
)  # fmt: skip
Event = Owned | Signal | Fact

CLASSES: tuple[type[Any], ...] = (
    RunStarted, ModelIntended, ModelReplied, ModelFailed, ModelSwitched, BreakerSeen, ToolIntended, ToolReturned,
    CallClosed, Held, WaitBegun, RunFinished, RunFailed, RunAborted, *SIGNAL_CLASSES, Fact,
)  # fmt: skip
KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in CLASSES}
TERMINAL: frozenset[str] = frozenset({"run_finished", "run_failed", "run_aborted"})
RETRY_2 = "retry2"
"""Flag: more patience with providers, fallback models, breakers, smaller prompts for a context that overflows; waits
for a provider count as driven time."""
RETRY_3 = "retry3"
"""Flag, beside ``retry2``: a run goes back to a model that it left for its breaker, once that lets an attempt through,
rather than fail for the last one's."""
CITE_1 = "cite1"
"""Flag: what a grounded agent says is checked sentence by sentence, and each citation's verdict is recorded."""
CORE_FLAGS: frozenset[str] = frozenset({RETRY_2, RETRY_3, CITE_1})
"""Numbered changes of the core's behaviour that this build knows; a run with another flag is left to another worker."""
SCHEMA_GENERATION = 3
"""Rises with every new kind or version; a worker leaves runs of a later generation untouched."""
