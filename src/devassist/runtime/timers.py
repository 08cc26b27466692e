"""Waking runs when their time comes; the sweep finds those that no timer knows of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from devassist.core.errors import DevAssistError
from devassist.ports.clock import Clock

log = logging.getLogger("devassist.runtime")

MOST_S = 60.0
"""Longer waits are left to the sweep."""


class Timers:
    """One timer for each run that this process let go of until a time. ``wake`` claims the run and drives it."""

    def __init__(self, clock: Clock, wake: Callable[[bytes], Awaitable[None]]) -> None:
        self._clock, self._wake = clock, wake
        self._handles: dict[bytes, asyncio.TimerHandle] = {}
        self._ringing: set[asyncio.Task[None]] = set()
        self._stopped = False

    def set(self, stream: bytes, until: int) -> None:
        """``until`` in microseconds since the epoch. One timer a run: the latest counts."""
        self.drop(stream)
        seconds = max(until - self._clock.now_us(), 0) / 1_000_000
        if not self._stopped and seconds <= MOST_S:
            self._handles[stream] = asyncio.get_running_loop().call_later(seconds, self._ring, stream)

    def drop(self, stream: bytes) -> None:
        handle = self._handles.pop(stream, None)
        if handle is not None:
            handle.cancel()

    async def stop(self) -> None:
        """No timer rings any more, and what is being woken is: who drains sees every run that is driven."""
        self._stopped = True
        for stream in list(self._handles):
            self.drop(stream)
        await asyncio.gather(*self._ringing, return_exceptions=True)

    def _ring(self, stream: bytes) -> None:
        self._handles.pop(stream, None)
        task = asyncio.create_task(self._woken(stream), name=f"timer-{stream.hex()}")
        self._ringing.add(task)
        task.add_done_callback(self._ringing.discard)

    async def _woken(self, stream: bytes) -> None:
        try:
            await self._wake(stream)
        except DevAssistError:
            log.exception("run %s could not be woken at its time; the sweep will", stream.hex())
