"""Fifty runs in flight, a backup of them, and their lost end."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from devassist.config import load
from devassist.core.signals import RunRestored
from devassist.core.states import State
from devassist.runtime.services import Services
from tests.crash.child import Plan
from tests.crash.kit import acknowledged, answer, child, held, quiet, successor, views
from tests.crash.verdict import ROUNDS
from tests.crash.world import EFFECTS, Witness, prepare, tools
from tests.rewind import Place
from tests.runtime.read import of
from tests.runtime.world import until

RUNS, WAIT_S = 50, 30.0
Effects = Counter[tuple[str, str, str]]


def _once(place: Path) -> Effects:
    """Effects that must happen at most once, by run, tool and what was asked: their keys may lie in the lost window."""
    return Counter((x.run, x.tool, x.text) for x in Witness(place).lines() if EFFECTS[x.tool] == "once")


async def test_what_took_place_in_the_lost_window_is_a_persons_matter(tmp_path: Path, nursery: Path) -> None:
    """The journal goes back to the middle of fifty runs that all went on. None of their effects happens again without
    a person, who knows the world; each run names the window, and in the end all have happened once."""
    place = Place(load(prepare(tmp_path), {}), tuple(tools(tmp_path)))
    plan = Plan(str(tmp_path), RUNS, ("once", "mixed", "slow", "sent", "turn"))
    ending = asyncio.create_task(child(nursery, plan))
    await until(lambda: len(acknowledged(tmp_path)) == RUNS and len(_once(tmp_path)) > RUNS // 5, WAIT_S)
    await place.files.take(tmp_path / "backup")
    assert await ending == 0
    made = _once(tmp_path)
    assert set(made.values()) == {1}
    restored = await place.restored(tmp_path / "backup", go_on=True)
    open_runs = {run["trace_id"] for run in restored.report["open_runs"]}
    assert open_runs
    async with successor(tmp_path) as services:
        await quiet(services)
        assert _once(tmp_path) == made
        found = {view.stream.hex(): view for view in await views(services)}
        assert acknowledged(tmp_path) == found.keys()
        for trace_id, view in found.items():
            windows = [(e.window_from, e.window_to) for e in of(view, RunRestored)]
            assert len(windows) == (trace_id in open_runs)
            assert all(start < end for start, end in windows)
        await _answered(services, made)
        assert {view.state.state for view in await views(services)} == {State.FINAL_ANSWER}
    assert _once(tmp_path) == made


async def _answered(services: Services, made: Effects) -> None:
    """What happened is said to have happened, or not approved to happen again."""
    for _ in range(ROUNDS):
        doubts = [doubt for view in await views(services) if (doubt := held(view)) is not None]
        for doubt in doubts:
            await answer(services, doubt, "reject" if doubt.reason == "approval" else "happened")
        await services.service.sweep()
        await quiet(services)
