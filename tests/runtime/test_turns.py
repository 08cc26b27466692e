"""Conversations: one run at a time, in order; and two processes that want the same run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import ConversationBusy, Overloaded
from devassist.core.events import ModelIntended
from devassist.core.scope import SYSTEM, Scope
from devassist.core.states import State
from devassist.llm.scripted import Chunks, Scripted
from devassist.ports.model import ModelRequest
from devassist.runtime.starting import Bounds
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from tests.runtime.read import Recording, answer, of
from tests.runtime.rig import USER, Rig, build, rig
from tests.runtime.world import World, call, final

BOB = Scope("default", "bob", frozenset({"user"}))


def echo(request: ModelRequest) -> Any:
    return Chunks([(final(f"re {request.messages[-1].content}"), 5)])


async def start(made: Rig, message: str, scope: Scope = USER, conversation: str = "c") -> bytes:
    return (await made.service.start(scope, made.start_run(message, conversation))).stream


async def test_a_second_message_waits_and_then_runs() -> None:
    """It has its INIT at once, is not driven, and knows the first one's answer when its turn comes."""
    model = Recording(echo)
    async with rig(model) as made:
        first, second = await start(made, "one"), await start(made, "two")
        waiting = await made.service.view(USER, second)
        assert (waiting.state.state, waiting.driven) == (State.INIT, False)
        views = [await made.service.wait(USER, stream) for stream in (second, first)]
    assert [answer(view) for view in views] == ["re two", "re one"]
    assert [m.content for m in model.requests[-1].messages[1:]] == ["one", "re one", "two"]
    assert views[1].placed[-1][2] <= views[0].placed[1][2]


@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_fifty_messages_at_once_run_one_after_another(tmp_path: Path, where: str) -> None:
    """In the order in which they were begun, each with all before it in its past, never two at a time."""
    model = Recording(lambda request: final(f"re {request.messages[-1].content}"))
    async with rig(model, path=tmp_path if where == "sqlite" else None) as made:
        streams = await asyncio.gather(*(start(made, str(n)) for n in range(50)))
        views = await asyncio.gather(*(made.service.wait(USER, stream) for stream in streams))
    assert [answer(view) for view in views] == [f"re {n}" for n in range(50)]
    in_order = sorted(views, key=lambda view: view.stream)
    assert all(a.placed[-1][2] <= b.placed[1][2] for a, b in pairwise(in_order))
    messages = [view.texts[view.state.started.message] for view in in_order]
    assert [r.messages[-1].content for r in model.requests] == messages
    for number, request in enumerate(model.requests):
        past = [m.content for m in request.messages[1:-1] if m.role == "user"]
        assert past == messages[max(0, number - 20) : number]


async def test_a_busy_conversation_can_refuse() -> None:
    """With ``reject`` a second message is a conflict while the first runs, and welcome afterwards."""
    async with rig(Scripted(echo), bounds=Bounds(busy="reject")) as made:
        first = await start(made, "one")
        with pytest.raises(ConversationBusy):
            await start(made, "two")
        await made.service.wait(USER, first)
        view = await made.service.wait(USER, await start(made, "two"))
    assert answer(view) == "re two"


async def test_other_users_and_other_conversations_do_not_wait() -> None:
    """All of these are driven at the same time."""
    async with rig([[final("a"), ("", 50)]]) as made:
        streams = [await start(made, "x"), await start(made, "y", BOB), await start(made, "z", conversation="d")]
        assert [(await made.service.view(SYSTEM, stream)).driven for stream in streams] == [True] * 3
        for stream in streams:
            await made.service.wait(SYSTEM, stream)


async def test_a_run_that_waits_for_a_person_keeps_its_turn() -> None:
    """The next message waits behind it, and runs once the first is over."""
    world = World()

    def script(request: ModelRequest) -> str:
        return call("pay") if request.messages[-1].content == "first" else final()

    async with rig(script, [world.tool("pay", "once", needs_approval=True)]) as made:
        first = await start(made, "first")
        assert (await made.service.wait(USER, first)).state.state is State.AWAIT_APPROVAL
        second = await start(made, "second")
        await made.service.sweep()
        assert (await made.service.view(USER, second)).state.state is State.INIT
        assert await made.service.cancel(USER, first)
        assert (await made.service.wait(USER, first)).state.state is State.ABORTED
        assert (await made.service.wait(USER, second)).state.state is State.FINAL_ANSWER


async def test_the_house_can_be_full() -> None:
    """Admission counts open runs and refuses the next with 429."""
    async with rig([[final(), ("", 100)]], bounds=Bounds(max_open=2)) as made:
        streams = [await start(made, "x", conversation=f"c{n}") for n in range(2)]
        with pytest.raises(Overloaded):
            await start(made, "x", conversation="c3")
        for stream in streams:
            await made.service.wait(USER, stream)
        await made.service.wait(USER, await start(made, "x", conversation="c3"))


async def test_one_key_starts_one_run() -> None:
    """The same request under one Idempotency-Key, many times at once, is one run that all are told of."""
    model = Recording(lambda _: final())
    async with rig(model) as made:
        wanted = made.start_run("pay", idem="chat\0k1", digest="d")
        started = await asyncio.gather(*(made.service.start(USER, wanted) for _ in range(10)))
        views = [await made.service.wait(USER, s.stream) for s in started]
    assert len({view.stream for view in views}) == 1
    assert [s.created for s in started].count(True) == 1
    assert len(model.requests) == 1


async def begun(made: Rig, conversation: str) -> bytes:
    """A run that has its INIT and no owner yet."""
    run, _, _ = await made.prepare(USER, made.start_run("x", conversation))
    await made.journal.begin(USER, replace(run, lease_until=0))
    return run.stream


async def test_two_processes_drive_each_run_once(tmp_path: Path) -> None:
    """C04: fifty runs that both processes want at the same instant: one gets each, and drives it without a gap."""
    vault = FileVault(tmp_path / "keys")
    journals = [await SqliteJournal.open(tmp_path / "journal.db", vault) for _ in range(2)]
    world, script = World(), [call("look"), final()]
    both = [build(journal, vault, Scripted(script), world.tools()) for journal in journals]
    streams = [await begun(both[0], f"c{n}") for n in range(50)]
    await asyncio.gather(*(made.service.open(sole_driver=False) for made in both))
    for stream in streams:
        view = await both[0].service.wait(USER, stream)
        intents = of(view, ModelIntended)
        assert [(i.step, i.attempt, i.epoch) for i in intents] == [(0, 1, 1), (1, 2, 1)]
        assert [seq for _, seq, _ in view.placed] == list(range(len(view.placed)))
    assert set(world.keys.values()) == {1}
    assert len(world.keys) == 50
    for made, journal in zip(both, journals, strict=True):
        await made.service.drain(0.0)
        await journal.close()
    await vault.close()


async def test_of_many_claims_one_succeeds(tmp_path: Path) -> None:
    """C04: the claim itself, fifty times from two connections to one file."""
    vault = FileVault(tmp_path / "keys")
    journals = [await SqliteJournal.open(tmp_path / "journal.db", vault) for _ in range(2)]
    made = build(journals[0], vault, Scripted([final()]))
    for number in range(50):
        stream = await begun(made, f"c{number}")
        claims = await asyncio.gather(*(j.claim(SYSTEM, stream, 10**18, 10**18 + 1) for j in journals))
        assert sorted(claims, key=str) == [1, None]
    for journal in journals:
        await journal.close()
    await vault.close()
