"""The host's clock and entropy."""

from __future__ import annotations

import asyncio
import os
import time


class SystemClock:
    """Implements ports.clock.Clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def boottime_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def random(self, size: int) -> bytes:
        return os.urandom(size)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
