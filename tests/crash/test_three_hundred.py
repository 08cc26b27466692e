"""Three hundred runs in flight over HTTP, and the server is killed."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.crash.http import Stream, port_of
from tests.crash.idle import open_heads
from tests.crash.kit import acknowledged, calls_of, successor
from tests.crash.nursery import Process, process
from tests.crash.verdict import taken_over
from tests.crash.world import AGENT_OF, KINDS, Witness, append
from tests.runtime.world import until

RUNS, QUICKLY = 375, 75
DELAYS = {"think_ms": 1500, "later_ms": 60_000}
WAIT_S = 150.0


@asynccontextmanager
async def server(nursery: Path, place: Path, **given: object) -> AsyncGenerator[Process]:
    argument = json.dumps({"place": str(place), **given})
    async with process(nursery, "server:run", argument, place / "stderr") as made:
        yield made


async def follow(place: Path, port: int, number: int) -> None:
    """Ask over a stream of its own, and note what is acknowledged."""
    kind = KINDS[number % len(KINDS)]
    body = {"message": f"{kind} {number}", "agent": AGENT_OF.get(kind, "worker")}
    if kind == "turn":
        body["conversation_id"] = f"turns{number // 20}"
    stream = Stream(lambda trace_id: append(place / "acknowledged", trace_id))
    await stream.follow(port, body)


def _at_work(witness: Witness) -> bool:
    """Whether many runs have come to their effects."""
    return sum(line.tool == "note_once" for line in witness.lines()) >= RUNS // 10


async def test_killed_with_three_hundred_in_flight(tmp_path: Path, nursery: Path) -> None:
    """No acknowledged run is lost; every effect that happened again is an attempt of its own on record, under the
    call's own key, which a tool that takes one needs no more to do it once."""
    witness = Witness(tmp_path)
    async with server(nursery, tmp_path, delays=DELAYS) as killed, asyncio.TaskGroup() as clients:
        port = await port_of(tmp_path)
        for number in range(RUNS):
            clients.create_task(follow(tmp_path, port, number))
        await until(lambda: len(acknowledged(tmp_path)) == RUNS and _at_work(witness), WAIT_S)
        killed.send(signal.SIGKILL)
        assert await killed.wait() == -signal.SIGKILL
    before = witness.lines()
    async with successor(tmp_path, drive=False) as beside:
        assert len(await open_heads(beside)) >= RUNS - QUICKLY
    runs = await taken_over(tmp_path)
    assert len(runs) == RUNS
    made = witness.lines()
    assert made[: len(before)] == before
    assert {line.key for line in made} == {call.key for view in runs for call in calls_of(view)}
    print(f"{len(before)} effects before, {len(made)} in all, {len(made) - len({x.key for x in made})} repeated")
