"""Leases by the clock that no sleeping host stops: what is done under one ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from devassist.core.events import ToolIntended, ToolReturned
from devassist.core.signals import LateOutcome
from devassist.runtime import faults
from devassist.runtime.leases import Leases
from tests.runtime.read import of
from tests.runtime.rig import USER, rig
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
