"""C04: two processes want the same run at the same instant."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from devassist.core.events import ModelIntended
from devassist.core.scope import SYSTEM
from devassist.core.states import State
from devassist.runtime.view import load
from tests.crash.nursery import process
from tests.crash.twin import Twin, rig_on
from tests.crash.world import Witness
from tests.runtime.read import of
from tests.runtime.rig import USER
from tests.store.files import store

RUNS = 50


async def _begun(plan: Twin) -> list[bytes]:
    """Runs that are open and nobody's."""
    async with store(Path(plan.place)) as (journal, vault):
        made, streams = rig_on(journal, vault, plan), list[bytes]()
        for number in range(RUNS):
            run, _, _ = await made.service._starter.prepare(USER, made.start_run("hi", f"c{number}"))
            streams.append((await journal.begin(USER, replace(run, lease_until=0))).head.stream)
    return streams


async def _both(nursery: Path, place: Path, function: str, **given: Any) -> None:
    """Two processes that do the same, to their ends."""
    arguments = [json.dumps({"place": str(place), "me": me, **given}) for me in range(2)]
    async with (
        process(nursery, function, arguments[0], place / "stderr0") as one,
        process(nursery, function, arguments[1], place / "stderr1") as other,
    ):
        assert (await one.wait(), one.told) == (0, "")
        assert (await other.wait(), other.told) == (0, "")


async def test_exactly_one_claim_succeeds(tmp_path: Path, nursery: Path) -> None:
    """Through a barrier, fifty times: one gets the run and its next epoch, the other is refused without an error."""
    streams = await _begun(Twin(str(tmp_path), "note_once"))
    await _both(nursery, tmp_path, "claims:claim", streams=[stream.hex() for stream in streams])
    won = [json.loads((tmp_path / f"won{me}").read_text()) for me in range(2)]
    assert [sorted(pair, key=bool) for pair in zip(*won, strict=True)] == [[None, 1]] * RUNS


async def test_a_run_that_two_found_is_driven_by_one(tmp_path: Path, nursery: Path) -> None:
    """Steps are numbered without gaps or duplicates, and every effect happened once."""
    plan = Twin(str(tmp_path), "note_once", times=2, lease_s=30.0, once_s=30.0)
    streams = await _begun(plan)
    await _both(nursery, tmp_path, "claims:drive", plan=asdict(plan))
    async with store(tmp_path) as (journal, _):
        runs = [await load(journal, SYSTEM, stream) for stream in streams]
    assert {view.state.state for view in runs} == {State.FINAL_ANSWER}
    assert [[intent.step for intent in of(view, ModelIntended)] for view in runs] == [[0, 1, 2]] * RUNS
    assert {intent.epoch for view in runs for intent in of(view, ModelIntended)} == {1}
    lines = Witness(tmp_path).lines()
    assert len({line.key for line in lines}) == len(lines) == 2 * RUNS
