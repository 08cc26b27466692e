"""Port to metrics: counted from the journal by a follower, shown as text."""

from __future__ import annotations

from typing import Protocol


class Metrics(Protocol):
    def render(self) -> tuple[bytes, str]:
        """The metrics in the Prometheus text format, and its media type."""
        ...

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one HTTP request."""
        ...
