"""A process stopped at the worst time, and continued after another has taken over and has been answered.

Two real processes on one store below the directory's lock: this one is the successor.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from devassist.core.events import ToolIntended, ToolReturned
from devassist.core.scope import SYSTEM
from devassist.core.signals import Fact, LateOutcome
from devassist.core.states import State
from devassist.runtime.view import RunView, decoded
from tests.crash.kit import Doubt, Said, acknowledged, answer_in, held
from tests.crash.nursery import Process, process
from tests.crash.twin import Twin, driver
from tests.crash.world import UNDER_WAY, Witness
from tests.runtime.read import answer, failure, of
from tests.runtime.rig import USER, Rig
from tests.runtime.world import ended, until

WAIT_S = 30.0


class Pair:
    """The stopped one, its successor, and the one run between them."""

    def __init__(self, place: Path, old: Process, new: Rig, stream: bytes) -> None:
        self.witness, self.old, self.new, self.stream = Witness(place), old, new, stream

    async def view(self) -> RunView:
        return await self.new.service.view(USER, self.stream)

    async def until(self, *states: State) -> RunView:
        """The run once it is in one of these, moved by the successor."""

        async def there() -> RunView | None:
            head = await self.new.journal.head(SYSTEM, self.stream)
            return await self.view() if head.state in states and head.epoch > 1 else None

        return await ended(there, WAIT_S)

    async def in_doubt(self) -> Doubt:
        doubt = held(await self.until(State.AWAIT_APPROVAL))
        assert doubt is not None
        return doubt

    async def settle(self, said: Said) -> RunView:
        """A person's word, and what the run comes to by it."""
        await answer_in(self.new.journal, await self.in_doubt(), said)
        return await self.until(State.FINAL_ANSWER, State.ERROR)

    async def go_on(self) -> None:
        """Continue the old one and let it end: it has dealt with what it had in hand."""
        self.old.send(signal.SIGCONT)
        self.old.send(signal.SIGTERM)
        assert await self.old.wait() == 0
        assert self.old.told == ""

    async def notes(self) -> list[tuple[str, str | None]]:
        """(outcome, code) of what is said beside the run."""
        head = await self.new.journal.named(USER, "notes", self.stream.hex())
        said = decoded(await self.new.journal.read(SYSTEM, head.stream))
        facts = [dict(event.data) for event, _, _ in said if isinstance(event, Fact)]
        return [(fact["outcome"], fact.get("code")) for fact in facts]

    def effects(self) -> list[tuple[bool, int]]:
        """(whether the old one made it, attempt) of each effect."""
        return [(line.pid == self.old.pid, line.attempt) for line in self.witness.lines()]


@asynccontextmanager
async def pair(place: Path, nursery: Path, tool: str, point: str, once_s: float = 1.0) -> AsyncGenerator[Pair]:
    """The old one is stopped at the point; the new one finds that out for itself."""
    plan = Twin(str(place), tool, once_s=once_s, point=point)
    old_one, new_one = process(nursery, "twin:run", plan.text(), place / "stderr"), driver(replace(plan, lease_s=5.0))
    async with old_one as old, new_one as new:
        await until(lambda: acknowledged(place), WAIT_S)
        made = Pair(place, old, new, bytes.fromhex(*acknowledged(place)))
        await old.stopped()
        yield made


def intents(view: RunView) -> list[tuple[int, int]]:
    return [(intent.attempt, intent.epoch) for intent in of(view, ToolIntended)]


async def test_repeated_by_the_successor_it_is_not_made_by_the_old_one(tmp_path: Path, nursery: Path) -> None:
    """Stopped before the effect: a person says repeat, the successor makes it, and the old one, continued, does not."""
    async with pair(tmp_path, nursery, "note_once", "after_tool_intent") as made:
        view = await made.settle("repeat")
        assert made.effects() == [(False, 2)]
        await made.go_on()
        assert made.effects() == [(False, 2)]
        assert (await made.view()).placed == view.placed
    assert [attempt for attempt, _ in intents(view)] == [1, 2]
    assert answer(view) == "Done."


async def test_given_up_by_a_person_it_is_not_made_by_the_old_one(tmp_path: Path, nursery: Path) -> None:
    """Stopped before the effect, which a person gave up meanwhile: it does not happen after all, long as its deadline
    may still be. That it did not is said beside the ended run."""
    async with pair(tmp_path, nursery, "note_once", "after_tool_intent", once_s=600) as made:
        view = await made.settle("abandon")
        await made.go_on()
        assert made.effects() == []
        assert (await made.view()).placed == view.placed
        assert await made.notes() == [("failed", "tool_not_started")]
    assert failure(view) == ("outcome_unknown", 502)


async def test_unanswered_the_old_one_says_that_it_was_not_made(tmp_path: Path, nursery: Path) -> None:
    """Stopped before the effect, and nobody answered: what the old one knows settles the doubt."""
    async with pair(tmp_path, nursery, "note_once", "after_tool_intent") as made:
        await made.in_doubt()
        await made.go_on()
        view = await made.until(State.FINAL_ANSWER)
        assert made.effects() == []
    assert [(e.outcome, e.code) for e in of(view, LateOutcome)] == [("failed", "tool_not_started")]
    assert intents(view) == [(1, 1)]


async def test_unanswered_the_old_one_says_what_came_of_it(tmp_path: Path, nursery: Path) -> None:
    """Stopped with the outcome in hand: it is the call's outcome, and nobody need be asked."""
    async with pair(tmp_path, nursery, "note_once", "after_tool_effect") as made:
        await made.in_doubt()
        await made.go_on()
        view = await made.until(State.FINAL_ANSWER)
        assert made.effects() == [(True, 1)]
    (late,) = of(view, LateOutcome)
    assert view.texts[late.result] == '{"done":"0"}'
    assert [e.code for e in of(view, ToolReturned)] == ["interrupted"]


@pytest.mark.parametrize(("said", "effects"), [("happened", [(True, 1)]), ("repeat", [(True, 1), (False, 2)])])
async def test_what_is_learnt_after_the_end_stands_beside(
    said: Said, effects: list[tuple[bool, int]], tmp_path: Path, nursery: Path
) -> None:
    """Stopped with the outcome in hand until a person answered and the run ended: nothing is appended to it."""
    async with pair(tmp_path, nursery, "note_once", "after_tool_effect") as made:
        view = await made.settle(said)
        await made.go_on()
        assert made.effects() == effects
        assert (await made.view()).placed == view.placed
        assert await made.notes() == [("result", None)]
    assert of(view, LateOutcome) == []


@pytest.mark.parametrize(("point", "old"), [("after_tool_intent", []), ("after_tool_effect", [(True, 1)])])
async def test_an_idempotent_effect_is_repeated_at_once(
    point: str, old: list[tuple[bool, int]], tmp_path: Path, nursery: Path
) -> None:
    """The successor asks nobody and gives the same key; the old one does not make it after that."""
    async with pair(tmp_path, nursery, "note_idem", point) as made:
        view = await made.until(State.FINAL_ANSWER)
        await made.go_on()
        assert made.effects() == [*old, (False, 2)]
        assert (await made.view()).placed == view.placed
        assert len({line.key for line in made.witness.lines()}) == 1
    assert intents(view) == [(1, 1), (2, 2)]


async def test_an_effect_under_way_is_ended_with_its_lease(tmp_path: Path, nursery: Path) -> None:
    """Stopped in the middle of a call, before it takes effect: continued after the lease, it does not come to that."""
    async with pair(tmp_path, nursery, "slow_once", UNDER_WAY, once_s=600) as made:
        view = await made.settle("abandon")
        await made.go_on()
        assert made.effects() == []
        assert (await made.view()).placed == view.placed


async def test_a_second_delivery_finds_the_lease(tmp_path: Path, nursery: Path) -> None:
    """C03: while the first is at work for longer than its lease, others who are told of the run neither execute nor
    lose it; told of it once more after its end, they add nothing."""
    plan = Twin(str(tmp_path), "sent_once", times=6, lease_s=2.0, once_s=20.0)
    witness = Witness(tmp_path)
    async with (
        process(nursery, "twin:run", plan.text(), tmp_path / "stderr") as busy,
        driver(replace(plan, runs=0)) as other,
    ):
        await until(lambda: acknowledged(tmp_path), WAIT_S)
        stream = bytes.fromhex(*acknowledged(tmp_path))
        turns = 0
        while (await other.journal.head(SYSTEM, stream)).state != "FINAL_ANSWER":
            await other.service._take(stream)
            assert not other.service._tasks
            turns += 1
            await asyncio.sleep(0.05)
        view = await other.service.view(USER, stream)
        await other.service._take(stream)
        await other.service.sweep()
        assert (await other.service.view(USER, stream)).placed == view.placed
        busy.send(signal.SIGTERM)
        assert await busy.wait() == 0
    assert turns > 6
    assert {line.pid for line in witness.lines()} == {busy.pid}
    assert intents(view) == [(1, 1)] * 6
    assert len({line.key for line in witness.lines()}) == len(witness.lines()) == 6
    assert view.placed[-1][2] - view.placed[0][2] > plan.lease_s * 1_000_000
