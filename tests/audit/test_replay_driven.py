"""Replay of what the driver records: driving and replaying are one core, however a run went."""

from __future__ import annotations

import asyncio
from time import time_ns
from typing import Any

import pytest

from devassist.audit.record import recorded
from devassist.audit.replay import rederive, replay
from devassist.core.errors import ProviderError
from devassist.core.event_codec import encode
from devassist.core.event_parts import DecidedCall
from devassist.core.events import CallClosed, Held, ModelFailed, ModelIntended, ModelReplied, ToolIntended
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import SYSTEM
from devassist.core.signals import SettlementGiven
from devassist.core.tooling import ToolNeedsApproval, ToolResult, ToolSpec
from devassist.llm.scripted import AfterFailures
from devassist.ports.audit import ReplayReport
from devassist.ports.journal import Body
from devassist.tools.registry import Tool
from tests.audit.hand_made import USER, HandMade
from tests.audit.test_replay import CHECKER, at, changed
from tests.runtime.rig import rig

ANY_OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}


def tool(name: str, handler: Any, effect: Any = "pure") -> Tool:
    return Tool(ToolSpec(name, "A test tool.", ANY_OBJECT, effect=effect, timeout_s=5), handler)


async def add(n: int = 0) -> ToolResult:
    return ToolResult({"n": n + 1})


async def broken(n: int = 0) -> ToolResult:
    raise RuntimeError(str(n))


async def asks(n: int = 0) -> ToolNeedsApproval:
    return ToolNeedsApproval("a person must look")


CALL = 'Thought: count\nAction: tool:add\nargs: {"n": 1}'
FINAL = "Thought: done\nAction: final: It is two."
NATIVE = ModelReply("", tuple(NativeCall(f"c{i}", "add", f'{{"n": {i}}}') for i in range(3)), "tool_calls")
AGAIN = ProviderError("busy", code="provider_error", retryable=True, provider_status=503)
REFUSED = ProviderError("no such key", code="provider_unauthorised", retryable=False, provider_status=401)

DRIVEN: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "an answer": ([FINAL], {}, "FINAL_ANSWER"),
    "a plain text": (["It is two.", "It is two."], {}, "FINAL_ANSWER"),
    "a tool": ([CALL, FINAL], {}, "FINAL_ANSWER"),
    "two steps": ([CALL, CALL.replace("1", "2"), FINAL], {}, "FINAL_ANSWER"),
    "what follows an action": ([CALL + "\nObservation: 7\nAction: final: seven", FINAL], {}, "FINAL_ANSWER"),
    "a correction": (["Action: tool:add\nargs: {n", FINAL], {}, "FINAL_ANSWER"),
    "an unknown tool": (["Action: tool:sub\nargs: {}", FINAL], {}, "FINAL_ANSWER"),
    "wrong arguments": (['Action: tool:add\nargs: {"n": "x"}', FINAL], {}, "FINAL_ANSWER"),
    "arguments that are coerced": (['Action: tool:add\nargs: {"n": "4"}', FINAL], {}, "FINAL_ANSWER"),
    "too many corrections": (["", "", ""], {}, "ERROR"),
    "the step limit": ([CALL] * 9, {}, "ERROR"),
    "native calls together": ([NATIVE, FINAL], {"parallel": True}, "FINAL_ANSWER"),
    "native calls one by one": ([NATIVE, FINAL], {"parallel": False}, "FINAL_ANSWER"),
    "a refused model call": ([REFUSED], {}, "ERROR"),
    "a retried model call": ([AfterFailures((AGAIN,), FINAL)], {}, "FINAL_ANSWER"),
    "a fault of a tool": (["Action: tool:broken\nargs: {}", FINAL], {}, "ERROR"),
    "native tools protocol": ([NATIVE, "It is two."], {"protocol": "tools"}, "FINAL_ANSWER"),
    "grounded without a look-up": ([FINAL, FINAL, FINAL], {"grounded": True}, "FINAL_ANSWER"),
    "a short context": ([CALL, CALL, CALL, FINAL], {"context_tokens": 900}, "FINAL_ANSWER"),
}


async def replayed(made: Any, stream: bytes) -> ReplayReport:
    return await replay(made.journal, USER, stream, CHECKER)


@pytest.mark.parametrize("name", DRIVEN)
async def test_what_the_driver_recorded_replays(name: str) -> None:
    """Driving and replaying are one core: no difference, whatever the run was like."""
    replies, definition, state = DRIVEN[name]
    tools = [tool("add", add), tool("broken", broken)]
    async with rig(replies, tools, **definition) as made:
        view = await made.ask("Count, please.")
        report = await replayed(made, view.stream)
    assert report.differences == ()
    assert (report.skipped, str(view.state.state)) == (0, state)


async def test_a_conversation_replays() -> None:
    """The past that was read is part of the prompt, and of what is derived again."""
    async with rig([FINAL]) as made:
        first = await made.ask("One?", "c1")
        second = await made.ask("Two?", "c1")
        reports = [await replayed(made, view.stream) for view in (first, second)]
    assert [r.differences for r in reports] == [(), ()]
    intended = next(e for e, _, _ in second.placed if isinstance(e, ModelIntended))
    assert len(intended.history) == 2


async def test_a_cancelled_run_replays() -> None:
    """The attempt that was cut off, the calls that were closed, and the end."""
    started = asyncio.Event()

    async def hangs(n: int = 0) -> ToolResult:
        started.set()
        await asyncio.sleep(60)
        return ToolResult(n)

    two = ModelReply("", (NativeCall("a", "hangs", "{}"), NativeCall("b", "hangs", "{}")), "tool_calls")
    async with rig([two, FINAL], [tool("hangs", hangs)]) as made:
        begun = await made.service.start(USER, made.start_run())
        await started.wait()
        assert await made.service.cancel(USER, begun.stream)
        view = await made.service.wait(USER, begun.stream)
        report = await replayed(made, begun.stream)
    assert report.differences == ()
    assert str(view.state.state) == "ABORTED"
    assert [e.closing for e, _, _ in view.placed if isinstance(e, CallClosed)] == ["cancelled", "cancelled"]


async def test_a_model_call_that_was_cut_off_replays() -> None:
    """A cancel that comes while the model writes."""
    async with rig([[("Thought: ", 30_000.0)]]) as made:
        begun = await made.service.start(USER, made.start_run())
        await asyncio.sleep(0.05)
        await made.service.cancel(USER, begun.stream)
        view = await made.service.wait(USER, begun.stream)
        report = await replayed(made, begun.stream)
    assert report.differences == ()
    assert any(isinstance(e, ModelFailed) and e.code == "cancelled" for e, _, _ in view.placed)


async def test_a_run_that_waits_for_a_person_replays() -> None:
    """So far as it went."""
    async with rig(["Action: tool:asks\nargs: {}", FINAL], [tool("asks", asks, "once")]) as made:
        view = await made.ask()
        report = await replayed(made, view.stream)
    assert report.differences == ()
    assert str(view.state.state) == "AWAIT_APPROVAL"


# -- what a successor records ---------------------------------------------------------------------------------------


async def left_behind(made: Any, effect: Any = "pure") -> HandMade:
    """A run whose driver died in the middle of a tool call."""
    run = HandMade(made.journal, made.vault, made.definition, at=time_ns() // 1000)
    await run.begin()
    await run.append(run.model())
    call = DecidedCall("add", effect, run.seal('{"n":1}'))
    await run.append(
        ModelReplied(1, run.seal(CALL), "calls", 1, "stop", thought=run.seal("count"), calls=(call,)), run.tool_of(call)
    )
    await made.journal.reclaim(SYSTEM)
    return run


async def test_a_run_that_was_taken_over_replays() -> None:
    """The interrupted attempt is decided from the record, and the call is made again."""
    async with rig([CALL, FINAL], [tool("add", add)]) as made:
        run = await left_behind(made)
        await made.service.sweep()
        view = await made.service.wait(USER, run.stream)
        report = await replayed(made, run.stream)
    assert report.differences == ()
    assert [e.attempt for e, _, _ in view.placed if isinstance(e, ToolIntended)] == [1, 2]
    assert str(view.state.state) == "FINAL_ANSWER"


@pytest.mark.parametrize(
    ("outcome", "state"), [("happened", "FINAL_ANSWER"), ("repeat", "FINAL_ANSWER"), ("abandon", "ERROR")]
)
async def test_a_call_in_doubt_that_a_person_settled_replays(outcome: Any, state: str) -> None:
    """The hold, the answer and what follows from it."""
    async with rig([CALL, FINAL], [tool("add", add, "once")]) as made:
        run = await left_behind(made, "once")
        await made.service.sweep()
        held = await made.service.wait(USER, run.stream)
        digest = next(e.digest for e, _, _ in held.placed if isinstance(e, Held))
        result = run.seal('{"n":2}') if outcome == "happened" else None
        said = SettlementGiven("s1", run.domain.hex(), digest, outcome, result)
        now = time_ns() // 1000
        await made.journal.signal(USER, run.stream, "s1", Body(said.kind, encode(said)), now, run.sealed())
        await made.service.sweep()
        while str((view := await made.service.view(USER, run.stream)).state.state) == "AWAIT_APPROVAL":
            await asyncio.sleep(0.01)
        view = await made.service.wait(USER, run.stream)
        report = await replayed(made, run.stream)
    assert report.differences == ()
    assert str(view.state.state) == state


async def test_wording_is_no_decision() -> None:
    """A correction that was put in other words derives the same; one that is missing does not."""
    async with rig(["Action: tool:add\nargs: {n", FINAL], [tool("add", add)]) as made:
        view = await made.ask()
        run = await recorded(made.journal, USER, view.stream)
    seq, event = at(run, ModelReplied)
    size = len(run.texts[event.correction].encode())
    run.texts[event.correction] = "x" * size
    assert rederive(run, CHECKER).ok
    found = rederive(changed(run, seq, correction=None), CHECKER).differences
    assert (found[0].seq, found[0].field, found[0].recorded, found[0].derived) == (seq, "correction", "False", "True")
