"""Texts that could not be stored as they come: half characters, and results that are too large."""

from __future__ import annotations

import re
from typing import Any

import pytest

from devassist.core.definition import Request
from devassist.core.errors import ProviderError
from devassist.core.events import ModelReplied, RunFailed, ToolReturned
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import SYSTEM
from devassist.core.states import State
from devassist.core.tooling import ToolFailure, ToolResult
from devassist.store import sealing
from tests.runtime.read import Recording, answer, of
from tests.runtime.rig import rig
from tests.runtime.world import World, call, final

HALF = "\ud83d"


@pytest.mark.parametrize(
    "reply",
    [
        final(f"It is {HALF} so."),
        ModelReply(final("It is \ud83d so."), reasoning=f"hm {HALF}", finish_reason=f"st{HALF}op"),
        ModelReply(final("It is \ufffd so."), finish_reason="stop because I was told to, and a long story follows"),
    ],
)
async def test_half_characters_of_a_model_are_replaced(reply: Any) -> None:
    """What is acted on is what is stored; a finish reason that is a story is no word of ours."""
    async with rig([reply]) as made:
        view = await made.ask()
    assert answer(view) == "It is \ufffd so."
    assert of(view, ModelReplied)[0].finish in ("stop", "other")


async def test_half_characters_in_native_calls_are_replaced() -> None:
    """In arguments, ids and names; the result still finds its call."""
    world = World()
    calls = (NativeCall(f"id{HALF}", "look", f'{{"text": "a{HALF}"}}'),)
    model = Recording([ModelReply("", calls, "tool_calls"), "Done."])
    async with rig(model, world.tools(), protocol="tools") as made:
        view = await made.ask()
    assert [text for _, text, _ in world.seen] == ["a\ufffd"]
    assistant, result = model.requests[1].messages[-2:]
    assert assistant.tool_calls[0].id == result.tool_call_id
    assert re.fullmatch(r"call_[0-9a-f]{16}", result.tool_call_id or ""), "half a character is no id"
    assert view.state.state is State.FINAL_ANSWER


@pytest.mark.parametrize("outcome", [ToolFailure("x", f"bad {HALF}"), ToolResult({"a": 1}, f"bad {HALF}")])
async def test_half_characters_of_a_tool_are_replaced(outcome: Any) -> None:
    """A tool's words may hold what a program printed."""
    world = World()

    async def says(text: str, context: Any) -> Any:
        return outcome

    world.does["look"] = says
    async with rig([call("look"), final()], world.tools()) as made:
        view = await made.ask()
    assert view.texts[of(view, ToolReturned)[0].shown] == "bad \ufffd"
    assert view.state.state is State.FINAL_ANSWER


async def test_half_characters_of_people_and_providers_are_replaced() -> None:
    """A message from a terminal with another encoding, a history, a provider's error text."""
    async with rig([ProviderError(f"bad {HALF}")]) as made:
        request = Request("alice", "agent", "test", history=(("user", f"h{HALF}"),))
        view = await made.ask(f"m{HALF}", request=request)
    assert view.texts[view.state.started.message] == "m\ufffd"
    assert "bad \ufffd" in view.texts[of(view, RunFailed)[0].message]


async def test_a_result_too_large_to_be_stored_is_a_failed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is told; the run goes on."""
    world = World()

    async def much(text: str, context: Any) -> str:
        return "x" * 30_000

    world.does["mail"] = much
    async with rig([call("mail"), final()], world.tools()) as made:
        monkeypatch.setattr(sealing, "MAX_TEXT", 25_000)
        view = await made.ask()
    (returned,) = of(view, ToolReturned)
    assert (returned.outcome, returned.code) == ("failed", "tool_result_too_large")
    assert view.state.state is State.FINAL_ANSWER


async def test_a_name_that_the_model_made_up_is_in_no_event() -> None:
    """Bodies hold names of ours; what it wrote stands in the reply, which can be erased."""
    async with rig(["Thought: x\nAction: tool:Frau_Schmidt\nargs: {}", final()], World().tools()) as made:
        view = await made.ask()
        records = await made.journal.raw_events(SYSTEM, view.stream)
    assert of(view, ModelReplied)[0].code == "tool_not_found"
    assert not any(b"Schmidt" in record.body for record in records)
