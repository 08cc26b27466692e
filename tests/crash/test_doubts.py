"""What a person and a model may make of a doubt that a killed process left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from devassist.core.states import State
from devassist.runtime.services import Services
from tests.crash.child import Plan
from tests.crash.kit import Call, Doubt, Said, answer, calls_of, child, held, quiet, successor, views
from tests.crash.world import Witness

RUNS = 20


async def _answered(services: Services, said: Said) -> list[Doubt]:
    """Everything that waits for a person gets the same answer; what was waiting."""
    doubts = [doubt for view in await views(services) if (doubt := held(view)) is not None]
    for doubt in doubts:
        await answer(services, doubt, said)
    await services.service.sweep()
    await quiet(services)
    return doubts


async def test_repeat_is_heeded_once_after_the_deadline_and_under_the_same_key(tmp_path: Path, nursery: Path) -> None:
    """C01, C17: told to, the service does repeat an effect that happened, in an attempt of its own that can be seen."""
    plan = Plan(str(tmp_path), RUNS, kinds=("sent",), point="after_tool_effect", after=1)
    assert await child(nursery, plan) == -signal.SIGKILL
    witness = Witness(tmp_path)
    before = witness.lines()
    assert before
    async with successor(tmp_path) as services:
        await quiet(services)
        assert witness.lines()[: len(before)] == before
        doubts = await _answered(services, "repeat")
        for view in await views(services):
            assert view.state.state is State.FINAL_ANSWER
            (call,) = calls_of(view)
            lines = witness.of(call.key)
            assert [line.attempt for line in lines] == [i.attempt for i in call.intents][-len(lines) :]
            if len(lines) > 1:
                assert lines[1].at >= call.intents[0].deadline
    repeated = {line.key for line in before}
    assert {doubt.key for doubt in doubts} >= repeated
    assert all(len(witness.of(key)) == 2 for key in repeated)


def _unknown(call: Call) -> bool:
    return call.doubted and not call.results


@pytest.mark.parametrize("point", ["after_tool_intent", "after_tool_effect"])
async def test_a_model_that_calls_again_is_held(point: str, tmp_path: Path, nursery: Path) -> None:
    """Where doubts are told to the model and it re-issues the call, nothing happens until a person approves: then
    once, as another call under another key."""
    assert await child(nursery, Plan(str(tmp_path), RUNS, ("again",), point, RUNS // 2)) == -signal.SIGKILL
    witness = Witness(tmp_path)
    async with successor(tmp_path) as services:
        await quiet(services)
        before = witness.lines()
        runs = await views(services)
        waiting = {view.stream for view in runs if held(view)}
        assert waiting
        assert waiting == {view.stream for view in runs if _unknown(calls_of(view)[0])}
        doubts = await _answered(services, "approve")
        assert {doubt.reason for doubt in doubts} == {"approval"}
        new = witness.lines()[len(before) :]
        assert sorted(line.key for line in new) == sorted(doubt.key for doubt in doubts)
        assert all(view.state.state is State.FINAL_ANSWER for view in await views(services))
    keys = [line.key for line in witness.lines()]
    assert len(keys) == len(set(keys))
