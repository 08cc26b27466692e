"""Port to metrics: counted from the journal by a follower, shown as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KnowledgeState:
    """``collections``: documents and clauses by collection; the index as ports.curation.IndexState has it."""

    collections: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    quarantined: int = 0
    index_lag: int = 0
    index_waiting: int = 0


class Metrics(Protocol):
    def render(self) -> tuple[bytes, str]:
        """The metrics in the Prometheus text format, and its media type."""
        ...

    def knowledge(self, state: KnowledgeState) -> None:
        """What to show of knowledge from now on."""
        ...

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one HTTP request."""
        ...
