"""What a run knows of its conversation: the turns that ended before its own, and nothing of anybody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from devassist.core.definition import Request
from devassist.core.events import ModelIntended
from devassist.core.messages import ChatMessage
from devassist.core.scope import Scope
from devassist.ports.journal import Head, HeadQuery
from devassist.ports.model import ModelRequest
from devassist.runtime.history import REMEMBERED, TURNS
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from tests.runtime.read import Recording, of
from tests.runtime.rig import USER, Rig, build, rig
from tests.runtime.world import World, call, final

BOB = Scope("default", "bob", frozenset({"user"}))


def echo(request: ModelRequest) -> str:
    return final(f"re {request.messages[-1].content}")


def past(model: Recording) -> list[str]:
    """What the newest prompt holds between the system message and the question."""
    return [m.content for m in model.requests[-1].messages[1:-1]]


async def asked(made: Rig, scope: Scope, message: str, conversation: str | None, **changes: Any) -> Any:
    started = await made.service.start(scope, made.start_run(message, conversation, **changes))
    return await made.service.wait(scope, started.stream)


async def test_earlier_turns_are_read_in_order() -> None:
    """Question and released answer of each, oldest first; tools and thoughts of old turns are not."""
    world = World()

    def script(request: ModelRequest) -> str:
        return call("look") if request.attempt == 1 else echo(request)

    model = Recording(script)
    async with rig(model, world.tools()) as made:
        for message in ("one", "two", "three"):
            view = await made.ask(message, "c")
    first = next(r for r in model.requests if r.trace_id == view.stream.hex())
    assert [m.role for m in first.messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [m.content for m in first.messages][1::2] == ["one", "two", "three"]
    intent = of(view, ModelIntended)[0]
    assert [(p.role, view.texts[p.ref]) for p in intent.history] == [
        (m.role, m.content) for m in first.messages[1:-1]
    ]  # fmt: skip
    assert of(view, ModelIntended)[1].history == ()


async def test_a_run_without_a_conversation_has_no_past() -> None:
    """Each gets a conversation of its own."""
    model = Recording(echo)
    async with rig(model) as made:
        one, two = await made.ask("one"), await made.ask("two")
    assert past(model) == []
    assert one.state.started.conversation != two.state.started.conversation


async def test_failed_and_cancelled_turns_are_left_out() -> None:
    """Only what was answered is a turn."""

    def script(request: ModelRequest) -> str:
        fails = request.attempt > 1 or request.messages[-1].content == "fail"
        return "" if fails else echo(request)

    model = Recording(script)
    async with rig(model) as made:
        await made.ask("one", "c")
        assert str((await made.ask("fail", "c")).state.state) == "ERROR"
        await made.ask("two", "c")
    assert past(model) == ["one", "re one"]


async def test_another_users_conversation_of_the_same_name_is_another() -> None:
    """Neither waits for nor reads the other's."""
    model = Recording(echo)
    async with rig(model) as made:
        await asked(made, USER, "mine", "c")
        await asked(made, BOB, "his", "c")
        assert past(model) == []
        await asked(made, BOB, "more", "c")
    assert past(model) == ["his", "re his"]


async def test_texts_of_another_erasure_domain_are_not_copied() -> None:
    """A turn about a subject stays in the subject's domain; the next turn about nobody does not hold it."""
    model = Recording(echo)
    async with rig(model) as made:
        subject = Request(user="alice", route="agent", route_reason="test", subject="patient-7")
        await asked(made, USER, "about her", "c", request=subject)
        await asked(made, USER, "plain", "c")
        assert past(model) == []
        await asked(made, USER, "her again", "c", request=subject)
    assert past(model) == ["about her", "re about her"]


async def test_an_erased_turn_is_left_out() -> None:
    """Its texts cannot be read any more; the conversation goes on without."""
    model = Recording(echo)
    async with rig(model) as made:
        first = await asked(made, USER, "one", "c")
        await made.vault.destroy(USER, bytes.fromhex(first.state.started.domain))
        view = await asked(made, USER, "two", "c")
    assert view.state.closed
    assert past(model) == []


async def test_a_replaced_turn_is_gone_with_all_before_it_in_its_place() -> None:
    """Asked again twice: the last version stands, whatever became of the others."""
    model = Recording(echo)
    async with rig(model) as made:
        await asked(made, USER, "zero", "c")
        first = await asked(made, USER, "one", "c")
        second = await asked(made, USER, "one, again", "c", replaces=first.stream)
        assert past(model) == ["zero", "re zero"]
        third = await asked(made, USER, "one, at last", "c", replaces=second.stream)
        assert past(model) == ["zero", "re zero"]
        await asked(made, USER, "two", "c")
    assert past(model) == ["zero", "re zero", "one, at last", "re one, at last"]
    assert third.state.started.replaces == second.stream.hex()


async def test_only_the_newest_turns_are_read() -> None:
    """A long conversation does not grow the prompt for ever."""
    model = Recording(echo)
    async with rig(model) as made:
        for number in range(TURNS + 3):
            await asked(made, USER, str(number), "c")
    assert past(model)[-1] == f"re {TURNS + 1}"
    assert len(past(model)) == TURNS * 2


async def test_history_may_be_given_where_there_is_no_conversation() -> None:
    """It becomes part of the record like the rest."""
    model = Recording(echo)
    async with rig(model) as made:
        request = Request("alice", "agent", "test", history=(("user", "before"), ("assistant", "so")))
        view = await asked(made, USER, "now", None, request=request)
    assert model.requests[-1].messages[1:3] == (ChatMessage("user", "before"), ChatMessage("assistant", "so"))
    assert [view.texts[p.ref] for p in of(view, ModelIntended)[0].history] == ["before", "so"]


async def test_a_past_too_long_for_the_prompt_is_cut_and_counted() -> None:
    """Oldest first; the record says how many messages were left out."""
    model = Recording(echo)
    async with rig(model) as made:
        made.definition = replace(made.definition, context_tokens=700)
        for number in range(6):
            view = await asked(made, USER, f"{number}" * 300, "c")
    left = of(view, ModelIntended)[0].left_history
    assert 0 < left < 10
    assert f"({left} earlier messages were left out" in model.requests[-1].messages[0].content
    assert len(past(model)) == 10 - left


class Asked(MemoryJournal):
    """Counts how often a conversation's past is looked for."""

    def __init__(self, vault: Any) -> None:
        super().__init__(vault)
        self.looked = 0

    async def list(self, scope: Scope, query: HeadQuery) -> list[Head]:
        self.looked += query.conversation is not None
        return await super().list(scope, query)


async def test_a_new_conversation_has_no_past_to_look_for() -> None:
    """However many runs ended before they asked, the newest is known to begin its conversation, and no run that got its
    past from the caller is kept."""
    vault = MemoryVault()
    made = build(Asked(vault), vault, Recording(echo))
    for number in range(REMEMBERED + 5):
        made.service._history.is_fresh(number.to_bytes(16))
    assert len(made.service._history._fresh) == REMEMBERED
    given = Request(user="alice", route="agent", route_reason="test", history=(("user", "before"),))
    first = await made.ask("one", request=given)
    assert first.stream not in made.service._history._fresh
    await made.ask("two")
    assert made.journal.looked == 0
    await made.service.drain()
