"""Containers kept ready. Each is used once and replaced; when none is ready, one is made on the spot.

Replacing costs as much as making one on the spot: the pool saves callers the wait, it makes the machine no faster. So
few are made ahead at a time, and none while a caller waits for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.engine import EngineError
from devassist.sandbox.slot import Slot
from devassist.sandbox.stats import Counts

log = logging.getLogger(__name__)
_AGAIN_S = (0.0, 0.2, 1.0, 3.0)
_BACK_OFF_S = (0.5, 30.0)
CLOSE_S = 60.0


class Pool:
    """``make`` gives an unbooted Slot, ``boot`` boots it (True: as a warm one). ``backlog`` bounds the containers that
    wait for their removal: above it callers wait."""

    def __init__(
        self,
        make: Callable[[], Slot],
        boot: Callable[[Slot, bool], Awaitable[None]],
        counts: Counts,
        *,
        size: int,
        builders: int,
        backlog: int,
    ) -> None:
        self._make = make
        self._boot = boot
        self._counts = counts
        self._size = size
        self._builders = builders
        self._backlog = backlog
        self._ready: deque[Slot] = deque()
        self._ahead = 0  # being made ahead
        self._waited_for = 0  # being made for a caller
        self._short = asyncio.Event()
        self._over = asyncio.Event()
        self._out: set[Slot] = set()  # with programs
        self._none_out = asyncio.Event()
        self._none_out.set()
        self._fillers: list[asyncio.Task[None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._removals: set[asyncio.Task[None]] = set()

    @property
    def closing(self) -> bool:
        return self._over.is_set()

    @property
    def warm(self) -> int:
        return len(self._ready)

    def start(self) -> None:
        """Begin to fill."""
        self._fillers = [asyncio.create_task(self._fill()) for _ in range(min(self._builders, self._size))]
        self._look()

    async def take(self) -> Slot:
        """A container for one program; ``dispose`` it afterwards. Raises SandboxUnavailable."""
        while len(self._removals) >= self._backlog:
            await asyncio.wait(self._removals, return_when=asyncio.FIRST_COMPLETED)
        slot = self._warm()
        if slot is None:
            self._counts.cold += 1
            slot = await self._cold()
        else:
            self._counts.warm += 1
        self._out.add(slot)
        self._none_out.clear()
        return slot

    def _warm(self) -> Slot | None:
        while self._ready:
            slot = self._ready.popleft()
            self._look()
            if not slot.gone:
                return slot
            self.dispose(slot)  # the engine was restarted, say
        return None

    async def _cold(self) -> Slot:
        # A task of its own: a call to the engine that is broken off in the middle may still make a container.
        self._waited_for += 1
        self._look()
        task = asyncio.create_task(self._build(warm=False))
        self._tasks.add(task)
        task.add_done_callback(self._built)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._unwanted)
            raise

    def _built(self, task: asyncio.Task[Slot]) -> None:
        self._tasks.discard(task)
        self._waited_for -= 1
        self._look()

    def _unwanted(self, task: asyncio.Task[Slot]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.dispose(task.result())

    async def _build(self, *, warm: bool) -> Slot:
        if self.closing:
            raise SandboxUnavailable("The sandbox is closed")
        slot = self._make()
        try:
            await self._boot(slot, warm)
        except EngineError as error:
            self.dispose(slot)
            raise SandboxUnavailable(f"The Docker engine could not make a sandbox: {error.message}") from None
        except BaseException:
            self.dispose(slot)
            raise
        return slot

    def dispose(self, slot: Slot) -> asyncio.Task[None]:
        """Remove a container, in the background; everything in it is killed."""
        slot.close()
        self._out.discard(slot)
        if not self._out:
            self._none_out.set()
        task = asyncio.create_task(self._remove(slot))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)
        return task

    async def _remove(self, slot: Slot) -> None:
        fault = ""
        for pause in _AGAIN_S:
            await asyncio.sleep(pause)
            try:
                await slot.remove()
            except (EngineError, SandboxUnavailable) as error:
                fault = str(error)
            else:
                return
        self._counts.leaks += 1
        log.error("A sandbox could not be removed; the next start will try again", extra={"fault": fault})

    def _look(self) -> None:
        """Wake the fillers when there is something to do for them."""
        short = len(self._ready) + self._ahead < self._size and not self._waited_for
        if short or self.closing:
            self._short.set()
        else:
            self._short.clear()

    async def _fill(self) -> None:
        pause, most = _BACK_OFF_S
        while True:
            await self._short.wait()
            if self.closing:
                return
            self._ahead += 1
            self._look()
            try:
                slot = await self._build(warm=True)
            except SandboxUnavailable as error:
                log.warning("A sandbox could not be made ahead", extra={"fault": error.detail})
                await self._rest(pause)
                pause = min(pause * 2, most)
            else:
                self._ready.append(slot)
                pause = _BACK_OFF_S[0]
            finally:
                self._ahead -= 1
                self._look()

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def close(self) -> None:
        """End what runs, let what is being made be finished, and remove everything. Idempotent."""
        self._over.set()
        self._look()
        for slot in self._out:
            slot.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._none_out.wait(), CLOSE_S)
        making = {*self._fillers, *self._tasks}
        if making:
            await asyncio.wait(making, timeout=CLOSE_S)
        while self._ready:
            self.dispose(self._ready.popleft())
        if self._removals:
            await asyncio.wait(set(self._removals), timeout=CLOSE_S)
