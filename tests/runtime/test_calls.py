"""Calls of tools: together or in order, and what becomes of those that break."""

from __future__ import annotations

import asyncio
from typing import Any

from devassist.core.errors import ServiceFault
from devassist.core.events import ToolReturned
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.states import State
from tests.runtime.read import Recording, failure, of
from tests.runtime.rig import USER, rig
from tests.runtime.world import MovedClock, World, call, ended, final, forever, until


async def test_a_fault_of_ours_is_never_shown_as_output() -> None:
    """A tool that breaks fails the run; the model is not asked what to make of it."""
    world = World()

    async def broken(text: str, _: Any) -> str:
        raise ServiceFault("the sandbox is gone", code="sandbox_unavailable")

    async def bug(text: str, _: Any) -> str:
        raise KeyError("secret")

    for does, code in ((broken, "sandbox_unavailable"), (bug, "tool_fault")):
        world.does["look"] = does
        async with rig([call("look"), final()], world.tools()) as made:
            view = await made.ask()
        assert failure(view) == (code, 500)
        assert of(view, ToolReturned)[0].shown is None
        assert not any("secret" in text or "the sandbox is gone" in text for text in view.texts.values())


async def test_a_tool_that_is_gone_or_changed_is_a_failed_call() -> None:
    """The definition still has it, this process has not: the model is told."""
    world = World()
    async with rig([call("look"), final()], [world.tool("look", "pure")]) as made:
        made.tools._entries.clear()
        view = await made.ask()
    assert (of(view, ToolReturned)[0].outcome, of(view, ToolReturned)[0].code) == ("failed", "tool_not_found")
    assert view.state.state is State.FINAL_ANSWER


async def test_a_call_whose_time_is_over_before_it_begins_is_not_made() -> None:
    """The host slept between intent and effect: a successor may be at it by now."""
    world, clock = World(), MovedClock()
    async with rig([call("mail"), final()], world.tools(), clock=clock) as made:
        append = made.journal.append

        async def slept(scope: Any, given: Any) -> Any:
            done = await append(scope, given)
            if given.bodies[-1].kind == "tool_intended":
                clock.forward(60)
            return done

        made.journal.append = slept
        view = await made.ask()
    assert world.seen == []
    assert of(view, ToolReturned)[0].code == "tool_not_started"


async def test_long_results_are_cut_for_the_model_and_kept_whole() -> None:
    """Head and tail are shown, and how much lies between; the record has all."""
    world = World()

    async def long(text: str, _: Any) -> str:
        return "a" * 20_000 + "b" * 20_000

    world.does["look"] = long
    async with rig([call("look"), final()], world.tools()) as made:
        view = await made.ask()
    returned = of(view, ToolReturned)[0]
    assert len(view.texts[returned.result]) == 40_002
    assert " characters omitted …" in view.texts[returned.shown]
    assert len(view.texts[returned.shown]) < 20_100


async def test_calls_run_together_only_where_allowed_and_all_are_pure() -> None:
    """Three at once where the agent allows it; in call order where it does not, or where one has an effect."""
    pure, mixed = ["look"] * 3, ["look", "put", "look"]
    for effects, parallel, most in ((pure, True, 3), (pure, False, 1), (mixed, True, 1)):
        world = World()
        pace = iter((0.03, 0.02, 0.01))

        async def slow(text: str, _: Any, pace: Any = pace) -> str:
            await asyncio.sleep(next(pace))
            return text

        world.does = {"look": slow, "put": slow}
        calls = tuple(NativeCall(f"id{n}", name, f'{{"text": "{n}"}}') for n, name in enumerate(effects))
        model = Recording([ModelReply("", calls, "tool_calls"), "Done."])
        async with rig(model, world.tools(), protocol="tools", parallel=parallel) as made:
            view = await made.ask()
        assert world.most_running == most
        shown = [(m.tool_call_id, m.content) for m in model.requests[-1].messages if m.role == "tool"]
        assert shown == [("id0", '"0"'), ("id1", '"1"'), ("id2", '"2"')]
        order = [view.texts[e.result] for e in of(view, ToolReturned)]
        assert order == (['"2"', '"1"', '"0"'] if most == 3 else ['"0"', '"1"', '"2"'])


async def test_outcomes_are_appended_as_they_arrive() -> None:
    """A watcher sees the quick call's result while the slow one is still at it."""
    world = World()

    async def by_text(text: str, context: Any) -> str:
        return await forever(text, context) if text == "slow" else text

    world.does["look"] = by_text
    calls = (NativeCall("a", "look", '{"text": "slow"}'), NativeCall("b", "look", '{"text": "quick"}'))
    script = [ModelReply("", calls, "tool_calls"), "Done."]
    async with rig(script, world.tools(), protocol="tools", parallel=True) as made:
        started = await made.service.start(USER, made.start_run())
        await until(lambda: world.done["look"])

        async def returned() -> bool:
            return (await made.service.view(USER, started.stream)).events[-1].kind == "tool_returned"

        await ended(returned)
        assert await made.service.cancel(USER, started.stream)
        view = await made.service.wait(USER, started.stream)
    assert view.state.state is State.ABORTED
    assert [e.outcome for e in of(view, ToolReturned)] == ["result", "unknown"]
