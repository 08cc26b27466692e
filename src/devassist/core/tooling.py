"""What a tool is and what may come of a call: words shared by the definition in INIT, the runtime and the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Effect = Literal["pure", "idempotent", "once"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model and the journal see it.

    ``parameters`` and ``result`` are JSON Schema 2020-12. ``effect``: ``pure`` changes nothing, ``idempotent`` may be
    repeated under the same idempotency key, ``once`` must never be repeated silently. ``permission`` names the right
    that a caller needs, or None: runs of others do not have the tool. ``needs_approval``: a person approves each call
    before it is made. ``timeout_s`` bounds one attempt.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    result: dict[str, Any] | None = None
    effect: Effect = "once"
    timeout_s: float = 30.0
    permission: str | None = None
    needs_approval: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """It worked. ``value`` is the JSON result; ``text`` what the model is shown, the value's JSON when None.

    ``retrieval`` is what the run keeps of a search (JSON, without texts): its ``hits``, in the order of the rows of the
    result, name clause, revision and hash of each, so that what is said of them can be checked.
    """

    value: Any
    text: str | None = None
    retrieval: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolRetry:
    """The model may correct its call: ``message`` says how."""

    message: str


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """It failed for good; the model is told ``message``."""

    code: str
    message: str
    status: int = 400


@dataclass(frozen=True, slots=True)
class ToolNeedsApproval:
    """Nothing was done: a person has to approve first."""

    reason: str


@dataclass(frozen=True, slots=True)
class ToolUnknown:
    """The effect was or may have been started and its result is unknown (timeout, cancel, connection lost)."""

    reason: str


ToolOutcome = ToolResult | ToolRetry | ToolFailure | ToolNeedsApproval | ToolUnknown
