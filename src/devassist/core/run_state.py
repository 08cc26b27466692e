"""What a run is at one point of its record: the values that ``transitions`` computes and ``decide`` looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from devassist.core.event_parts import DecidedCall
from devassist.core.events import BreakerSeen, ModelFailed, ModelReplied, RunStarted
from devassist.core.states import CLOSED, State

CUT_OFF = "interrupted"
"""The code of an outcome that says no more than that an attempt was cut off."""

CallPhase = Literal["asked", "running", "interrupted", "retry", "doubt", "held", "done"]


class CallState(NamedTuple):
    """One call of the current decision. ``intent`` is the seq of its latest attempt; ``digest`` of an open hold."""

    call: DecidedCall
    phase: CallPhase = "asked"
    intent: int = -1
    attempts: int = 0
    code: str | None = None
    digest: str | None = None
    answer: str | None = None  # approve | reject | happened | repeat | abandon, consumed by the next owner event
    answer_ref: str | None = None
    fault: int = 0  # status of a fault of the service itself
    approved: bool = False  # a person approved it; holds for every further attempt
    deadline: int = 0  # until when the latest attempt may be under way
    closing: str | None = None  # how the call ended without an attempt's outcome


class Entry(NamedTuple):
    """One message of the transcript. ``role``: past (``name`` user or assistant), user, reply (``name`` fault when it
    could not be acted on), observation (``name`` the tool), correction. ``seq`` is the event that contributed it,
    ``cut`` how many characters of the text's end came after the decision and are not shown again,
    ``call`` which call of the decision an observation is of."""

    role: str
    seq: int
    ref: str
    name: str = ""
    native: str | None = None
    step: int = -1
    cut: int = 0
    call: int = -1


class RunState(NamedTuple):
    """Everything ``decide`` may look at."""

    started: RunStarted
    state: State
    seq: int
    at: int
    epoch: int = 0
    step: int = -1
    attempts: int = 0
    failures: int = 0
    cuts: int = 0
    corrections: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = -1
    tool_calls: int = 0
    driven: int = 0
    moved: int = 0  # when the owner last moved the run: driven time counts between its events
    model: str = ""
    model_kind: str = ""
    open_model: int = -1
    base: int = -1
    reply: ModelReplied | None = None
    reply_seq: int = -1
    last_failure: ModelFailed | None = None
    calls: tuple[CallState, ...] = ()
    transcript: tuple[Entry, ...] = ()
    cancel: str | None = None
    wait_until: int = -1
    timer: int = -1
    wake_at: int = -1
    provider_wait: bool = False  # it waits for a provider, which is driven time
    choice: int = 0  # the model in use: 0 the definition's own, n its nth fallback
    asked: int = 0  # estimated tokens of the latest prompt
    left_out: int = 0  # entries of the transcript that the latest prompt left out
    overflows: int = 0  # prompts in a row that the model's context did not hold
    ceiling: int = 0  # estimated tokens that this model's prompts may have since then, 0 = as defined
    breaker: BreakerSeen | None = None  # seen since the last attempt
    left_alone: tuple[tuple[int, int], ...] = ()  # (choice, until) of models whose breaker was open when last asked for
    restored: bool = False  # the journal was put back to an earlier state while the run was open
    inherited: tuple[str, ...] = ()  # tools whose outcome is unknown in earlier runs of the conversation
    doubts: tuple[tuple[str, int], ...] = ()  # (tool, attempt's seq) whose outcome is unknown and not settled

    @property
    def closed(self) -> bool:
        return self.state in CLOSED

    def having(self, changes: Mapping[str, Any]) -> RunState:
        """What ``_replace`` gives, for half the work: it happens for every event. Raises KeyError for no field."""
        values = list(self)
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return self._make(values)


_PLACES = {name: place for place, name in enumerate(RunState._fields)}
