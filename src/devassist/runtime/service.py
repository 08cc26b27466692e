"""The facade: begin a run, wait for it, cancel it; take over what nobody drives; drain.

API, worker and CLI speak to this and to nothing below it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf

from devassist.core.errors import DevAssistError, Draining, Superseded
from devassist.core.events import CORE_FLAGS
from devassist.core.scope import SYSTEM, Scope
from devassist.core.signals import CancelRequested
from devassist.core.states import CLOSED, State
from devassist.ports.bus import Bus
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Head, HeadQuery, Heads, Journal
from devassist.ports.vault import Vault
from devassist.runtime.driver import Driver
from devassist.runtime.faults import point
from devassist.runtime.held import Gate
from devassist.runtime.history import History
from devassist.runtime.leases import Leases
from devassist.runtime.ownership import own_head
from devassist.runtime.run import ActiveRun
from devassist.runtime.starting import Bounds, Started, Starter, StartRun
from devassist.runtime.timers import Timers
from devassist.runtime.view import Placed, RunView, load
from devassist.runtime.waiting import Waiters

log = logging.getLogger("devassist.runtime")

SWEEP_S = 1.0
WATCH_S = 0.1
"""How often leases are looked at. Timers of a process that was stopped ring in the order in which they were due, and a
tool's, under a lease that has passed, must not be before this one."""
LOOK_S = 0.1
"""How soon a waiter sees what another process did to its run."""
MAX_FAULTS = 3
"""Times that our own fault stops a run, before the run is failed: it would hold up its conversation for ever."""
_MOST = 10_000
_STATES = frozenset(str(s) for s in CLOSED)


class Service:
    """One per process. ``open`` before use, ``drain`` before exit."""

    def __init__(
        self, journal: Journal, heads: Heads, vault: Vault, clock: Clock, bus: Bus, driver: Driver, history: History,
        bounds: Bounds, gate: Gate | None = None,
    ) -> None:  # fmt: skip
        self.journal, self.heads, self.vault, self.bus = journal, heads, vault, bus
        self._clock, self._driver, self._history, self._bounds = clock, driver, history, bounds
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._leases = Leases(clock, bounds.lease_us)
        driver.lease_ends = self._leases.ends
        self._waiters = Waiters()
        self.ended: Callable[[RunView], None] = lambda _: None
        """Told of each run that ends here, while it is in memory: who wants it then need not read it back."""
        self._folded: dict[bytes, tuple[int, float]] = {}
        self._faults = Counter[bytes]()
        self._starter = Starter(vault, clock, bounds)
        self._timers = Timers(clock, self._take)
        self._background: list[asyncio.Task[None]] = []
        self._gate = gate or Gate()
        self._draining = False
        self._drives = False

    # -- life ----------------------------------------------------------------------------------------------------

    async def open(self, *, sole_driver: bool) -> None:
        """Start the sweep. ``sole_driver``: the caller holds the directory's lock, so every older lease is void and
        unfinished runs are taken over at once."""
        self._drives = True
        if sole_driver:
            await self.heads.reclaim(SYSTEM)
        await self.sweep()
        renew_s = self._bounds.lease_s / 3
        self._background = [
            asyncio.create_task(self._every(SWEEP_S, self.sweep), name="sweep"),
            asyncio.create_task(self._every(renew_s, self._renew), name="renew"),
            asyncio.create_task(self._every(min(renew_s / 4, WATCH_S), self._watch), name="watch"),
        ]

    @property
    def draining(self) -> bool:
        return self._draining

    def stop_accepting(self, grace_s: float = 3.0) -> None:
        """From now on ``start`` raises Draining, followers end their streams, and after ``grace_s`` so does who waits
        for a run's answer. Idempotent."""
        if self._draining:
            return
        self._draining = True
        self.bus.touch_all()
        asyncio.get_running_loop().call_later(grace_s, self._waiters.let_go)

    async def drain(self, grace_s: float = 5.0) -> None:
        """Stop accepting, let runs finish within ``grace_s``, then leave the rest to the next process. Idempotent."""
        self.stop_accepting()
        await self._timers.stop()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace_s)
        # Leases are kept until nothing is done under them any more.
        tasks = [*self._tasks.values(), *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.heads.release(SYSTEM, self._leases.held())
        self._waiters.let_go()

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await action()
            except asyncio.CancelledError:
                raise
            except Exception:  # the loop must outlive one bad turn: the next one tries again
                log.exception("background task failed")

    # -- starting ------------------------------------------------------------------------------------------------

    async def start(self, scope: Scope, start: StartRun) -> Started:
        """Append INIT; when this returns the run survives anything.

        Raises Draining, HeldStart, Overloaded, ConversationBusy, IdempotencyMismatch, RunNotFound (``replaces``).
        """
        if self._draining:
            raise Draining("the service is shutting down; try again in a moment")
        self._gate.check()
        ends = self._leases.from_now()
        run, started, texts = await self._starter.prepare(scope, start)
        stream = run.stream
        if start.watched:
            self.bus.watch(stream)
        try:
            begun = await self.journal.begin(scope, run)
        except BaseException:  # a caller that went away watches no more either
            if start.watched:
                self.bus.unwatch(stream)
            raise
        if start.watched and not begun.created:
            self.bus.unwatch(stream)
        head = begun.head
        if begun.created:
            point("after_init", stream)
        if begun.created and start.conversation is None:
            self._history.is_fresh(stream)
        if begun.claimed:
            await self._own(stream, head.epoch, ends, (started, 0, run.at), texts)
        driven = head.driving or head.state in _STATES
        return Started(head.stream, head.conversation or run.conversation, begun.created, driven)

    # -- driving -------------------------------------------------------------------------------------------------

    async def _own(
        self, stream: bytes, epoch: int, ends: int, init: Placed | None = None, texts: dict[str, str] | None = None
    ) -> None:
        """Drive what was claimed; if the service was told to stop meanwhile, it is for the next process."""
        if self._draining:
            await self.heads.release(SYSTEM, [(stream, epoch)])
            return
        self._leases.hold(stream, epoch, ends)
        self._timers.drop(stream)
        task = asyncio.create_task(self._drive(stream, epoch, init, texts), name=f"run-{stream.hex()}")
        self._tasks[stream] = task

    async def _drive(self, stream: bytes, epoch: int, init: Placed | None, texts: dict[str, str] | None) -> None:
        run: ActiveRun | None = None
        try:
            run = await self._driver.load(stream, epoch, None if init is None else [init], texts)
            if run.state.closed or (self._faults[stream] < MAX_FAULTS and not run.erased):
                await self._driver.drive(run)
            elif run.erased:
                await self._driver.give_up(run, "text_erased", 410)
            else:
                await self._driver.give_up(run, "service_fault", 500)
            await self._parked(run)
            self._faults.pop(stream, None)
        except Superseded:
            self._leases.drop(stream)
            if run is not None:
                await self._hand_over(run)
        except asyncio.CancelledError:
            if run is not None:
                await self._keep(run)
            raise
        except Exception as error:  # must not take the process down; the lease passes, and the run is tried again
            log.exception("run %s stopped with a fault of the service", stream.hex())
            self._leases.drop(stream)
            self._faults[stream] += not (isinstance(error, DevAssistError) and error.retryable)
        finally:
            self._tasks.pop(stream, None)
            self._driver.forget(stream)
            view = self._waiters.settle(stream, run)
            if view is not None and view.state.closed:
                self.ended(view)

    async def _keep(self, run: ActiveRun) -> None:
        """The process ends: what the run has in hand is recorded all the same."""
        try:
            await run.keep()
        except DevAssistError:
            log.exception("an outcome of run %s could not be recorded", run.stream.hex())

    async def _hand_over(self, run: ActiveRun) -> None:
        """Another drives the run now: what this one still has in hand goes to it."""
        try:
            await run.deliver()
        except DevAssistError:
            log.exception("an outcome of run %s could not be handed over", run.stream.hex())

    async def _parked(self, run: ActiveRun) -> None:
        """Closed, or waiting for something: let go of the run."""
        epoch = self._leases.drop(run.stream)
        state = run.state
        if state.closed:
            self._folded.pop(run.stream, None)
            if run.woken is not None:
                await self._take(run.woken)
            return
        self._folded[run.stream] = state.seq, state.wait_until if state.state is State.WAIT else inf
        if epoch is not None:
            await self.heads.release(SYSTEM, [(run.stream, epoch)])
        if state.state is State.WAIT:
            self._timers.set(run.stream, state.wait_until)

    async def _take(self, stream: bytes, *, aside: bool = False) -> None:
        """Claim a run and drive it, unless another has it. A process that was never opened only appends signals.
        ``aside``: it waits for its turn and is cancelled, so it ends where it stands."""
        if stream in self._tasks or self._draining or not self._drives or self._gate.shut:
            return
        head = await self.heads.head(SYSTEM, stream)
        if head.flags and not CORE_FLAGS.issuperset(head.flags.split(",")):
            return
        now, ends = self._clock.now_us(), self._leases.from_now()
        epoch = await self.heads.claim(SYSTEM, stream, now, now + self._bounds.lease_us, aside=aside)
        if epoch is not None:
            point("after_claim", stream)
            await self._own(stream, epoch, ends)

    async def sweep(self) -> None:
        """Take over what is due: woken, timed out, abandoned by a dead driver, or next in its conversation."""
        if self._gate.shut:
            return
        now = self._clock.now_us()
        wanted: list[bytes] = []
        for head in await self.heads.due(SYSTEM, now, _MOST):
            seq, until = self._folded.get(head.stream, (-1, 0))
            nothing_new = seq == head.head_seq and now < until
            if head.stream not in self._tasks and not nothing_new:
                wanted.append(head.stream)
        await asyncio.gather(*map(self._take, wanted))  # claims made together share a commit
        busy = ("LLM_DECIDE", "TOOL_EXECUTE") if self._tasks else ()
        for head in await self.heads.list(SYSTEM, HeadQuery(states=("INIT", *busy), limit=_MOST)):
            if head.wake_at and head.stream in self._tasks:
                await self._driver.notice(head.stream)
            elif head.wake_at and _waits(head) and await self._is_cancelled(head.stream):
                await self._take(head.stream, aside=True)

    async def _is_cancelled(self, stream: bytes) -> bool:
        news = await self.journal.read(SYSTEM, stream, 0)
        return any(record.kind == CancelRequested.kind for record in news)

    async def _renew(self) -> None:
        asked, ends = self._leases.held(), self._leases.from_now()
        lost = await self.heads.renew(SYSTEM, asked, self._clock.now_us() + self._bounds.lease_us)
        self._leases.renewed(asked, lost, ends)
        for stream in lost:
            if self._leases.drop(stream) is not None:  # else it was let go of meanwhile: nothing is done under it
                self._driver.abandon(stream)

    async def _watch(self) -> None:
        """A lease that could not be renewed in time: nothing more is done under it."""
        for stream in self._leases.over():
            self._driver.abandon(stream)

    # -- following -----------------------------------------------------------------------------------------------

    async def wait(self, scope: Scope, stream: bytes) -> RunView:
        """The run once it is closed or waits for a person; whether the caller may see it was asked before. Raises
        RunNotFound, and Draining when the process stops."""
        while True:
            if stream not in self._tasks:
                head = await self.heads.head(scope, stream)
                if head.state in _STATES or head.state == "AWAIT_APPROVAL":
                    return await load(self.journal, scope, stream)
            view = await self._waiters.next(stream, None if stream in self._tasks else LOOK_S)
            if view is not None:
                return view
            if self._draining:
                raise Draining("the service is shutting down; the run goes on after the restart, ask for it by its id")

    async def view(self, scope: Scope, stream: bytes) -> RunView:
        """The run as the journal has it now. Raises RunNotFound, also for a run that the caller may not see."""
        head = await own_head(self.heads, self.vault, scope, stream)
        return replace(await load(self.journal, scope, stream), driven=head.driving)

    async def cancel(self, scope: Scope, stream: bytes) -> bool:
        """Ask that the run end; false when it is closed already. Raises RunNotFound, also for a run that the caller may
        not see."""
        head = await own_head(self.heads, self.vault, scope, stream)
        if head.state in _STATES:
            return False
        actor = await self.vault.domain(scope, "user", scope.actor)
        event = CancelRequested(f"cancel:{actor.hex()}", actor.hex())
        now = self._clock.now_us()
        seq = await self.journal.signal(scope, stream, event.signal_id, Body.of(event), now)
        if seq is None:
            return False
        self._driver.interrupt(stream)
        await self.wake(stream, aside=_waits(head))
        return True

    async def wake(self, stream: bytes, *, aside: bool = False) -> None:
        """A signal was appended to a run: drive it, unless somebody does, who folds the news with the next event."""
        self.bus.touch(stream)
        await self._take(stream, aside=aside)


def _waits(head: Head) -> bool:
    """Whether the run waits for its turn."""
    return head.state == "INIT" and not head.driving
