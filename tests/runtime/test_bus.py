"""What is live: deltas for who watches, and the hint that a journal moved."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest

from devassist.core.messages import ModelReply, NativeCall
from devassist.llm.scripted import Chunks
from devassist.ports.bus import Live
from devassist.runtime.local_bus import LocalBus
from tests.runtime.read import answer
from tests.runtime.rig import USER, rig
from tests.runtime.world import World, call, final

RUN, OTHER = b"r" * 16, b"o" * 16


def test_nothing_is_kept_that_nobody_watches() -> None:
    """Deltas of a run without followers cost nothing."""
    bus = LocalBus()
    bus.begin(RUN, 1)
    bus.add(RUN, "text")
    bus.touch(RUN)
    bus.end(RUN)
    assert bus.live(RUN) is None
    assert not bus.watched(RUN)
    assert bus._topics == {}


def test_a_follower_finds_the_text_so_far() -> None:
    """Pieces are joined; a new attempt starts over; the last follower's leave ends the topic."""
    bus = LocalBus()
    bus.watch(RUN)
    bus.watch(RUN)
    assert bus.live(RUN) is None
    bus.begin(RUN, 1)
    assert bus.live(RUN) == Live(1, "")
    bus.add(RUN, "a")
    bus.add(RUN, "")
    bus.add(RUN, "b")
    assert bus.live(RUN) == Live(1, "ab")
    bus.begin(RUN, 2)
    assert bus.live(RUN) == Live(2, "")
    bus.end(RUN)
    bus.unwatch(RUN)
    assert bus.watched(RUN)
    bus.unwatch(RUN)
    assert bus._topics == {}
    bus.unwatch(RUN)


async def test_a_change_wakes_every_follower_of_the_run() -> None:
    """And nobody else; who asks with an old version is answered at once."""
    bus = LocalBus()
    for stream in (RUN, OTHER):
        bus.watch(stream)
    seen = await bus.changed(RUN, -1, 1)
    waiting = [asyncio.create_task(bus.changed(RUN, seen, 5)) for _ in range(3)]
    other = asyncio.create_task(bus.changed(OTHER, await bus.changed(OTHER, -1, 1), 0.05))
    await asyncio.sleep(0.01)
    bus.touch(RUN)
    assert set(await asyncio.gather(*waiting)) == {seen + 1}
    assert await other == 0
    assert await bus.changed(RUN, seen, 5) == seen + 1


async def test_waiting_ends_in_time() -> None:
    """Also for a run that nobody is known to follow; ``touch_all`` ends it for all."""
    bus = LocalBus()
    began = monotonic()
    assert await bus.changed(RUN, 7, 0.02) == 7
    bus.watch(RUN)
    assert await bus.changed(RUN, 0, 0.02) == 0
    assert monotonic() - began < 1
    waiting = asyncio.create_task(bus.changed(RUN, 0, 5))
    await asyncio.sleep(0)
    bus.touch_all()
    assert await waiting == 1


class Heard(LocalBus):
    """Notes what is released."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[int, str]] = []

    def add(self, stream: bytes, text: str) -> None:
        super().add(stream, text)
        if text:
            live = self.live(stream)
            assert live is not None
            self.pieces.append((live.attempt, text))


async def heard(script: Any, tools: Any = (), *, watched: bool = True, **definition: Any) -> tuple[list[Any], str]:
    async with rig(script, tools, **definition) as made:
        bus = made.bus
        bus.__class__ = Heard
        bus.pieces = []
        started = await made.service.start(USER, made.start_run(watched=watched))
        view = await made.service.wait(USER, started.stream)
        if watched:
            bus.unwatch(started.stream)
        assert bus._topics == {}
        return bus.pieces, answer(view)


async def test_the_answer_flows_as_it_is_written() -> None:
    """Only its text, never protocol, under the number of its attempt."""
    world = World()
    text = "Thought: so.\nAction: final: It takes\nninety days."
    script = [call("look"), Chunks([text[at : at + 4] for at in range(0, len(text), 4)])]
    pieces, said = await heard(script, world.tools())
    assert {attempt for attempt, _ in pieces} == {2}
    assert len(pieces) > 3
    assert "".join(text for _, text in pieces) == said == "It takes\nninety days."


@pytest.mark.parametrize(
    "changes", [{"release": "gated"}, {"watched": False}, {"protocol": "tools"}], ids=["gated", "unwatched", "tools"]
)
async def test_nothing_flows_where_nothing_may(changes: dict[str, Any]) -> None:
    """A gated agent shows nothing before its verdict; in the tools protocol any text may turn out to be a thought."""
    script = [ModelReply("", (NativeCall("a", "look", '{"text": "x"}'),)), final()]
    pieces, _ = await heard(script, World().tools(), **changes)
    assert pieces == []


async def test_without_tools_a_plain_reply_flows() -> None:
    """Nothing else than the answer can come, so it is shown from the first piece on."""
    pieces, said = await heard([Chunks(["It ", "is ", "so."])], protocol="tools")
    assert pieces == [(1, "It"), (1, " is"), (1, " so.")]  # white space waits for what follows
    assert said == "It is so."


async def test_a_message_that_joins_its_run_counts_one_follower() -> None:
    """A retry under the same Idempotency-Key leaves no topic of a run that never was."""
    async with rig([final()]) as made:
        wanted = made.start_run(idem="k", digest="d", watched=True)
        first = await made.service.start(USER, wanted)
        again = await made.service.start(USER, wanted)
        assert (again.stream, again.created) == (first.stream, False)
        await made.service.wait(USER, first.stream)
        made.bus.unwatch(first.stream)
        assert made.bus._topics == {}
