"""Which containers are made, when, and who gets them: the pool over containers that exist only here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.pool import Pool
from devassist.sandbox.slot import Slot
from devassist.sandbox.stats import Counts
from tests.runtime.world import until


class Container:
    """A slot of no engine. ``finish`` ends its making, with a fault if there is one."""

    def __init__(self) -> None:
        self.gone = False
        self.removed = False
        self.ahead = False
        self.made: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        pass

    async def remove(self) -> None:
        self.removed = True

    def finish(self, fault: str = "") -> None:
        if fault:
            self.made.set_exception(SandboxUnavailable(fault))
        else:
            self.made.set_result(None)


class Yard:
    """A pool, and the containers in the order in which they were begun."""

    def __init__(self, size: int) -> None:
        self.begun: list[Container] = []
        self.taken: list[Slot] = []
        self.over = False
        self.counts = Counts()
        self.pool = Pool(self._make, self._boot, self.counts, size=size, builders=1, backlog=16)

    def _make(self) -> Slot:
        return cast("Slot", Container())

    async def _boot(self, slot: Slot, ahead: bool) -> None:
        container = cast("Container", slot)
        container.ahead = ahead
        self.begun.append(container)
        if not self.over:
            await container.made

    async def take(self) -> Slot:
        self.taken.append(await self.pool.take())
        return self.taken[-1]

    async def begun_are(self, count: int) -> None:
        await until(lambda: len(self.begun) == count)


@asynccontextmanager
async def yard(size: int) -> AsyncGenerator[Yard]:
    it = Yard(size)
    it.pool.start()
    try:
        yield it
    finally:
        it.over = True
        for container in it.begun:
            if not container.made.done():
                container.finish()
        for slot in it.taken:
            it.pool.dispose(slot)
        await it.pool.close()
        assert all(container.removed for container in it.begun)


def same(slot: Any, container: Container) -> bool:
    return slot is container


async def test_whoever_waits_gets_the_one_that_is_being_made_ahead() -> None:
    """No second one is begun for the first caller, and one is for the second."""
    async with yard(1) as it:
        await it.begun_are(1)
        first = asyncio.create_task(it.take())
        await asyncio.sleep(0)
        assert len(it.begun) == 1
        second = asyncio.create_task(it.take())
        await it.begun_are(2)
        it.begun[0].finish()
        assert same(await first, it.begun[0])
        it.begun[1].finish()
        assert same(await second, it.begun[1])
        assert [container.ahead for container in it.begun] == [True, False]
        assert (it.counts.warm, it.counts.cold) == (0, 2)


async def test_nothing_is_made_ahead_while_callers_wait_nor_right_after() -> None:
    """Under load each container is made for a caller, without what is loaded ahead; in the quiet the pool fills."""
    async with yard(2) as it:
        await it.begun_are(1)
        waiting = [asyncio.create_task(it.take()) for _ in range(3)]
        await it.begun_are(3)
        for container in it.begun:
            container.finish()
        await asyncio.gather(*waiting)
        await asyncio.sleep(0)
        assert len(it.begun) == 3
        await it.begun_are(4)
        assert [container.ahead for container in it.begun] == [True, False, False, True]


async def test_who_stops_waiting_leaves_the_container_to_others() -> None:
    """It is finished, kept ready, and found by the next caller."""
    async with yard(1) as it:
        await it.begun_are(1)
        given_up = asyncio.create_task(it.take())
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        it.begun[0].finish()
        await until(lambda: it.pool.warm == 1)
        assert same(await it.take(), it.begun[0])
        assert (it.counts.warm, it.counts.cold) == (1, 1)


async def test_a_failed_making_is_told_to_who_waits_and_tried_again_for_the_next() -> None:
    """One failure is one caller's."""
    async with yard(0) as it:
        failing = asyncio.create_task(it.take())
        await it.begun_are(1)
        it.begun[0].finish("the engine says no")
        with pytest.raises(SandboxUnavailable, match="the engine says no"):
            await failing
        later = asyncio.create_task(it.take())
        await it.begun_are(2)
        it.begun[1].finish()
        assert same(await later, it.begun[1])


async def test_closing_tells_who_waits_and_removes_what_is_finished_later() -> None:
    """No program is begun in a pool that closes."""
    it = Yard(0)
    waiting = asyncio.create_task(it.take())
    await it.begun_are(1)
    closing = asyncio.create_task(it.pool.close())
    with pytest.raises(SandboxUnavailable, match="closed"):
        await waiting
    it.begun[0].finish()
    await closing
    assert it.begun[0].removed
    with pytest.raises(SandboxUnavailable, match="closed"):
        await it.take()


async def test_one_that_is_gone_is_not_given_away() -> None:
    """As after a restart of the engine: it is removed, and another one made."""
    async with yard(1) as it:
        await it.begun_are(1)
        it.begun[0].finish()
        await until(lambda: it.pool.warm == 1)
        it.begun[0].gone = True
        taken = asyncio.create_task(it.take())
        await it.begun_are(2)
        it.begun[1].finish()
        assert same(await taken, it.begun[1])
        await until(lambda: it.begun[0].removed)
