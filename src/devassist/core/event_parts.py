"""Value types that events are made of."""

from __future__ import annotations

from typing import Literal, NamedTuple

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
