"""Port to the tools that a run can call."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import Any, Protocol

from devassist.core.scope import Scope
from devassist.core.tooling import ToolOutcome, ToolSpec


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a handler may know of its call. ``call_id`` (hex) is the idempotency key that all attempts share.

    ``as_of`` (ISO date), ``known_at`` (microseconds since the epoch) and ``collection`` are the run's own; arguments go
    before them.

    ``approved``: a person approved the call, so asking for approval again would be asking twice. ``cancelled`` is set
    once nobody waits for the result any more (a cancel, a timeout, a lost lease): no thread can be stopped from
    outside, so one that works for long looks at it, or waits with ``cancelled.wait(seconds)``.
    """

    trace_id: str
    call_id: str
    epoch: int
    attempt: int
    as_of: str | None = None
    approved: bool = False
    cancelled: Event = field(default_factory=Event, compare=False, repr=False)
    known_at: int | None = None
    collection: str | None = None


class ToolBox(Protocol):
    """Named tools with checked arguments. Pure look-ups are plain calls; only ``call`` does I/O."""

    def spec(self, name: str) -> ToolSpec:
        """Raises ToolNotFound."""
        ...

    def specs(self) -> tuple[ToolSpec, ...]:
        """All tools, ordered by name."""
        ...

    async def call(self, scope: Scope, name: str, args: dict[str, Any], context: CallContext) -> ToolOutcome:
        """Run one attempt within the tool's timeout.

        One of the five outcomes; a timeout is ToolUnknown for ``once`` and ``idempotent`` tools and ToolFailure
        (code ``tool_timeout``) for ``pure`` ones. Raises ToolNotFound, ToolArgumentsInvalid, and ServiceFault for a
        fault of the service itself (never shown to a model as program output).
        """
        ...


class ArgumentChecker(Protocol):
    """Checks arguments against the schemas that a run was started with (pure)."""

    def check(self, spec: ToolSpec, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments to use: the given ones, or the same after lossless coercion (``"4"`` for an integer).

        Raises ToolArgumentsInvalid naming every path that is wrong and what would be right.
        """
        ...

    def result_faults(self, spec: ToolSpec, value: Any) -> list[tuple[str, str]]:
        """What of ``value`` is no JSON or does not fit the declared result, as (path, message); empty when all is
        well, also where the tool declares none."""
        ...
