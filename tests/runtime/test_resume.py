"""A run that is cut off anywhere and taken up by another process comes to the same end.

Each recorded run is cut at every commit: the events up to there are put into a fresh journal, as a process that died
then would have left them, and a second process with the same tools and the same scripted model drives on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from devassist.core.chain import call_id
from devassist.core.errors import ProviderError
from devassist.core.events import Held, ModelIntended, ToolIntended, ToolReturned
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import SYSTEM
from devassist.core.signals import LateOutcome, SettlementGiven
from devassist.core.states import State
from devassist.llm.scripted import AfterFailures
from devassist.ports.journal import Append
from devassist.runtime.view import RunView, load
from devassist.store.vault import MemoryVault
from tests.runtime.read import answer, kinds, of, signal
from tests.runtime.rig import USER
from tests.runtime.tape import Story, Taped, driven, left_behind, process, recorded
from tests.runtime.world import MovedClock, World, call, ended, final

BUSY = ProviderError("busy", code="provider_overloaded", retryable=True)
NATIVE = ModelReply("", tuple(NativeCall(f"id{n}", "look", f'{{"text": "{n}"}}') for n in range(3)), "tool_calls")


STORIES = {
    "plain": Story([final("Hello.")]),
    "two tools": Story([call("look", "a"), call("put", "b"), final()]),
    "parallel": Story([NATIVE, "All three."], {"protocol": "tools", "parallel": True}),
    "one by one": Story([NATIVE, "All three."], {"protocol": "tools"}),
    "corrected": Story(["?!", call("look", text=7), call("look"), final()]),
    "failed": Story([call("look"), "", "", ""]),
    "retried": Story([AfterFailures((BUSY,), final())]),
    "once": Story([call("look", "a"), call("mail", "b"), call("look", "c"), final()], once=True),
}


def outcome(view: RunView) -> Any:
    return view.state.state, view.texts.get(getattr(view.events[-1], "answer", None) or "", None)


@pytest.mark.parametrize("name", [name for name in STORIES if name != "once"])
async def test_every_cut_converges(name: str) -> None:
    """Cut after any commit, the run comes to the same state and answer; open attempts are recorded as cut off, and
    what was recorded before the cut is untouched."""
    story = STORIES[name]
    whole, commits, vault = await recorded(story)
    for cut in range(1, len(commits)):
        clock, world = MovedClock(), World()
        journal = await left_behind(commits[:cut], vault)
        before = await journal.read(SYSTEM, whole.stream)
        async with process(journal, story, world, clock, opened=True) as made:
            view = await driven(made, clock, whole.stream)
        assert outcome(view) == outcome(whole), (name, cut)
        assert (await journal.read(SYSTEM, whole.stream))[: len(before)] == before
        assert set(world.keys.values()) <= {1}
        open_before = before[-1].kind in ("model_intended", "tool_intended")
        codes = [e.code for e in view.events if getattr(e, "code", None) == "interrupted"]
        assert bool(codes) == open_before, (name, cut)


async def test_a_cut_after_a_once_intent_ends_in_doubt() -> None:
    """C01: the effect may have happened. It is not made again by itself; settled, the run comes to its end."""
    story = STORIES["once"]
    whole, commits, vault = await recorded(story)
    doubts = 0
    for cut in range(1, len(commits)):
        clock, world = MovedClock(), World()
        journal = await left_behind(commits[:cut], vault)
        left = (await journal.read(SYSTEM, whole.stream))[-1]
        async with process(journal, story, world, clock, opened=True) as made:
            view = await driven(made, clock, whole.stream)
            assert world.done["mail"] <= 1
            if b'"mail"' in left.body and left.kind == "tool_intended":
                doubts += 1
                assert view.state.state is State.AWAIT_APPROVAL
                assert world.done["mail"] == 0
                held = of(view, Held)[0]
                await signal(made, view.stream, SettlementGiven("s", "00" * 16, held.digest, "happened"))
                await made.service.sweep()
                view = await driven(made, clock, whole.stream)
        assert outcome(view) == outcome(whole)
    assert doubts == 1


async def test_a_repeat_waits_for_the_dead_attempts_deadline_and_keeps_its_key() -> None:
    """C01, C17: a person says repeat. The call is made under the same key, not before the old one's time is over."""
    story = STORIES["once"]
    whole, commits, vault = await recorded(story)
    cut = next(i for i, c in enumerate(commits) if isinstance(c, Append) and b'"mail"' in c.bodies[-1].data) + 1
    clock, world = MovedClock(), World()
    journal = await left_behind(commits[:cut], vault)
    async with process(journal, story, world, clock, opened=True) as made:
        view = await driven(made, clock, whole.stream)
        digest = of(view, Held)[0].digest
        await signal(made, view.stream, SettlementGiven("s", "00" * 16, digest, "repeat"))
        await made.service.sweep()

        async def waits() -> bool:
            return (await journal.head(SYSTEM, whole.stream)).state == "WAIT"

        await ended(waits)
        assert world.done["mail"] == 0
        view = await driven(made, clock, whole.stream)
    intents = [e for e in of(view, ToolIntended) if e.tool == "mail"]
    assert [e.attempt for e in intents] == [1, 2]
    assert intents[0].deadline <= next(at for e, _, at in view.placed if e is intents[1])
    key = call_id(whole.stream, intents[0].decision, 0)
    assert [c.call_id for name, _, c in world.seen if name == "mail"] == [key]
    assert world.done["mail"] == 1


async def test_an_idempotent_call_is_repeated_under_its_key() -> None:
    """C17: the second process gives the tool the same key, though it is another attempt in another epoch."""
    story = STORIES["two tools"]
    whole, commits, vault = await recorded(story)
    cut = next(i for i, c in enumerate(commits) if isinstance(c, Append) and b'"put"' in c.bodies[-1].data) + 1
    clock, world = MovedClock(), World()
    journal = await left_behind(commits[:cut], vault)
    async with process(journal, story, world, clock, opened=True) as made:
        view = await driven(made, clock, whole.stream)
    (intent,) = [e for e in of(view, ToolIntended) if e.tool == "put" and e.attempt == 2]
    (context,) = [c for name, _, c in world.seen if name == "put"]
    assert (context.attempt, context.epoch, intent.epoch) == (2, 2, 2)
    assert context.call_id == call_id(whole.stream, intent.decision, 0)
    assert answer(view) == answer(whole)


async def test_two_equal_calls_have_two_keys() -> None:
    """C17: what is asked for twice is meant twice."""
    world = World()
    journal = Taped(MemoryVault())
    story = Story([call("put", "same"), call("put", "same"), final()])
    async with process(journal, story, world, MovedClock(), opened=True) as made:
        await made.ask()
    assert len({c.call_id for _, _, c in world.seen}) == 2


async def test_resuming_uses_the_recorded_definition() -> None:
    """Today's prompt and tools are another matter: the run goes on as it began."""
    story = STORIES["two tools"]
    whole, commits, vault = await recorded(story)
    journal = await left_behind(commits[:2], vault)
    changed = Story(story.script, {"system": "You are somebody else now."})
    async with process(journal, changed, World(), MovedClock(), opened=True) as made:
        view = await driven(made, MovedClock(), whole.stream)
    assert [i.tokens for i in of(view, ModelIntended)][-1] == [i.tokens for i in of(whole, ModelIntended)][-1]


async def test_what_a_superseded_owner_has_in_hand_is_delivered() -> None:
    """A process that lost the run in the middle of an effect hands the outcome over: it is the call's outcome."""
    vault = MemoryVault()
    journal, world, clock = Taped(vault), World(), MovedClock()
    story = STORIES["once"]

    async with process(journal, story, world, clock, opened=True) as first:

        async def overtaken(text: str, context: Any) -> str:
            await journal.reclaim(SYSTEM)
            assert await journal.claim(SYSTEM, stream, clock.now_us(), clock.now_us() + 60_000_000) == 2
            return "sent"

        world.does["mail"] = overtaken
        stream = (await first.service.start(USER, first.start_run())).stream

        async def handed() -> bool:
            return (await journal.read(SYSTEM, stream))[-1].kind == "late_outcome"

        await ended(handed)
    await journal.release(SYSTEM, [(stream, 2)])
    async with process(journal, story, world, clock, opened=True) as second:
        view = await driven(second, clock, stream)
    (late,) = of(view, LateOutcome)
    assert (late.outcome, view.texts[late.result]) == ("result", '"sent"')
    assert world.done["mail"] == 1
    assert view.state.state is State.FINAL_ANSWER
    assert "held" not in kinds(view)


async def test_a_late_outcome_of_a_closed_run_stands_beside_it() -> None:
    """Nothing is appended to a closed run; what is learnt later goes to its notes."""
    vault = MemoryVault()
    journal, world, clock = Taped(vault), World(), MovedClock()
    async with process(journal, STORIES["once"], world, clock, opened=True) as made:

        async def overtaken(text: str, context: Any) -> str:
            await journal.reclaim(SYSTEM)
            await journal.claim(SYSTEM, stream, clock.now_us(), clock.now_us())
            async with process(journal, STORIES["once"], World(), clock, opened=False) as other:
                await other.service.open(sole_driver=True)
                await other.service.cancel(USER, stream)
                await other.service.wait(USER, stream)
            return "sent"

        world.does["mail"] = overtaken
        stream = (await made.service.start(USER, made.start_run())).stream

        async def noted() -> Any:
            return [r for r in await journal.changes(0) if r.kind == "fact"]

        (note,) = await ended(noted)
    view = await load(journal, SYSTEM, stream)
    assert view.state.state is State.ABORTED
    head = await journal.head(SYSTEM, note.stream)
    assert (head.kind, head.name, head.tenant) == ("notes", stream.hex(), "default")
    data = dict(json.loads(note.body)["data"])
    assert (data["outcome"], data["of"]) == ("result", str(of(view, ToolReturned)[-1].of))
    texts = await journal.payloads(SYSTEM, note.stream, [data["result"]])
    assert texts == {data["result"]: '"sent"'}
