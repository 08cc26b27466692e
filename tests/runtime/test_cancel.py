"""Cancelling: at once, whatever the run is at, and nothing of it is left running (C10)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from devassist.core.errors import ProviderError, RunNotFound
from devassist.core.events import CallClosed, ModelFailed, ModelReplied, RunAborted, ToolReturned
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import Scope
from devassist.core.signals import ApprovalGiven, CancelRequested
from devassist.core.states import State
from devassist.core.tooling import ToolSpec
from devassist.ports.tools import CallContext
from devassist.runtime.view import RunView
from devassist.tools.registry import Tool
from tests.runtime.read import Recording, head, kinds, of, parked, signal
from tests.runtime.rig import USER, Rig, rig
from tests.runtime.world import TEXT, World, call, final, forever, until

ACTOR = "00" * 16
STREAMING: Any = [("Thought: I ", 1), ("think ", 60_000), ("so.", 1)]


class Watched(Recording):
    """Knows how many of its calls are under way."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.running = 0

    async def complete(self, *given: Any, **named: Any) -> ModelReply:
        self.running += 1
        try:
            return await super().complete(*given, **named)
        finally:
            self.running -= 1


async def cancelled(made: Rig, stream: bytes) -> RunView:
    """Cancel, and see that the run is over within a second with no task of it left."""
    async with asyncio.timeout(1):
        assert await made.service.cancel(USER, stream)
        view = await made.service.wait(USER, stream)
    assert view.state.state is State.ABORTED
    assert of(view, RunAborted)[0].reason == "cancelled"
    assert all(c.phase == "done" for c in view.state.calls)
    assert not [t for t in asyncio.all_tasks() if stream.hex() in t.get_name() and not t.done()]
    return view


async def begun(made: Rig, there: Callable[[], Any], **changes: Any) -> bytes:
    stream = (await made.service.start(USER, made.start_run(**changes))).stream
    await until(there)
    return stream


async def test_while_the_model_streams() -> None:
    """The request upstream is ended, its attempt is recorded as cut off, and no other is made."""
    model = Watched([STREAMING])
    async with rig(model) as made:
        stream = await begun(made, lambda: model.running)
        view = await cancelled(made, stream)
        assert (model.running, len(model.requests)) == (0, 1)
    assert kinds(view)[-3:] == ["cancel_requested", "model_failed", "run_aborted"]
    assert of(view, ModelFailed)[0].code == "cancelled"


@pytest.mark.parametrize(
    ("tool", "closing"), [("look", "cancelled"), ("put", "abandoned"), ("mail", "abandoned")]
)  # fmt: skip
async def test_while_a_tool_sleeps(tool: str, closing: str) -> None:
    """The cancel reaches the tool; what may have taken effect is recorded as unknown, never as not made."""
    world = World()
    world.does = dict.fromkeys(("look", "put", "mail"), forever)
    async with rig([call(tool), final()], world.tools(timeout_s=600)) as made:
        stream = await begun(made, lambda: world.running)
        view = await cancelled(made, stream)
    assert (world.running, world.done[tool]) == (0, 0)
    (returned,) = of(view, ToolReturned)
    assert (returned.outcome, returned.code) == ("unknown", "cancelled")
    assert [c.closing for c in of(view, CallClosed)] == [closing]


async def test_while_several_calls_run_together() -> None:
    """All are cut off; each call has a result before the run is over."""
    world = World()
    world.does["look"] = forever
    calls = tuple(NativeCall(f"id{n}", "look", '{"text": "x"}') for n in range(3))
    script = [ModelReply("", calls, "tool_calls"), "Done."]
    async with rig(script, world.tools(timeout_s=600), protocol="tools", parallel=True) as made:
        stream = await begun(made, lambda: world.running == 3)
        view = await cancelled(made, stream)
    assert world.running == 0
    assert [c.closing for c in of(view, CallClosed)] == ["cancelled"] * 3


async def test_while_a_tool_works_in_a_thread() -> None:
    """A thread cannot be stopped, but the run does not wait for it, and what it returns later is dropped."""
    release, ended = threading.Event(), threading.Event()

    def work(text: str) -> str:
        release.wait(10)
        ended.set()
        return "late"

    tool = Tool(ToolSpec("work", "Works.", TEXT, None, "once", timeout_s=600), work)
    async with rig([call("work"), final()], [tool]) as made:
        stream = await begun(made, lambda: any("tool-work" in t.name for t in threading.enumerate()))
        view = await cancelled(made, stream)
        release.set()
        await until(ended.is_set)
        await asyncio.sleep(0.01)
        assert (await made.service.view(USER, stream)).placed == view.placed


@pytest.mark.parametrize("pooled", [True, False])
async def test_while_a_search_runs_in_a_thread(pooled: bool) -> None:
    """In a pool or in a thread of its own: the search is told, ends, and asks for nothing more (C10)."""
    asked, ended = [0], threading.Event()

    def search(text: str, context: CallContext) -> str:
        while not context.cancelled.wait(0.01):
            asked[0] += 1
        ended.set()
        return "too late"

    async def in_a_pool(text: str, context: CallContext) -> str:
        return await asyncio.to_thread(search, text, context)

    handler: Callable[..., Any] = in_a_pool if pooled else search
    model = Watched([call("search"), final()])
    async with rig(model, [Tool(ToolSpec("search", "Searches.", TEXT, None, "pure", timeout_s=600), handler)]) as made:
        stream = await begun(made, lambda: asked[0] > 2)
        view = await cancelled(made, stream)
        await until(ended.is_set)
        stood = asked[0]
        await asyncio.sleep(0.05)
        assert (asked[0], len(model.requests), model.running) == (stood, 1, 0)
        assert (await made.service.view(USER, stream)).placed == view.placed
    assert [c.closing for c in of(view, CallClosed)] == ["cancelled"]


async def test_while_it_waits_out_a_provider() -> None:
    """A back-off ends at once, and no attempt follows."""
    model = Recording([ProviderError("busy", retryable=True, retry_after_ms=200_000)])
    async with rig(model) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        await parked(made, "WAIT")
        await cancelled(made, stream)
    assert len(model.requests) == 1


async def test_while_it_waits_for_a_person() -> None:
    """The call that was asked about is closed as cancelled."""
    world = World()
    async with rig([call("pay")], [world.tool("pay", "once", needs_approval=True)]) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        await parked(made, "AWAIT_APPROVAL")
        view = await cancelled(made, stream)
    assert [c.closing for c in of(view, CallClosed)] == ["cancelled"]
    assert world.seen == []


async def test_while_it_waits_for_its_turn() -> None:
    """It ends where it stands, without a model call; the ones before and behind it are not touched."""
    model = Watched(lambda r: STREAMING if r.messages[-1].content == "first" else final("Third."))
    async with rig(model) as made:
        first = await begun(made, lambda: model.running, message="first", conversation="c")
        second = (await made.service.start(USER, made.start_run("second", "c"))).stream
        third = (await made.service.start(USER, made.start_run("third", "c"))).stream
        view = await cancelled(made, second)
        assert kinds(view) == ["run_started", "cancel_requested", "run_aborted"]
        assert [(await head(made, stream)).driving for stream in (first, third)] == [True, False]
        await cancelled(made, first)
        assert (await made.service.wait(USER, third)).state.state is State.FINAL_ANSWER
    assert [r.messages[-1].content for r in model.requests] == ["first", "third"]


async def test_from_another_process_while_it_waits_behind_a_person() -> None:
    """Nothing is driven in this process, and the sweep sees the cancel all the same."""
    world = World()
    async with rig([call("pay")], [world.tool("pay", "once", needs_approval=True)]) as made:
        first = await made.ask("first", "c")
        second = (await made.service.start(USER, made.start_run("second", "c"))).stream
        await until(lambda: not made.service._tasks)
        await signal(made, second, CancelRequested("cancel:x", ACTOR))
        await made.service.sweep()
        assert (await made.service.wait(USER, second)).state.state is State.ABORTED
        assert (await head(made, first.stream)).state == "AWAIT_APPROVAL"


async def test_after_the_end_it_is_a_no_op() -> None:
    """It says so, and the record stays as it was."""
    async with rig([final()]) as made:
        view = await made.ask()
        assert not await made.service.cancel(USER, view.stream)
        assert (await made.service.view(USER, view.stream)).placed == view.placed


async def test_a_second_cancel_adds_nothing() -> None:
    """Twice at the same moment, and once more when it is over."""
    model = Watched([STREAMING])
    async with rig(model) as made:
        stream = await begun(made, lambda: model.running)
        assert await asyncio.gather(*(made.service.cancel(USER, stream) for _ in range(2))) == [True, True]
        view = await made.service.wait(USER, stream)
        assert not await made.service.cancel(USER, stream)
    assert view.state.state is State.ABORTED
    assert len(of(view, CancelRequested)) == 1


async def test_a_cancel_from_another_process_is_noticed() -> None:
    """Appended beside a running server: the sweep finds it and cuts the effect off."""
    model = Watched([STREAMING])
    async with rig(model) as made:
        stream = await begun(made, lambda: model.running)
        await signal(made, stream, CancelRequested("cancel:x", ACTOR))
        await made.service.sweep()
        view = await made.service.wait(USER, stream)
    assert view.state.state is State.ABORTED
    assert model.running == 0


async def test_other_news_does_not_cut_an_effect_off() -> None:
    """A signal that does not end the run waits for the outcome, which is appended behind it."""
    world, gate = World(), asyncio.Event()

    async def gated(text: str, context: Any) -> str:
        await gate.wait()
        return "sent"

    world.does["mail"] = gated
    async with rig([call("mail"), final()], world.tools()) as made:
        stream = await begun(made, lambda: world.running)
        await signal(made, stream, ApprovalGiven("a", ACTOR, "0" * 64, "approve"))
        await made.service.sweep()
        await asyncio.sleep(0.01)
        gate.set()
        view = await made.service.wait(USER, stream)
    assert kinds(view)[4:6] == ["approval_given", "tool_returned"]
    assert (world.done["mail"], view.state.state) == (1, State.FINAL_ANSWER)


async def test_an_outcome_in_hand_is_kept_when_a_cancel_comes_first() -> None:
    """The cancel stands before the reply that was already there; the reply is recorded, and the run is aborted."""
    async with rig([final("Too late.")]) as made:
        append = made.journal.append

        async def overtaken(scope: Any, given: Any) -> Any:
            if given.bodies[0].kind == "model_replied":
                made.journal.append = append
                await made.service.cancel(USER, given.stream)
            return await append(scope, given)

        made.journal.append = overtaken
        view = await made.ask()
    assert kinds(view) == ["run_started", "model_intended", "cancel_requested", "model_replied", "run_aborted"]
    assert view.texts[of(view, ModelReplied)[0].answer] == "Too late."


async def test_a_tool_that_will_not_be_cancelled_is_not_lost() -> None:
    """It finished its work although it was told to stop: its result is the call's outcome."""
    world = World()

    async def stubborn(text: str, context: Any) -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    world.does["mail"] = stubborn
    async with rig([call("mail"), final()], world.tools()) as made:
        stream = await begun(made, lambda: world.running)
        view = await cancelled(made, stream)
    assert [e.outcome for e in of(view, ToolReturned)] == ["result"]
    assert of(view, CallClosed) == []


async def test_what_does_not_exist_cannot_be_cancelled() -> None:
    """Another tenant's run is no run, nor is a stream of facts."""
    async with rig([[final(), ("", 30)]]) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        for scope, wanted in ((Scope("other", "alice"), stream), (USER, bytes(16))):
            with pytest.raises(RunNotFound):
                await made.service.cancel(scope, wanted)
        assert (await made.service.wait(USER, stream)).state.state is State.FINAL_ANSWER
