"""Port to evidence: read-only over the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from devassist.core.scope import Scope
from devassist.ports.journal import Fault


@dataclass(frozen=True, slots=True)
class Report:
    """What ``verify`` checked of one run and what it found wrong; ``erased`` payloads are an honest gap, no fault."""

    trace_id: str
    ok: bool
    events: int
    payloads: int
    erased: int
    checks: tuple[str, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where replay derives something else than what stands in the record."""

    seq: int
    field: str
    recorded: str
    derived: str


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """``decisions`` were derived again; ``skipped`` could not be, since their texts are erased."""

    trace_id: str
    ok: bool
    decisions: int
    skipped: int
    differences: tuple[Difference, ...]


class Auditor(Protocol):
    async def verify(self, scope: Scope, stream: bytes) -> Report:
        """Recompute bodies, links, head, signals and payload commitments. Raises RunNotFound."""
        ...

    async def replay(self, scope: Scope, stream: bytes) -> ReplayReport:
        """Derive every decision again from the recorded replies. Raises RunNotFound."""
        ...

    async def explain(self, scope: Scope, stream: bytes) -> dict[str, Any]:
        """Why it answered so, read from the record only. Raises RunNotFound."""
        ...
