"""Leases by the clock that no sleeping host stops: what is done under one ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

from devassist.core.events import ToolIntended, ToolReturned
from devassist.core.scope import Scope
from devassist.core.signals import LateOutcome
from devassist.llm.scripted import Scripted
from devassist.ports.tools import CallContext
from devassist.runtime import faults
from devassist.runtime.leases import Leases
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from tests.runtime.read import of
from tests.runtime.rig import USER, build, rig
from tests.runtime.world import MovedClock, World, call, final, forever, until


@pytest.fixture
def hook() -> Iterator[None]:
    yield
    faults.set_hook(None)


def test_a_lease_holds_from_when_it_was_asked_for() -> None:
    """It ends one lease after the question, a renewal moves only what was renewed, and over is what has passed."""
    clock = MovedClock()
    leases = Leases(clock, 10_000_000)
    ends = leases.from_now()
    for name in (b"a", b"b", b"c"):
        leases.hold(name, 1, ends)
    clock.forward(9)
    asked = leases.held()
    leases.hold(b"c", 2, ends)  # taken anew meanwhile
    leases.renewed(asked, [b"b"], leases.from_now())
    clock.forward(2)
    assert (leases.ends(b"a") > ends, sorted(leases.over())) == (True, [b"b", b"c"])
    assert (leases.drop(b"c"), leases.drop(b"c"), leases.ends(b"c")) == (2, None, 0)


async def test_an_effect_is_killed_when_its_lease_ends() -> None:
    """A driver that could not renew stops its tool and appends nothing; who drives next records the doubt."""
    world, clock = World(), MovedClock()
    world.does["pay"] = forever
    tools = [world.tool("pay", "once", timeout_s=600)]
    async with rig([call("pay"), final()], tools, clock=clock, on_unknown="tell") as made:
        asked = asyncio.create_task(made.ask())
        await until(lambda: world.running)
        clock.forward(16)
        await made.service._watch()
        await until(lambda: not world.running)
        await made.service.sweep()
        view = await asked
    returned = of(view, ToolReturned)
    assert [(e.outcome, e.code) for e in returned] == [("unknown", "interrupted")]
    assert view.state.epoch == 2


class Late(MemoryJournal):
    """Whose renewals come to their turn only after what was to be renewed has ended."""

    async def renew(self, scope: Scope, leases: Sequence[tuple[bytes, int]], lease_until: int) -> list[bytes]:
        await self.before()
        return await super().renew(scope, leases, lease_until)

    before: Callable[[], Coroutine[Any, Any, None]]


async def test_a_run_that_ended_while_its_lease_was_renewed_is_not_lost() -> None:
    """The store renews nothing that is over; nobody is told to let go of a run that is let go of already."""
    world, go, vault = World(), asyncio.Event(), MemoryVault()

    async def waits(text: str, context: CallContext) -> Any:
        return await go.wait()

    world.does["look"] = waits
    made = build(Late(vault), vault, Scripted([call("look"), final()]), world.tools())

    async def ends() -> None:
        go.set()
        await until(lambda: not made.service._tasks)

    made.journal.before = ends
    asked = asyncio.create_task(made.ask())
    await until(lambda: world.running)
    await made.service._renew()
    view = await asked
    assert (str(view.state.state), made.driver._lost) == ("FINAL_ANSWER", set())
    await made.service.drain()


@pytest.mark.usefixtures("hook")
async def test_no_effect_is_begun_once_the_lease_is_over() -> None:
    """A driver that slept between intent and effect makes no call, and says that it made none."""
    world, clock = World(), MovedClock()

    def sleeps(name: str, _: bytes) -> None:
        if name == "after_tool_intent":
            clock.forward(16)

    faults.set_hook(sleeps)
    async with rig([call("pay"), final()], [world.tool("pay", "once", timeout_s=600)], clock=clock) as made:
        started = await made.service.start(USER, made.start_run())
        view = await made.service.wait(USER, started.stream)
    assert len(of(view, ToolIntended)) == 1
    told = [(e.outcome, e.code) for e in [*of(view, ToolReturned), *of(view, LateOutcome)] if e.outcome != "unknown"]
    assert told == [("failed", "tool_not_started")]
    assert world.seen == []
