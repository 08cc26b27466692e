"""Port to what is live and never stored: token deltas, and the hint that a run's journal moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Live:
    """The text that the current attempt has released so far."""

    attempt: int
    text: str


class Bus(Protocol):
    """Losing, repeating or reordering anything here is harmless: the journal has the truth."""

    def begin(self, stream: bytes, attempt: int) -> None:
        """A new model attempt streams from offset 0."""
        ...

    def add(self, stream: bytes, text: str) -> None: ...

    def watched(self, stream: bytes) -> bool:
        """Whether anyone here follows the run, or said that they will."""
        ...

    def watch(self, stream: bytes) -> None:
        """Count a follower in; every ``watch`` is matched by an ``unwatch``."""
        ...

    def unwatch(self, stream: bytes) -> None: ...

    def touch(self, stream: bytes) -> None:
        """The run's journal moved."""
        ...

    def touch_all(self) -> None:
        """Wake every follower here."""
        ...

    def end(self, stream: bytes) -> None:
        """The attempt that ``begin`` named is over."""
        ...

    def live(self, stream: bytes) -> Live | None:
        """What has been released of the attempt under way, None when nothing is known here."""
        ...

    async def changed(self, stream: bytes, seen: int, timeout_s: float) -> int:
        """Wait until the run's version differs from ``seen`` or the time is over; return the version."""
        ...
