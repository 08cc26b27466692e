"""Timers that wake runs at the time which their wait names."""

from __future__ import annotations

import asyncio

import pytest

from devassist.core.errors import Unavailable
from devassist.runtime.clock import SystemClock
from devassist.runtime.timers import MOST_S, Timers
from tests.runtime.world import MovedClock, until

A, B = b"a" * 16, b"b" * 16


class Woken:
    """What was woken, when; ``hold`` delays it, ``fault`` fails it."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.at: list[tuple[bytes, int]] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.fault: Exception | None = None
        self.timers = Timers(self.clock, self.wake)

    async def wake(self, stream: bytes) -> None:
        self.at.append((stream, self.clock.now_us()))
        await self.hold.wait()
        if self.fault is not None:
            raise self.fault
        self.at.append((stream, 0))

    @property
    def kept(self) -> int:
        return len(self.timers._handles) + len(self.timers._ringing)


async def test_a_run_is_woken_at_its_time() -> None:
    """Not before it, and once; the earlier ones first; nothing is kept of it."""
    woken = Woken()
    now = woken.clock.now_us()
    woken.timers.set(A, now + 60_000)
    woken.timers.set(B, now - 1)
    await until(lambda: len(woken.at) == 4)
    times = {stream: at for stream, at in woken.at if at}
    assert [stream for stream, at in woken.at if at] == [B, A]
    assert times[A] >= now + 60_000
    await until(lambda: woken.kept == 0)


async def test_the_latest_time_counts() -> None:
    """A run has one timer; a dropped one does not ring."""
    woken = Woken()
    now = woken.clock.now_us()
    for _ in range(50):
        woken.timers.set(A, now + 30_000)
    woken.timers.set(A, now + 3_600_000_000)
    woken.timers.set(B, now + 30_000)
    woken.timers.drop(B)
    assert woken.kept == 0
    await asyncio.sleep(0.1)
    assert woken.at == []


async def test_long_waits_are_left_to_the_sweep() -> None:
    """A timer is kept for a minute at most, so that what is kept is bounded by what waits for that long."""
    timers = Timers(MovedClock(), Woken().wake)
    now = MovedClock().now_us()
    for number in range(100):
        timers.set(bytes([number]) * 16, now + int((MOST_S + 5) * 1_000_000))
    assert timers._handles == {}


async def test_a_run_that_cannot_be_woken_is_left_to_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    """It is said in the log, and other timers go on."""
    woken = Woken()
    woken.fault = Unavailable("the disk is full")
    woken.timers.set(A, 0)
    await until(lambda: "could not be woken" in caplog.text)
    woken.fault = None
    woken.timers.set(B, 0)
    await until(lambda: (B, 0) in woken.at)


async def test_stopping_waits_for_what_is_being_woken() -> None:
    """After it nothing rings any more."""
    woken = Woken()
    woken.hold.clear()
    woken.timers.set(A, 0)
    woken.timers.set(B, woken.clock.now_us() + 50_000)
    await until(lambda: woken.at)
    stopping = asyncio.create_task(woken.timers.stop())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    woken.hold.set()
    await stopping
    assert woken.at[-1] == (A, 0)
    woken.timers.set(B, 0)
    await asyncio.sleep(0.1)
    assert B not in dict(woken.at)
    assert woken.kept == 0
