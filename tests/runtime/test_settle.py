"""People say what became of calls in doubt: while the run waits, while it goes on, and after its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devassist.core.errors import AlreadyDecided, DoubtNotFound, InvalidRequest, NotWaiting
from devassist.core.events import CallClosed, Held
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.signals import ApprovalGiven, Fact, LateOutcome, SettlementGiven
from devassist.core.states import State
from devassist.runtime.people import Given, names_of
from devassist.tools.registry import Tool
from tests.runtime.people import BOB, approved, digest, settled
from tests.runtime.read import Recording, answer, failure, of, signal
from tests.runtime.rig import USER, rig
from tests.runtime.world import World, call, final, forever, until

TIMEOUT = 0.03
SENT: dict[str, Any] = {"type": "object", "properties": {"sent": {"type": "boolean"}}, "required": ["sent"]}
TELL: Any = {"on_unknown": "tell"}


def hanging(*, result: dict[str, Any] | None = None) -> tuple[World, list[Tool]]:
    """``mail`` never comes back in time."""
    world = World()
    world.does["mail"] = forever
    tools = world.tools(timeout_s=TIMEOUT)
    return world, [Tool(replace(t.spec, result=result), t.handler) if t.spec.name == "mail" else t for t in tools]


async def test_it_happened_and_what_it_returned() -> None:
    """The result is checked against what the tool declares, and is what the model is shown."""
    world, tools = hanging(result=SENT)
    model = Recording([call("mail"), final("Sent.")])
    async with rig(model, tools) as made:
        view = await made.ask()
        with pytest.raises(InvalidRequest) as wrong:
            await made.people.settle(USER, view.stream, 0, "happened", result=Given({"sent": "yes"}))
        assert [path for path, _ in wrong.value.errors] == ["/result/sent"]
        with pytest.raises(InvalidRequest):
            await made.people.settle(USER, view.stream, 0, "repeat", result=Given({"sent": True}))
        view = await settled(made, view, "happened", result=Given({"sent": True}), note="saw it in the log")
    assert (answer(view), len(world.seen)) == ("Sent.", 1)
    assert model.requests[-1].messages[-1].content == 'Observation: {"sent":true}'
    (said,) = of(view, SettlementGiven)
    assert view.texts[said.note] == "saw it in the log"


async def test_a_long_result_is_cut_for_the_model() -> None:
    """As any tool's would be; the record has all of it."""
    _, tools = hanging()
    model = Recording([call("mail"), final()])
    async with rig(model, tools) as made:
        view = await settled(made, await made.ask(), "happened", result=Given("x" * 50_000))
    assert "characters omitted" in model.requests[-1].messages[-1].content
    (closed,) = of(view, CallClosed)
    assert len(view.texts[closed.result]) == 50_002


async def test_it_is_repeated_under_the_same_key_and_asked_about_again() -> None:
    """A second doubt about the call is a new question: the first answer does not reach it."""
    world, tools = hanging()
    async with rig([call("mail"), final()], tools) as made:
        first = await made.ask()
        second = await settled(made, first, "repeat")
        assert (second.state.state, len(world.seen)) == (State.AWAIT_APPROVAL, 2)
        assert digest(second) != digest(first)
        again = await made.people.settle(USER, first.stream, 0, "repeat", digest=digest(first))
        assert (again.again, len(world.seen)) == (True, 2)
        world.does.clear()
        view = await settled(made, second, "repeat")
    assert len({context.call_id for _, _, context in world.seen}) == 1
    assert (view.state.state, world.done["mail"]) == (State.FINAL_ANSWER, 1)


async def test_it_is_given_up_and_the_run_fails() -> None:
    """The call stays unknown; who gave it up is on record, and another word comes too late."""
    _, tools = hanging()
    async with rig([call("mail"), final()], tools) as made:
        view = await settled(made, await made.ask(), "abandon")
        assert failure(view) == ("outcome_unknown", 502)
        assert (await made.people.settle(BOB, view.stream, 0, "abandon")).again
        with pytest.raises(AlreadyDecided, match="given up by alice"):
            await made.people.settle(BOB, view.stream, 0, "happened")


async def test_what_was_never_in_doubt_cannot_be_settled() -> None:
    """Another step, or a call that waits for approval, is not found; a doubt is no approval."""
    _, tools = hanging()
    async with rig([call("look"), call("mail"), final()], tools) as made:
        view = await made.ask()
        with pytest.raises(DoubtNotFound, match="step 1 call 0"):
            await made.people.settle(USER, view.stream, 0, "happened")
        with pytest.raises(NotWaiting):
            await made.people.approve(USER, view.stream, digest(view), "approve")


async def test_a_late_outcome_settles_it_without_anybody() -> None:
    """What the call really came to is what counts; a person's word comes too late then."""
    _, tools = hanging()
    async with rig([call("mail"), final()], tools) as made:
        view = await made.ask()
        (intent,) = [of_call.intent for of_call in view.state.calls]
        await signal(made, view.stream, LateOutcome("late", intent, "failed", code="bounced"))
        await made.service.sweep()
        view = await made.service.wait(USER, view.stream)
        assert view.state.state is State.FINAL_ANSWER
        with pytest.raises(NotWaiting, match="it came in"):
            await made.people.settle(USER, view.stream, 0, "happened")


async def test_a_told_doubt_holds_the_tool_up_until_it_is_settled() -> None:
    """In the run: the next call of the tool waits for approval; once the doubt is settled it goes on by itself."""
    world, tools = hanging()
    async with rig([call("mail"), call("mail", "again"), final()], tools, **TELL) as made:
        view = await made.ask()
        assert (view.state.state, of(view, Held)[0].reason, len(world.seen)) == (State.AWAIT_APPROVAL, "approval", 1)
        with pytest.raises(NotWaiting, match="cannot be repeated"):
            await made.people.settle(USER, view.stream, 0, "repeat")
        world.does.clear()
        view = await settled(made, view, "abandon")
    assert (view.state.state, world.done["mail"]) == (State.FINAL_ANSWER, 1)
    assert of(view, ApprovalGiven) == []


async def test_a_told_doubt_holds_the_tool_up_in_the_conversation() -> None:
    """Also in its next run, whoever begins it with the same name; settled after the run's end, it does so no more."""
    world, tools = hanging()

    def model(request: Any) -> str:
        said = request.messages[-1].content
        return final() if "Observation" in said else call("mail", said)

    async with rig(model, tools, **TELL) as made:
        first = await made.ask("one", "c")
        assert first.state.state is State.FINAL_ANSWER
        world.does.clear()
        second = await made.ask("two", "c")
        assert (second.state.state, of(second, Held)[0].reason) == (State.AWAIT_APPROVAL, "approval")
        await approved(made, second)
        with pytest.raises(NotWaiting, match="cannot be repeated"):
            await made.people.settle(USER, first.stream, 0, "repeat")
        decided = await made.people.settle(BOB, first.stream, 0, "happened", result=Given({"id": 7}), note="in the log")
        assert decided.view.placed == first.placed
        assert (await made.people.settle(USER, first.stream, 0, "happened", result=Given({"id": 7}))).again
        with pytest.raises(AlreadyDecided, match="having happened by bob"):
            await made.people.settle(USER, first.stream, 0, "abandon")
        ((fact, _, _),) = await made.people.notes(USER, first.stream)
        assert isinstance(fact, Fact)
        assert await names_of(made.vault, [fact.actor]) == {fact.actor: "bob"}
        texts = await made.people.texts(first, await made.people.questions(USER, first))
        assert [texts[dict(fact.data)[key]] for key in ("result", "note")] == ['{"id":7}', "in the log"]
        third = await made.ask("three", "c")
    assert third.state.state is State.FINAL_ANSWER
    assert [text for _, text, _ in world.seen] == ["one", "two", "three"]


async def test_two_doubts_of_one_decision_are_settled_apart() -> None:
    """The step alone does not say which is meant; its number does."""
    _, tools = hanging()
    calls = tuple(NativeCall(f"id{n}", "mail", f'{{"text": "{n}"}}') for n in range(2))
    async with rig([ModelReply("", calls, "tool_calls"), "Done."], tools, protocol="tools", **TELL) as made:
        view = await made.ask()
        assert view.state.state is State.AWAIT_APPROVAL  # the second of them, while the first is in doubt
        view = await approved(made, view)
        with pytest.raises(InvalidRequest, match=r"0 \(mail\), 1 \(mail\)"):
            await made.people.settle(USER, view.stream, 0, "happened")
        await made.people.settle(USER, view.stream, 0, "happened", call=1)
        await made.people.settle(USER, view.stream, 0, "abandon")
        found = await made.people.questions(USER, view)
    assert [(q.call, q.answer.outcome) for q in found.all if isinstance(q.answer, SettlementGiven)] == [
        (0, "abandon"), (1, "happened")
    ]  # fmt: skip


async def test_what_a_cancel_left_in_doubt_can_be_settled() -> None:
    """The run is over; what a person knows of its call is noted beside it."""
    world = World()
    world.does["mail"] = forever
    async with rig([call("mail"), final()], world.tools(timeout_s=600)) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        await until(lambda: world.running)
        await made.service.cancel(USER, stream)
        view = await made.service.wait(USER, stream)
        decided = await made.people.settle(USER, stream, 0, "happened")
        assert (decided.again, decided.question.tool) == (False, "mail")
        assert (await made.service.view(USER, stream)).placed == view.placed
        assert (await made.people.questions(USER, view)).doubts == ()
