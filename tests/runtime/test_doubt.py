"""Effects whose outcome is unknown, and calls that a person has to allow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devassist.core.codec import b64
from devassist.core.events import CallClosed, Held, ToolIntended, ToolReturned
from devassist.core.signals import ApprovalGiven, SettlementGiven
from devassist.core.states import State
from devassist.runtime.view import RunView
from tests.runtime.read import Recording, answer, failure, kinds, of, signal
from tests.runtime.rig import USER, Rig, rig
from tests.runtime.world import World, call, final, forever, until

ACTOR = "00" * 16
TIMEOUT = 0.03


def hanging(*names: str) -> World:
    world = World()
    world.does = dict.fromkeys(names, forever)
    return world


async def answered(made: Rig, view: RunView, event: Any, *texts: str) -> RunView:
    """The run after a person's answer: appended as by another process, noticed by the sweep."""
    assert await signal(made, view.stream, event, texts) is not None
    await made.service.sweep()
    return await made.service.wait(USER, view.stream)


def settle(view: RunView, outcome: Any, **fields: Any) -> SettlementGiven:
    return SettlementGiven(f"settle:{outcome}", ACTOR, of(view, Held)[-1].digest, outcome, **fields)


def approve(view: RunView, decision: Any = "approve", **fields: Any) -> ApprovalGiven:
    return ApprovalGiven(f"{decision}:{len(view.events)}", ACTOR, of(view, Held)[-1].digest, decision, **fields)


async def test_a_timed_out_effect_waits_for_a_person() -> None:
    """``hold``: the run stands at the call, which is not made again by itself."""
    world = hanging("mail")
    async with rig([call("mail"), final()], world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
        await made.service.sweep()
    assert view.state.state is State.AWAIT_APPROVAL
    assert kinds(view)[-2:] == ["tool_returned", "held"]
    assert (of(view, ToolReturned)[0].outcome, of(view, Held)[0].reason) == ("unknown", "settlement")
    assert len(world.seen) == 1


async def test_it_happened_with_its_result() -> None:
    """What the person says came of it is what the model is shown."""
    world, model = hanging("mail"), Recording([call("mail"), final("Sent.")])
    async with rig(model, world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
        domain = bytes.fromhex(view.state.started.domain)
        result = b64(made.vault.seal(domain, '{"sent":true}').ref)
        view = await answered(made, view, settle(view, "happened", result=result), '{"sent":true}')
    assert answer(view) == "Sent."
    assert model.requests[-1].messages[-1].content == 'Observation: {"sent":true}'
    assert of(view, CallClosed)[0].result == result
    assert len(world.seen) == 1


async def test_it_happened_without_a_result() -> None:
    """The model is told that it took effect, not that it was not made."""
    world, model = hanging("mail"), Recording([call("mail"), final()])
    async with rig(model, world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
        view = await answered(made, view, settle(view, "happened"))
    assert "took effect" in model.requests[-1].messages[-1].content
    assert view.state.state is State.FINAL_ANSWER


async def test_it_is_repeated_under_the_same_key() -> None:
    """The further attempt is visible as one, and the tool can tell that it is the same call."""
    world = hanging("mail")
    async with rig([call("mail"), final()], world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
        world.does.clear()
        view = await answered(made, view, settle(view, "repeat"))
    assert [e.attempt for e in of(view, ToolIntended)] == [1, 2]
    (first, second) = [context for _, _, context in world.seen]
    assert (first.call_id, first.attempt, second.attempt) == (second.call_id, 1, 2)
    assert (view.state.state, world.done["mail"]) == (State.FINAL_ANSWER, 1)


async def test_it_is_abandoned() -> None:
    """The run fails, and the call stays unknown."""
    world = hanging("mail")
    async with rig([call("mail"), final()], world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
        view = await answered(made, view, settle(view, "abandon"))
    assert failure(view) == ("outcome_unknown", 502)
    assert of(view, CallClosed)[0].closing == "abandoned"


async def test_an_answer_to_another_question_changes_nothing() -> None:
    """A digest that does not fit leaves the run waiting, and the sweep does not take it up again and again."""
    world = hanging("mail")
    async with rig([call("mail"), final()], world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
        view = await answered(made, view, SettlementGiven("s", ACTOR, "0" * 64, "happened"))
        assert view.state.state is State.AWAIT_APPROVAL
        await until(lambda: not made.service._tasks)
        epoch = (await made.journal.head(USER, view.stream)).epoch
        for _ in range(3):
            await made.service.sweep()
        assert (await made.journal.head(USER, view.stream)).epoch == epoch


async def test_told_the_model_goes_on() -> None:
    """``tell``: it learns that the outcome is unknown; the tool's next call needs a person's word."""
    world, model = hanging("mail"), Recording([call("mail"), call("look"), call("mail", "again"), final()])
    async with rig(model, world.tools(timeout_s=TIMEOUT), on_unknown="tell") as made:
        view = await made.ask()
        assert "unknown" in model.requests[1].messages[-1].content
        assert (view.state.state, of(view, Held)[0].reason) == (State.AWAIT_APPROVAL, "approval")
        assert [name for name, _, _ in world.seen] == ["mail", "look"]
        world.does.clear()
        view = await answered(made, view, approve(view))
    assert view.state.state is State.FINAL_ANSWER
    assert world.done["mail"] == 1


async def test_a_fault_in_the_middle_of_an_effect_is_a_doubt() -> None:
    """A once-tool that breaks may have done it before it broke."""
    world = World()

    async def breaks(text: str, context: Any) -> None:
        raise OSError("connection reset")

    world.does["mail"] = breaks
    async with rig([call("mail"), final()], world.tools()) as made:
        view = await made.ask()
    assert view.state.state is State.AWAIT_APPROVAL
    assert of(view, ToolReturned)[0].outcome == "unknown"


async def test_an_idempotent_effect_is_tried_again_by_itself() -> None:
    """Under the same key, a few times; then the model is told that the outcome is unknown."""
    world, model = hanging("put"), Recording([call("put"), final()])
    async with rig(model, world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
    assert len({context.call_id for _, _, context in world.seen}) == 1
    assert [context.attempt for _, _, context in world.seen] == [1, 2, 3]
    assert (of(view, CallClosed)[0].closing, view.state.state) == ("abandoned", State.FINAL_ANSWER)
    assert "outcome of this call is unknown" in model.requests[-1].messages[-1].content


async def test_a_pure_call_that_takes_too_long_has_failed() -> None:
    """Nothing was changed, so there is nothing to settle."""
    world = hanging("look")
    async with rig([call("look"), final()], world.tools(timeout_s=TIMEOUT)) as made:
        view = await made.ask()
    assert (of(view, ToolReturned)[0].outcome, of(view, ToolReturned)[0].code) == ("failed", "tool_timeout")


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
async def test_a_tool_that_needs_approval_is_not_called_before(effect: Any) -> None:
    """Approved, it runs once; the arguments may be others than the model's."""
    world = World()
    tool = world.tool("pay", effect, needs_approval=True)
    async with rig([call("pay", "100"), final()], [tool]) as made:
        view = await made.ask()
        assert (view.state.state, world.seen) == (State.AWAIT_APPROVAL, [])
        domain = bytes.fromhex(view.state.started.domain)
        args = b64(made.vault.seal(domain, '{"text":"50"}').ref)
        view = await answered(made, view, approve(view, args=args), '{"text":"50"}')
    assert [text for _, text, _ in world.seen] == ["50"]
    assert view.state.state is State.FINAL_ANSWER


async def test_a_rejected_call_is_not_made() -> None:
    """The model is told so, and may answer."""
    world, model = World(), Recording([call("pay"), final("Then not.")])
    async with rig(model, [world.tool("pay", "once", needs_approval=True)]) as made:
        view = await made.ask()
        view = await answered(made, view, approve(view, "reject"))
    assert (answer(view), world.seen) == ("Then not.", [])
    assert "not approved" in model.requests[-1].messages[-1].content


async def test_two_answers_at_once_are_one() -> None:
    """Of an approval and a rejection at the same moment the first in the journal counts, once."""
    world = World()
    async with rig([call("pay"), final()], [world.tool("pay", "once", needs_approval=True)]) as made:
        view = await made.ask()
        await asyncio.gather(
            signal(made, view.stream, approve(view)),
            signal(made, view.stream, approve(view, "reject")),
            signal(made, view.stream, approve(view)),
        )
        await made.service.sweep()
        view = await made.service.wait(USER, view.stream)
    assert world.done["pay"] == 1
    assert len(of(view, ToolIntended)) == 2
    assert len(of(view, ApprovalGiven)) == 2
