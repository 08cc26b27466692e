"""People approve calls: what their answer binds to, that it counts once, and what the run does next."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devassist.core.definition import Definition
from devassist.core.errors import AlreadyDecided, ApprovalNotFound, InvalidRequest, NotWaiting, RunNotFound
from devassist.core.events import Held, ToolIntended
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.signals import ApprovalGiven, RunRestored
from devassist.core.states import State
from devassist.core.tooling import ToolSpec
from devassist.runtime.people import names_of
from devassist.tools.outcomes import AskForApproval
from devassist.tools.registry import Tool
from tests.runtime.people import BOB, EVE, approved, digest
from tests.runtime.read import Recording, answer, of, parked, signal
from tests.runtime.rig import USER, rig
from tests.runtime.world import TEXT, World, call, final, until


def paying(**options: Any) -> tuple[World, Tool]:
    world = World()
    return world, world.tool("pay", "once", needs_approval=True, **options)


async def test_an_approved_call_is_made_and_the_record_says_by_whom() -> None:
    """The run goes on at once; what was decided on and who did it stand in its events."""
    world, pay = paying()
    async with rig([call("pay", "100"), final("Paid.")], [pay]) as made:
        view = await made.ask()
        decided = await made.people.approve(BOB, view.stream, digest(view), "approve", note="due")
        assert (decided.again, decided.question.tool, decided.question.step) == (False, "pay", 0)
        assert (decided.view.stream, decided.question.open) == (view.stream, False)
        view = await made.service.wait(USER, view.stream)
        (said,) = of(view, ApprovalGiven)
        assert await names_of(made.vault, [said.actor, "system"]) == {said.actor: "bob"}
    assert (answer(view), world.done["pay"]) == ("Paid.", 1)
    assert (view.texts[said.note], said.args, said.new_digest) == ("due", None, None)


async def test_changed_arguments_are_those_that_it_is_made_with() -> None:
    """The call goes on under a new digest, and the record names both, and both arguments."""
    world, pay = paying()
    async with rig([call("pay", "100"), final()], [pay]) as made:
        view = await approved(made, await made.ask(), args={"text": "50"})
    assert [text for _, text, _ in world.seen] == ["50"]
    (said,), (asked, made_with) = of(view, ApprovalGiven), of(view, ToolIntended)
    assert (view.texts[asked.args], view.texts[made_with.args]) == ('{"text":"100"}', '{"text":"50"}')
    assert (said.digest, said.args) == (digest(view), made_with.args)
    assert said.new_digest not in (None, said.digest)


async def test_the_same_arguments_are_no_change() -> None:
    """Approving what stands there, written out, is approving it."""
    _, pay = paying()
    async with rig([call("pay", "100"), final()], [pay]) as made:
        view = await approved(made, await made.ask(), args={"text": "100"})
    assert (of(view, ApprovalGiven)[0].args, of(view, ApprovalGiven)[0].new_digest) == (None, None)


async def test_arguments_that_do_not_fit_are_refused() -> None:
    """Each wrong path is named; nothing is recorded, and the run waits on. A rejection takes none."""
    _, pay = paying()
    async with rig([call("pay", "100"), final()], [pay]) as made:
        view = await made.ask()
        with pytest.raises(InvalidRequest) as wrong:
            await made.people.approve(USER, view.stream, digest(view), "approve", args={"text": 5, "more": 1})
        assert {path for path, _ in wrong.value.errors} == {"/tool_args", "/tool_args/text"}
        with pytest.raises(InvalidRequest):
            await made.people.approve(USER, view.stream, digest(view), "reject", args={"text": "1"})
        assert (await made.service.view(USER, view.stream)).placed == view.placed


async def test_a_rejected_call_is_told_to_the_model() -> None:
    """It is not made, and the model may answer."""
    world, pay = paying()
    model = Recording([call("pay"), final("Then not.")])
    async with rig(model, [pay]) as made:
        view = await approved(made, await made.ask(), "reject", note="too much")
    assert (answer(view), world.seen) == ("Then not.", [])
    assert "not approved" in model.requests[-1].messages[-1].content


async def test_an_answer_counts_once() -> None:
    """The same word again, by anybody and at any time, changes nothing; another one is told what was said before."""
    world, pay = paying()
    async with rig([call("pay", "100"), final()], [pay]) as made:
        view = await made.ask()
        other = {"text": "1"}
        wanted = [(BOB, "approve", None), (USER, "approve", None), (USER, "reject", None), (BOB, "approve", other)]
        said = await asyncio.gather(
            *(made.people.approve(who, view.stream, digest(view), how, args=args) for who, how, args in wanted),
            return_exceptions=True,
        )
        assert sum(isinstance(each, AlreadyDecided) for each in said) in (2, 3)
        end = await made.service.wait(USER, view.stream)
        (counted,) = of(end, ApprovalGiven)
        same = other if counted.args else None
        again = await made.people.approve(BOB, view.stream, digest(view), counted.decision, args=same)
        assert (again.again, again.view.placed) == (True, end.placed)
        contrary: Any = "reject" if counted.decision == "approve" else "approve"
        with pytest.raises(AlreadyDecided, match=f"it was {counted.decision[:6]}.* by (bob|alice)"):
            await made.people.approve(BOB, view.stream, digest(view), contrary)
    assert world.done["pay"] <= 1


async def test_an_approval_is_for_one_call_only() -> None:
    """The same call asked for again has another digest, and waits again; a digest that was never given is not found."""
    world, pay = paying()
    async with rig([call("pay", "100"), call("pay", "100"), final()], [pay]) as made:
        first = await made.ask()
        second = await approved(made, first)
        assert second.state.state is State.AWAIT_APPROVAL
        assert digest(second) != digest(first)
        assert (await made.people.approve(USER, first.stream, digest(first), "approve")).again
        with pytest.raises(ApprovalNotFound, match=digest(second)):
            await made.people.approve(USER, first.stream, "0" * 64, "approve")
        assert world.done["pay"] == 1
        await approved(made, second)
    assert world.done["pay"] == 2


async def test_two_calls_of_one_decision_are_answered_apart() -> None:
    """Each has its digest; what is said of one says nothing of the other, together or in order."""
    for effect, parallel in (("once", False), ("pure", True)):
        world = World()
        pay = world.tool("pay", effect, needs_approval=True)
        calls = tuple(NativeCall(f"id{n}", "pay", f'{{"text": "{n}"}}') for n in range(2))
        model = Recording([ModelReply("", calls, "tool_calls"), "Done."])
        async with rig(model, [pay], protocol="tools", parallel=parallel) as made:
            first = await made.ask()
            second = await approved(made, first, "reject")
            assert (second.state.state, world.seen) == (State.AWAIT_APPROVAL, [])
            assert [e.call for e in of(second, Held)] == [0, 1]
            view = await approved(made, second)
        assert [text for _, text, _ in world.seen] == ["1"]
        shown = [m.content for m in model.requests[-1].messages if m.role == "tool"]
        assert "not approved" in shown[0]
        assert (shown[1], view.state.state) == ('{"echo":"1"}', State.FINAL_ANSWER)


async def test_a_run_that_waits_survives_a_restart(tmp_path: Path) -> None:
    """Nothing is held for it; the next process finds it, and the answer given in between."""
    world, pay = paying()
    script: Any = lambda r: final("Paid.") if "Observation" in r.messages[-1].content else call("pay", "100")  # noqa: E731
    async with rig(script, [pay], tmp_path) as made:
        view = await made.ask()
        await until(lambda: not made.service._tasks)
        assert (await made.journal.head(USER, view.stream)).lease_until == 0
    async with rig(script, [pay], tmp_path, open_service=False) as beside:
        decided = await beside.people.approve(BOB, view.stream, digest(view), "approve", args={"text": "50"})
        assert decided.view.state.state is State.AWAIT_APPROVAL
        assert world.seen == []
    async with rig(script, [pay], tmp_path) as made:
        view = await made.service.wait(USER, view.stream)
        while not view.state.closed:
            view = await made.service.wait(USER, view.stream)
    assert ([text for _, text, _ in world.seen], answer(view)) == (["50"], "Paid.")


async def test_an_answer_beside_a_running_process_is_noticed(tmp_path: Path) -> None:
    """Appended by another process on the same files, the run goes on with the next sweep."""
    world, pay = paying()
    async with rig([call("pay"), final()], [pay], tmp_path) as made:
        view = await made.ask()
        async with rig([], [pay], tmp_path, open_service=False) as beside:
            await beside.people.approve(BOB, view.stream, digest(view), "approve")
        await until(lambda: world.done["pay"])
        assert (await made.service.wait(USER, view.stream)).state.state is State.FINAL_ANSWER


async def test_an_answer_to_a_run_that_was_cancelled_is_refused() -> None:
    """It waits no more: nobody is told that the call was approved."""
    world, pay = paying()
    async with rig([call("pay"), final()], [pay]) as made:
        view = await made.ask()
        await made.service.cancel(USER, view.stream)
        await made.service.wait(USER, view.stream)
        with pytest.raises(NotWaiting):
            await made.people.approve(USER, view.stream, digest(view), "approve")
    assert world.seen == []


async def test_after_a_rewind_an_answer_is_asked_for_again() -> None:
    """The same digest waits again, and a second answer, even another one, is taken."""
    world, pay = paying()
    async with rig([call("pay"), final("No.")], [pay]) as made:
        view = await made.ask()
        await made.service.drain(0.0)
        first = await made.people.approve(USER, view.stream, digest(view), "approve")
        await signal(made, view.stream, RunRestored("r", 1, 2))
        decided = await made.people.approve(BOB, view.stream, first.question.digest, "reject")
        assert not decided.again
        assert [e.decision for e in of(decided.view, ApprovalGiven)] == ["approve", "reject"]
        assert decided.view.state.calls[0].answer == "reject"
    assert world.seen == []


async def test_a_tool_that_asks_sees_that_it_was_approved() -> None:
    """The handler decides by its arguments whether a person is needed, and does the work once one agreed."""
    seen: list[bool] = []

    def pay(text: str, context: Any) -> str:
        seen.append(context.approved)
        if not context.approved:
            raise AskForApproval("more than 50")
        return "paid"

    tool = Tool(ToolSpec("pay", "Pays.", TEXT, None, "once"), pay)
    async with rig([call("pay", "100"), final("Paid.")], [tool]) as made:
        view = await approved(made, await made.ask())
    assert (seen, answer(view)) == ([False, True], "Paid.")


async def test_strangers_find_no_run() -> None:
    """What they say reaches nobody, in the words of a run that does not exist."""
    _, pay = paying()
    async with rig([call("pay"), final()], [pay]) as made:
        view = await made.ask()
        for stream in (view.stream, bytes(16)):
            with pytest.raises(RunNotFound, match=f"no run {stream.hex()}"):
                await made.people.approve(EVE, stream, digest(view), "approve")
            with pytest.raises(RunNotFound, match=f"no run {stream.hex()}"):
                await made.people.settle(EVE, stream, 0, "happened")
        assert (await made.service.view(USER, view.stream)).placed == view.placed


async def test_a_definition_is_what_an_answer_is_checked_against() -> None:
    """The schema of the run's beginning counts, not that of a tool registered since."""
    _, pay = paying()
    async with rig([call("pay"), final()], [pay]) as made:
        view = await made.ask()
        changed = {**TEXT, "properties": {"text": {"type": "integer"}}}
        made.tools._entries.clear()
        made.tools.register(Tool(replace(pay.spec, parameters=changed), pay.handler))
        with pytest.raises(InvalidRequest):
            await made.people.approve(USER, view.stream, digest(view), "approve", args={"text": 5})
        spec = Definition.from_json(view.texts[view.state.started.definition]).spec("pay")
        assert spec is not None
        assert spec.parameters == TEXT


async def test_a_run_that_waits_holds_nothing() -> None:
    """Parked, it is driven by nobody: no task, no lease, nothing due."""
    _, pay = paying()
    async with rig([call("pay"), final()], [pay]) as made:
        await made.service.start(USER, made.start_run())
        head = await parked(made, "AWAIT_APPROVAL")
        assert not made.service._tasks
        assert head.stream not in {h.stream for h in await made.journal.due(USER, 2**60)}
