"""Port to time and chance, so that tests own both."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Wall clock, microseconds since the Unix epoch."""
        ...

    def boottime_us(self) -> int:
        """CLOCK_BOOTTIME, microseconds: what leases and deadlines of effects are checked on."""
        ...

    def random(self, size: int) -> bytes: ...

    async def sleep(self, seconds: float) -> None: ...
