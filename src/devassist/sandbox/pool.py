"""Containers kept ready. Each is used once and replaced; when none is ready, one is made on the spot.

Replacing costs more than making one on the spot, for what is made ahead also loads what programs usually import: the
pool saves callers the wait, it makes the machine no faster. So nothing is made ahead while callers wait, nor in the
moments after; and whoever waits gets the first container that is finished, whatever it was begun for.
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
QUIET_S = 0.25
"""So long nobody has to have waited before containers are made ahead."""
CLOSE_S = 60.0
_CLOSED = "The sandbox is closed"


class Pool:
    """``make`` gives an unbooted Slot, ``boot`` boots it (True: ahead of its program). ``size`` of them are kept ready,
    at most ``builders`` being made ahead at a time. ``backlog`` bounds the containers that wait for their removal:
    above it callers wait."""

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
        self._started = False
        self._ready: deque[Slot] = deque()
        self._waiting: deque[asyncio.Future[Slot]] = deque()
        self._making: set[asyncio.Task[None]] = set()
        self._quiet_at = 0.0  # when containers may be made ahead
        self._pause = _BACK_OFF_S[0]
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._out: set[Slot] = set()  # with programs
        self._none_out = asyncio.Event()
        self._none_out.set()
        self._removals: set[asyncio.Task[None]] = set()

    @property
    def closing(self) -> bool:
        return self._closing

    @property
    def warm(self) -> int:
        return len(self._ready)

    def start(self) -> None:
        """Begin to fill."""
        self._started = True
        self._look()

    async def take(self) -> Slot:
        """A container for one program; ``dispose`` it afterwards. Raises SandboxUnavailable."""
        while len(self._removals) >= self._backlog:
            await asyncio.wait(self._removals, return_when=asyncio.FIRST_COMPLETED)
        if self._closing:
            raise SandboxUnavailable(_CLOSED)
        slot = self._pop()
        if slot is None:
            self._counts.cold += 1
            slot = await self._next()
        else:
            self._counts.warm += 1
        self._out.add(slot)
        self._none_out.clear()
        return slot

    def _pop(self) -> Slot | None:
        while self._ready:
            slot = self._ready.popleft()
            self._look()
            if not slot.gone:
                return slot
            self.dispose(slot)  # the engine was restarted, say
        return None

    async def _next(self) -> Slot:
        """The next one that is finished. Who stops waiting leaves it to others: a call to the engine is never broken
        off in the middle, which may still make a container."""
        turn: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._look()
        try:
            return await asyncio.shield(turn)  # so that only `_built` and `_failed` settle it
        except asyncio.CancelledError:
            if turn.done() and turn.exception() is None:
                self._built(turn.result())
            elif not turn.done():
                self._waiting.remove(turn)
                self._look()
            raise

    def _look(self) -> None:
        """Begin what there is to be made now, or come again when it may be."""
        while len(self._making) < len(self._waiting):
            self._begin(ahead=False)
        if self._waiting or self._closing or not self._started:
            return
        loop = asyncio.get_running_loop()
        while len(self._making) < min(self._size - len(self._ready), self._builders):
            if loop.time() < self._quiet_at:
                self._timer = self._timer or loop.call_at(self._quiet_at, self._again)
                return
            self._begin(ahead=True)

    def _again(self) -> None:
        self._timer = None
        self._look()

    def _rest(self, seconds: float) -> None:
        self._quiet_at = max(self._quiet_at, asyncio.get_running_loop().time() + seconds)

    def _begin(self, *, ahead: bool) -> None:
        task = asyncio.create_task(self._build(ahead=ahead))
        self._making.add(task)

        def over(_: asyncio.Task[None]) -> None:
            self._making.discard(task)
            self._look()

        task.add_done_callback(over)

    async def _build(self, *, ahead: bool) -> None:
        slot = self._make()
        try:
            await self._boot(slot, ahead)
        except EngineError as error:
            self.dispose(slot)
            self._failed(f"The Docker engine could not make a sandbox: {error.message}")
        except SandboxUnavailable as error:
            self.dispose(slot)
            self._failed(error.detail)
        except BaseException:
            self.dispose(slot)
            raise
        else:
            self._pause = _BACK_OFF_S[0]
            self._built(slot)

    def _built(self, slot: Slot) -> None:
        """Whoever waits longest gets it, else it is kept."""
        if self._waiting:
            self._rest(QUIET_S)
            self._waiting.popleft().set_result(slot)
        elif self._closing or len(self._ready) >= self._size:
            self.dispose(slot)
        else:
            self._ready.append(slot)

    def _failed(self, fault: str) -> None:
        """Whoever waits longest is told; where nobody does, it is tried again after a while."""
        if self._waiting:
            self._waiting.popleft().set_exception(SandboxUnavailable(fault))
        else:
            log.warning("A sandbox could not be made ahead", extra={"fault": fault})
        self._rest(self._pause)
        self._pause = min(self._pause * 2, _BACK_OFF_S[1])

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

    async def close(self) -> None:
        """End what runs, let what is being made be finished, and remove everything. Idempotent."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._waiting.popleft().set_exception(SandboxUnavailable(_CLOSED))
        for slot in self._out:
            slot.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._none_out.wait(), CLOSE_S)
        making: set[asyncio.Task[Any]] = set(self._making)
        if making:
            await asyncio.wait(making, timeout=CLOSE_S)
        while self._ready:
            self.dispose(self._ready.popleft())
        if self._removals:
            await asyncio.wait(set(self._removals), timeout=CLOSE_S)
