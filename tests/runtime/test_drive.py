"""A run from its message to its end: steps, corrections, and what each leaves in the record."""

from __future__ import annotations

from typing import Any

import pytest

from devassist.core.event_parts import Limits
from devassist.core.events import ModelIntended, ModelReplied, RunFailed, RunFinished
from devassist.core.messages import ModelReply
from devassist.core.states import State
from devassist.ports.model import ModelRequest
from tests.runtime.read import Recording, answer, failure, kinds, of
from tests.runtime.rig import rig
from tests.runtime.world import World, call, final


async def test_a_plain_answer() -> None:
    """Intent, reply, end: nothing else, and the texts are in the record."""
    async with rig([final("你好")]) as made:
        view = await made.ask("hello")
    assert kinds(view) == ["run_started", "model_intended", "model_replied", "run_finished"]
    assert (view.state.state, answer(view)) == (State.FINAL_ANSWER, "你好")
    (reply,) = of(view, ModelReplied)
    assert (view.texts[reply.reply], view.texts[reply.thought]) == (final("你好"), "I know.")


async def test_two_tools_then_an_answer() -> None:
    """Each call has an intent before and an outcome after it; the model sees each result."""
    world, model = World(), Recording([call("look", "a"), call("mail", "b"), final()])
    async with rig(model, world.tools()) as made:
        view = await made.ask()
    step = ["model_intended", "model_replied", "tool_intended", "tool_returned"]
    assert kinds(view) == ["run_started", *step, *step, "model_intended", "model_replied", "run_finished"]
    assert [(name, text) for name, text, _ in world.seen] == [("look", "a"), ("mail", "b")]
    assert [m.content for m in model.requests[-1].messages if m.content.startswith("Observation")] == [
        'Observation: {"echo":"a"}', 'Observation: {"echo":"b"}',
    ]  # fmt: skip
    assert (view.state.step, view.state.tool_calls) == (2, 2)


async def test_prompts_add_up_to_the_transcript() -> None:
    """The record names what each prompt added to the one before; together they are the whole transcript."""
    world = World()
    async with rig([call("look"), "?", call("look"), final()], world.tools()) as made:
        view = await made.ask()
    intents = of(view, ModelIntended)
    added = [seq for intent in intents for seq in intent.add]
    answered = of(view, ModelReplied)[-1]
    seqs = list(dict.fromkeys(e.seq for e in view.state.transcript))
    assert added == [seq for seq in seqs if seq < answered.of]
    assert [intent.base for intent in intents[1:]] == [seq for e, seq, _ in view.placed if e in intents][:-1]


async def test_a_correction_then_success() -> None:
    """A bad call is refused with a precise reason, nothing runs, and the next reply is taken."""
    world, model = World(), Recording([call("look", text=7), call("look", "ok"), final()])
    async with rig(model, world.tools()) as made:
        view = await made.ask()
    assert view.state.state is State.FINAL_ANSWER
    fault = of(view, ModelReplied)[0]
    assert (fault.decision, fault.code, fault.tool) == ("fault", "tool_arguments_invalid", "look")
    assert model.requests[1].messages[-1].content == view.texts[fault.correction]
    assert [text for _, text, _ in world.seen] == ["ok"]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("", "reply_empty"),
        ("Thought: x\nAction: None", "reply_format_invalid"),
        (call("look", text=7), "tool_arguments_invalid"),
        ("Action: tool:look\nargs: {", "tool_arguments_malformed"),
        ("Action: tool:look\nargs: [1]", "tool_arguments_not_object"),
        (call("web_browse"), "tool_not_found"),
        (ModelReply("Thought: lo", finish_reason="length"), "reply_truncated"),
    ],
)
async def test_corrections_run_out(reply: Any, code: str) -> None:
    """The same fault again and again fails the run with its code, after as many corrections as allowed."""
    world = World()
    async with rig(lambda _: reply, world.tools(), limits=Limits(corrections=2)) as made:
        view = await made.ask()
    assert failure(view) == (code, 502)
    assert [r.code for r in of(view, ModelReplied)] == [code] * 3
    assert world.seen == []


async def test_a_blocked_reply_fails_at_once() -> None:
    """What the provider's filter blocks is not asked for again."""
    async with rig(lambda _: ModelReply("", finish_reason="content_filter")) as made:
        view = await made.ask()
    assert failure(view) == ("content_filtered", 502)
    assert view.state.attempts == 1


async def test_a_plain_refusal_is_delivered_after_one_question() -> None:
    """A46: asked for again once, then the final answer, marked as unstructured."""
    async with rig(lambda _: "I'm sorry, but I can't help with that.") as made:
        view = await made.ask()
    assert (answer(view), view.state.attempts) == ("I'm sorry, but I can't help with that.", 2)
    assert of(view, RunFinished)[0].verdicts == ("unstructured",)


@pytest.mark.parametrize(("limit", "then"), [(512, [512, 1024, 2048]), (0, [None, 1024, 2048])])
async def test_a_reply_cut_by_its_limit_gets_a_wider_one(limit: int, then: list[int | None]) -> None:
    """A57: reasoning used the budget up. The same bound would cut again, so it is doubled, the provider's own too."""

    def script(request: ModelRequest) -> ModelReply:
        cut = request.max_tokens or 512
        return ModelReply("", finish_reason="length", output_tokens=cut, reasoning="First I consider")

    model = Recording(script)
    async with rig(model, max_reply_tokens=limit) as made:
        view = await made.ask()
    assert [request.max_tokens for request in model.requests] == then
    assert failure(view)[0] == "reply_truncated"
    assert "token limit" in view.texts[of(view, RunFailed)[0].message]
