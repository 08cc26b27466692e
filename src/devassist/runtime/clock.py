"""The host's clock and entropy."""

from __future__ import annotations

import asyncio
import os
import threading
import time

_DRAWN = 1024


class _Chance(threading.local):
    """Entropy drawn some at a time: each call of the kernel hands the interpreter's lock to another thread."""

    def __init__(self) -> None:
        self.left = b""

    def take(self, size: int) -> bytes:
        if len(self.left) < size:
            self.left = os.urandom(max(size, _DRAWN))
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def forget(self) -> None:
        """A forked process must not use its parent's."""
        self.left = b""


_chance = _Chance()
os.register_at_fork(after_in_child=_chance.forget)


class SystemClock:
    """Implements ports.clock.Clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def boottime_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def random(self, size: int) -> bytes:
        return _chance.take(size)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
