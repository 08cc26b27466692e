"""Waiting for a run, and looking at it."""

from __future__ import annotations

import asyncio

import pytest

from devassist.core.errors import RunNotFound
from devassist.core.scope import Scope
from devassist.core.states import State
from devassist.llm.scripted import Scripted
from devassist.runtime import faults
from devassist.runtime.view import RunView
from tests.runtime.read import answer, parked
from tests.runtime.rig import USER, build, rig
from tests.runtime.world import World, call, final, until


async def test_all_who_wait_get_the_same() -> None:
    """Many waiters, one run; who comes after its end reads it from the journal."""
    async with rig([[final("Here."), ("", 20)]]) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        views = await asyncio.gather(*(made.service.wait(USER, stream) for _ in range(5)))
        later = await made.service.wait(USER, stream)
    assert {answer(view) for view in views} == {"Here."}
    assert later.placed == views[0].placed
    assert later.texts == views[0].texts


async def test_a_waiter_that_leaves_does_not_matter() -> None:
    """C09: the run goes on, and nothing of the waiter stays behind."""
    async with rig([[final(), ("", 30)]]) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        leaving = asyncio.create_task(made.service.wait(USER, stream))
        await asyncio.sleep(0.005)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert made.service._waiters._waiting == {}
        assert (await made.service.wait(USER, stream)).state.state is State.FINAL_ANSWER


async def test_a_run_that_waits_for_a_person_is_shown_as_it_is() -> None:
    """Waiting ends there: the caller has to do something."""
    world = World()
    async with rig([call("pay")], [world.tool("pay", "once", needs_approval=True)]) as made:
        view = await made.ask()
        assert view.state.state is State.AWAIT_APPROVAL
        await parked(made, "AWAIT_APPROVAL")
        assert (await made.service.wait(USER, view.stream)).state == view.state


async def test_a_waiter_sees_what_another_process_did() -> None:
    """The run is driven elsewhere; whoever waits here is told of its end."""
    async with rig([[final("There."), ("", 50)]]) as made:
        here = build(made.journal, made.vault, Scripted([]))
        stream = (await made.service.start(USER, made.start_run())).stream
        assert answer(await here.service.wait(USER, stream)) == "There."


async def test_unknown_runs() -> None:
    """Another tenant's run is as unknown as one that never was."""
    async with rig([final()]) as made:
        view = await made.ask()
        for scope, stream in ((USER, bytes(16)), (Scope("other", "alice"), view.stream)):
            with pytest.raises(RunNotFound):
                await made.service.wait(scope, stream)
            with pytest.raises(RunNotFound):
                await made.service.view(scope, stream)


async def test_the_end_of_a_run_is_told_as_it_was_driven() -> None:
    """Who draws ended runs need not read them back; an open run is never given out as ended."""
    world = World()
    told: list[RunView] = []
    async with rig([call("pay")], [world.tool("pay", "once", needs_approval=True)]) as made:
        made.service.ended = told.append
        view = await made.ask()
        assert told == []
        await made.service.cancel(USER, view.stream)
        ended = await made.service.wait(USER, view.stream)
        await until(lambda: bool(told))
        assert [run.placed for run in told] == [ended.placed]


async def test_an_end_that_was_not_written_is_no_end() -> None:
    """The journal refuses the last append: whoever waits is not told of an answer that is not in the record."""
    async with rig([final()]) as made:
        append, refused = made.journal.append, asyncio.Event()

        async def full(scope: object, given: object) -> object:
            if given.bodies[-1].kind == "run_finished":  # type: ignore[attr-defined]
                refused.set()
                raise OSError("no space left on device")
            return await append(scope, given)

        told: list[RunView] = []
        made.journal.append, made.service.ended = full, told.append
        stream = (await made.service.start(USER, made.start_run())).stream
        waiting = asyncio.create_task(made.service.wait(USER, stream))
        await refused.wait()
        await until(lambda: stream not in made.service._tasks)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert told == []
        made.journal.append = append
        await made.journal.release(USER, [(stream, 1)])
        await made.service.sweep()
        assert (await waiting).state.state is State.FINAL_ANSWER


async def test_the_named_points_are_passed_in_order() -> None:
    """Where a test can let a process die; production has no hook."""
    passed: list[str] = []
    world = World()
    faults.set_hook(lambda name, stream: passed.append(name))
    try:
        async with rig([call("look"), final()], world.tools()) as made:
            await made.ask()
    finally:
        faults.set_hook(None)
    assert set(passed) == set(faults.POINTS) - {"after_claim", "after_wait"}  # of runs taken over, and that wait
    model, tool = ["after_model_intent", "after_model_reply"], ["after_tool_intent", "after_tool_effect"]
    assert passed == ["after_init", *model, *tool, *model, "before_finish", "after_finish"]
