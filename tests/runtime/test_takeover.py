"""Runs of a process that is gone: at once where its death is proved, after their lease where it is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import Draining, Unavailable
from devassist.core.events import ModelFailed, ModelIntended, ToolIntended
from devassist.core.scope import SYSTEM
from devassist.core.signals import LateOutcome
from devassist.core.states import State
from devassist.llm.scripted import Scripted
from devassist.ports.journal import HeadQuery
from devassist.ports.model import ModelRequest
from devassist.runtime.clock import SystemClock
from devassist.runtime.leases import Leases
from devassist.runtime.service import MAX_FAULTS
from devassist.runtime.starting import Bounds
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from tests.runtime.read import answer, failure, kinds, of
from tests.runtime.rig import USER, Rig, build, rig
from tests.runtime.world import MovedClock, World, call, ended, final, forever, until


@asynccontextmanager
async def processes(
    path: Path, world: World, script: Any, clock: Any, count: int = 2, **options: Any
) -> AsyncIterator[Any]:
    """Rigs on one file, each with its own connections, as processes have; none is opened yet."""
    vault = FileVault(path / "keys")
    journals = [await SqliteJournal.open(path / "journal.db", vault) for _ in range(count)]
    made = [build(j, vault, Scripted(script), world.tools(timeout_s=600), clock=clock, **options) for j in journals]
    yield made
    for one in made:
        await one.service.drain(0.0)
    for journal in journals:
        await journal.close()
    await vault.close()


async def killed(made: Rig) -> None:
    """Stop everything that runs, as a crash does: no lease is given up, nothing more is written."""
    service = made.service
    service._draining = True
    everything = [*service._background, *service._tasks.values()]
    for task in everything:
        task.cancel()
    await asyncio.gather(*everything, return_exceptions=True)
    service._leases = Leases(SystemClock(), 0)


def story(request: ModelRequest) -> Any:
    """By the question: an answer at once, one after a look, or one that hangs in the model."""
    question = request.messages[1].content
    if question == "hangs" and request.attempt == 1:
        return [("Thought: ", 1), ("hm", 3_600_000)]
    return call("look") if question == "looks" and request.attempt == 1 else final(f"re {question}")


async def begin(made: Rig, *messages: str) -> list[bytes]:
    return [(await made.service.start(USER, made.start_run(m, f"c{m}"))).stream for m in messages]


async def test_the_lock_proves_that_the_old_driver_is_dead(tmp_path: Path) -> None:
    """``sole_driver``: open runs are taken over at once, however long their leases still are."""
    world = World()
    world.does["look"] = forever
    async with processes(tmp_path, world, story, MovedClock()) as (first, second):
        await first.service.open(sole_driver=True)
        streams = await begin(first, "hangs", "looks", "plain")
        await until(lambda: world.running)
        await killed(first)
        world.does.clear()
        await second.service.open(sole_driver=True)
        views = [await second.service.wait(USER, stream) for stream in streams]
    assert [answer(view) for view in views] == ["re hangs", "re looks", "re plain"]
    assert [view.state.epoch for view in views][:2] == [2, 2]
    assert [e.attempt for e in of(views[0], ModelIntended)] == [1, 2]
    assert [e.epoch for e in of(views[1], ToolIntended)] == [1, 2]


async def test_without_the_lock_a_lease_is_waited_out(tmp_path: Path) -> None:
    """Not before it passed, and then by one process only."""
    world, clock = World(), MovedClock()
    async with processes(tmp_path, world, story, clock, count=3, bounds=Bounds(lease_s=15)) as (first, *others):
        await first.service.open(sole_driver=True)
        (stream,) = await begin(first, "hangs")
        await ended(lambda: _kind(first, stream, "model_intended"))
        await killed(first)
        for other in others:
            await other.service.open(sole_driver=False)
        clock.forward(14)
        await asyncio.gather(*(other.service.sweep() for other in others))
        assert (await first.journal.head(USER, stream)).epoch == 1
        clock.forward(2)
        await asyncio.gather(*(other.service.sweep() for other in others))
        views = await asyncio.gather(*(other.service.wait(USER, stream) for other in others))
    assert views[0].placed == views[1].placed
    assert (answer(views[0]), views[0].state.epoch) == ("re hangs", 2)


async def _kind(made: Rig, stream: bytes, kind: str) -> bool:
    return (await made.journal.read(SYSTEM, stream))[-1].kind == kind


async def test_a_lease_is_renewed_while_a_run_is_driven(tmp_path: Path) -> None:
    """A long effect does not lose the run."""
    world, clock = World(), MovedClock()
    world.does["look"] = forever
    async with processes(tmp_path, world, story, clock) as (first, second):
        await first.service.open(sole_driver=True)
        await second.service.open(sole_driver=False)
        (stream,) = await begin(first, "looks")
        await until(lambda: world.running)
        for _ in range(5):
            clock.forward(10)
            await first.service._renew()
            await second.service.sweep()
        assert (await first.journal.head(USER, stream)).epoch == 1
        assert await second.service.cancel(USER, stream)
        await first.service.sweep()
        assert (await second.service.wait(USER, stream)).state.state is State.ABORTED


async def test_a_lost_lease_ends_the_effect(tmp_path: Path) -> None:
    """A process that slept past its lease kills what it was at, and begins nothing more; the other goes on."""
    world, clock = World(), MovedClock()
    world.does["look"] = forever
    async with processes(tmp_path, world, story, clock) as (first, second):
        await first.service.open(sole_driver=True)
        (stream,) = await begin(first, "looks")
        await until(lambda: world.running)
        clock.forward(20)
        world.does.clear()
        await second.service.open(sole_driver=False)
        view = await second.service.wait(USER, stream)
        await first.service._renew()
        await until(lambda: not first.service._tasks)
        assert world.running == 0
        assert (await first.service.wait(USER, stream)).placed == view.placed
    assert of(view, LateOutcome) == []
    assert answer(view) == "re looks"


async def test_a_run_that_only_lost_its_lease_is_driven_no_further(tmp_path: Path) -> None:
    """Nobody has claimed it yet: the old owner stops all the same, and the next sweep takes it anew."""
    world, clock = World(), MovedClock()
    world.does["look"] = forever
    async with processes(tmp_path, world, story, clock, count=1) as (made,):
        await made.service.open(sole_driver=True)
        (stream,) = await begin(made, "looks")
        await until(lambda: world.running)
        await made.journal.reclaim(SYSTEM)
        world.does.clear()
        await made.service._renew()
        await until(lambda: not made.service._tasks)
        assert (await made.journal.read(SYSTEM, stream))[-1].kind == "tool_intended"
        await made.service.sweep()
        view = await made.service.wait(USER, stream)
    assert (answer(view), view.state.epoch) == ("re looks", 2)


async def test_hundreds_of_runs_are_taken_over_in_one_sweep() -> None:
    """A restart does not let them wait for their turn at being noticed."""
    async with rig([[final(), ("", 3_600_000)]]) as made:
        for number in range(250):
            await made.service.start(USER, made.start_run("x", f"c{number}"))
        await killed(made)
        heirs = build(made.journal, made.vault, Scripted([final()]))
        await heirs.service.open(sole_driver=True)
        heads = await made.journal.list(SYSTEM, HeadQuery(limit=1000))
        assert [head.epoch for head in heads] == [2] * 250
        await until(lambda: not heirs.service._tasks)
        heads = await made.journal.list(SYSTEM, HeadQuery(limit=1000))
        assert {head.state for head in heads} == {"FINAL_ANSWER"}
        await heirs.service.drain(0.0)


async def test_draining_gives_runs_up_for_the_next_process(tmp_path: Path) -> None:
    """Nothing new is taken on, who waits is told, and what is open can be claimed without waiting for a lease."""
    world = World()
    world.does["look"] = forever
    async with processes(tmp_path, world, story, MovedClock()) as (first, second):
        await first.service.open(sole_driver=True)
        (stream,) = await begin(first, "looks")
        await until(lambda: world.running)
        waiting = asyncio.create_task(first.service.wait(USER, stream))
        await asyncio.sleep(0)
        await first.service.drain(0.0)
        with pytest.raises(Draining):
            await waiting
        with pytest.raises(Draining):
            await begin(first, "plain")
        world.does.clear()
        await second.service.open(sole_driver=False)
        view = await second.service.wait(USER, stream)
    assert answer(view) == "re looks"


async def test_a_run_that_ends_within_the_grace_is_finished() -> None:
    """Draining waits a little for what is nearly done."""
    async with rig([[final(), ("", 30)]]) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        waiting = asyncio.create_task(made.service.wait(USER, stream))
        await asyncio.sleep(0.01)
        await made.service.drain(2.0)
        assert (await waiting).state.state is State.FINAL_ANSWER


async def test_one_runs_fault_does_not_take_the_process_down(caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong in our own code is logged; others are not touched, and the run is taken up again later."""
    broken = True

    def script(request: ModelRequest) -> str:
        if broken and request.messages[-1].content == "bad":
            raise RuntimeError("a bug of ours")
        return final()

    clock = MovedClock()
    async with rig(script, clock=clock) as made:
        (bad, good) = await begin(made, "bad", "good")
        assert (await made.service.wait(USER, good)).state.state is State.FINAL_ANSWER
        await until(lambda: bad not in made.service._tasks)
        assert [r.levelno for r in caplog.records if r.name == "devassist.runtime"] == [logging.ERROR]
        broken = False
        clock.forward(20)
        await made.service.sweep()
        view = await made.service.wait(USER, bad)
    assert view.state.state is State.FINAL_ANSWER
    assert kinds(view)[2] == "model_failed"


async def test_a_fault_of_ours_that_does_not_go_away_fails_the_run() -> None:
    """After a few times the run ends as failed, and its conversation goes on."""

    def script(request: ModelRequest) -> str:
        if request.messages[-1].content == "bad":
            raise RuntimeError("a bug of ours")
        return final()

    clock = MovedClock()
    async with rig(script, clock=clock) as made:
        bad = (await made.service.start(USER, made.start_run("bad", "c"))).stream
        good = (await made.service.start(USER, made.start_run("good", "c"))).stream
        for _ in range(MAX_FAULTS):
            await until(lambda: bad not in made.service._tasks)
            clock.forward(20)
            await made.service.sweep()
        view = await made.service.wait(USER, bad)
        assert failure(view) == ("service_fault", 500)
        assert (await made.service.wait(USER, good)).state.state is State.FINAL_ANSWER
    assert [e.code for e in of(view, ModelFailed)] == ["interrupted"] * MAX_FAULTS


async def test_an_outcome_in_hand_outlasts_a_short_fault_of_the_store() -> None:
    """A once-effect happened and the journal cannot take it just now: it is tried again, not called into doubt."""
    world, refused = World(), 0
    async with rig([call("mail"), final()], world.tools(), clock=MovedClock()) as made:
        append = made.journal.append

        async def busy(scope: Any, given: Any) -> Any:
            nonlocal refused
            if given.bodies[0].kind == "tool_returned" and refused < 2:
                refused += 1
                raise Unavailable("the journal could not be written: BusyError: database is locked")
            return await append(scope, given)

        made.journal.append = busy
        view = await made.ask()
    assert (refused, world.done["mail"]) == (2, 1)
    assert (view.state.state, view.state.epoch) == (State.FINAL_ANSWER, 1)


async def test_a_store_that_is_not_available_fails_no_run(caplog: pytest.LogCaptureFixture) -> None:
    """C11: however often the journal cannot be written, the run goes on once it can."""
    clock, broken = MovedClock(), True
    async with rig([final()], clock=clock) as made:
        append = made.journal.append

        async def locked(scope: Any, given: Any) -> Any:
            if broken:
                raise Unavailable("the journal could not be written: BusyError: database is locked")
            return await append(scope, given)

        made.journal.append = locked
        stream = (await made.service.start(USER, made.start_run())).stream
        for _ in range(MAX_FAULTS + 2):
            await until(lambda: stream not in made.service._tasks)
            clock.forward(20)
            await made.service.sweep()
        await until(lambda: stream not in made.service._tasks)
        broken = False
        clock.forward(20)
        await made.service.sweep()
        view = await made.service.wait(USER, stream)
    assert view.state.state is State.FINAL_ANSWER
