"""Fifty runs in flight, and the process dies or is told to end at each named point."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from devassist.core.run_state import CUT_OFF
from devassist.runtime.faults import POINTS
from tests.crash.child import Plan
from tests.crash.idle import open_heads
from tests.crash.kit import child, successor
from tests.crash.verdict import taken_over

RUNS, IN_FLIGHT = 70, 50
AFTER = {
    "after_init": RUNS - 1, "after_claim": 2, "after_model_intent": 80, "after_model_reply": 50,
    "after_tool_intent": 40, "after_tool_effect": 40, "after_wait": 3, "before_finish": 8, "after_finish": 8,
}  # fmt: skip
"""The time of its passing that is the last: while all that is not quick is in flight."""
LATER_MS = 20_000


@pytest.mark.parametrize("point", POINTS)
async def test_killed_or_told_to_end_at(point: str, tmp_path: Path, nursery: Path) -> None:
    """Nothing acknowledged is lost, nothing that may be repeated is, and what may not be never happens twice: after the
    restart every run has ended or waits marked in doubt, and after a person's word each effect has happened once."""
    async with asyncio.TaskGroup() as both:
        both.create_task(_killed_twice(nursery, tmp_path / "kill", point))
        both.create_task(_told_to_end(nursery, tmp_path / "term", point))


def _plan(place: Path, point: str, how: str) -> Plan:
    return Plan(str(place), RUNS, point=point, after=AFTER[point], how=how, later_ms=LATER_MS)


async def _killed_twice(nursery: Path, place: Path, point: str) -> None:
    """The one that takes over dies at the same point, if it comes there."""
    place.mkdir()
    assert await child(nursery, _plan(place, point, "kill")) == -signal.SIGKILL
    async with successor(place, drive=False) as beside:
        assert len(await open_heads(beside)) >= IN_FLIGHT
    assert await child(nursery, Plan(str(place), point=point, after=5)) in (-signal.SIGKILL, 0)
    runs = await taken_over(place)
    cut = [e for run in runs for e in run.events if getattr(e, "code", None) == CUT_OFF]
    assert cut or point == "after_init"


async def _told_to_end(nursery: Path, place: Path, point: str) -> None:
    """It ends with 0, fails no run, and hands over what it did not finish: no lease has to pass."""
    place.mkdir()
    assert await child(nursery, _plan(place, point, "term")) == 0
    async with successor(place, drive=False) as beside:
        assert {head.lease_until for head in await open_heads(beside)} <= {0}
    await taken_over(place)
