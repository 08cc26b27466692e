"""Turns are given within their bounds, in order, and to everybody."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.errors import Overloaded
from devassist.sandbox.fairness import Bounds, FairQueue, Gate

BOUNDS = Bounds(running=3, running_each=2, waiting=6, waiting_each=3)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["offer", "release", "withdraw"])), max_size=80))
def test_bounds_hold_and_nobody_is_lost(steps: list[tuple[str, str]]) -> None:
    """Whatever comes: never more than allowed run or wait, a user's tickets keep their order, and all come through."""
    queue = FairQueue[tuple[str, int]](BOUNDS)
    running: list[tuple[str, int]] = []
    waiting: list[tuple[str, int]] = []
    for number, (user, step) in enumerate(steps):
        ticket = (user, number)
        if step == "offer":
            try:
                (running if queue.offer(user, ticket) else waiting).append(ticket)
            except Overloaded:
                assert len(waiting) == BOUNDS.waiting or sum(one[0] == user for one in waiting) == BOUNDS.waiting_each
        elif step == "release" and (mine := [one for one in running if one[0] == user]):
            running.remove(mine[0])
            _start(queue.release(user), running, waiting)
        elif step == "withdraw" and (mine := [one for one in waiting if one[0] == user]):
            queue.withdraw(user, mine[-1])
            waiting.remove(mine[-1])
        each = Counter(user for user, _ in running)
        assert (queue.running, queue.waiting) == (len(running), len(waiting))
        assert len(running) <= BOUNDS.running
        assert max(each.values(), default=0) <= BOUNDS.running_each
        assert len(waiting) <= BOUNDS.waiting
    while running:
        _start(queue.release(running.pop()[0]), running, waiting)
    assert not waiting


def _start(
    turns: list[tuple[str, int]], running: list[tuple[str, int]], waiting: list[tuple[str, int]]
) -> None:  # fmt: skip
    for ticket in turns:
        assert ticket == next(one for one in waiting if one[0] == ticket[0])
        waiting.remove(ticket)
        running.append(ticket)


def test_a_crowd_does_not_keep_others_waiting() -> None:
    """With one place, users take turns though one of them came first with many."""
    queue = FairQueue[str](Bounds(running=1, running_each=1, waiting=20, waiting_each=10))
    assert queue.offer("crowd", "c0")
    for number in range(1, 6):
        assert not queue.offer("crowd", f"c{number}")
    assert not queue.offer("late", "l1")
    assert not queue.offer("later", "m1")
    order: list[str] = []
    user = "crowd"
    while turns := queue.release(user):
        order += turns
        user = {"c": "crowd", "l": "late", "m": "later"}[turns[0][0]]
    assert order == ["l1", "m1", "c1", "c2", "c3", "c4", "c5"]


async def test_a_gate_passes_a_turn_on_whenever_it_is_given_up() -> None:
    """Cancelled before the turn comes and in the very moment it comes: the next one gets it."""
    gate = Gate(Bounds(running=1, running_each=1))
    seen: list[int] = []

    async def turn(number: int) -> None:
        async with gate.turn("user"):
            seen.append(number)

    async with gate.turn("user"):
        tasks = [asyncio.create_task(turn(number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
    tasks[0].cancel()  # its turn has come by now, and it has not run yet
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [True, True, False, False]
    assert seen == [2, 3]
    assert (gate.queue.running, gate.queue.waiting) == (0, 0)


async def test_a_turn_ends_with_its_fault() -> None:
    """What fails within a turn gives it back."""
    gate = Gate(Bounds(running=1, running_each=1))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with gate.turn("user"):
                raise ZeroDivisionError
    assert gate.queue.running == 0
