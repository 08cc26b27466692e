"""Told to end, the service finishes or hands over; it kills nothing for good."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.errors import Unavailable
from devassist.core.events import ModelIntended, ToolReturned
from devassist.core.scope import SYSTEM
from devassist.core.states import State
from devassist.runtime.starting import Bounds
from devassist.runtime.view import load as load_run
from tests.cli.kit import script, serving
from tests.crash.child import Plan
from tests.crash.http import Stream, asked
from tests.crash.idle import open_heads
from tests.crash.kit import child, successor
from tests.crash.nursery import process
from tests.crash.verdict import taken_over
from tests.runtime.read import of
from tests.runtime.rig import USER, rig
from tests.runtime.world import World, call, final, until

LATE_S = 60
RULES = (
    {"match": "^soon", "delay_ms": 1000, "replies": ["Action: final: Soon."]},
    {"match": "^long", "delay_ms": LATE_S * 1000, "replies": ["Action: final: Late."]},
)
WAIT_S = 30.0


async def test_streams_end_themselves_and_runs_go_on(tmp_path: Path) -> None:
    """SIGTERM on the real server with readers: each stream ends with a comment, what is soon done is done, the rest
    goes on after the restart, and the server's end is no failure."""
    data, settings = tmp_path / "data", script(tmp_path / "s.json", *RULES)
    streams = [Stream() for _ in range(10)]
    with serving(data, **settings) as first:
        port = int(first.url.rsplit(":", 1)[1])
        async with asyncio.TaskGroup() as readers:
            for number, stream in enumerate(streams):
                message = f"{'long' if number % 2 else 'soon'} {number}"
                readers.create_task(stream.follow(port, {"message": message}))
            await until(lambda: all(stream.trace_id for stream in streams), WAIT_S)
            began = time.monotonic()
            code = await asyncio.to_thread(first.stop)
        assert code == 0
        assert time.monotonic() - began < LATE_S, "it waited for what was not soon done"
    for stream in streams:
        assert ": the server is restarting, reconnect from the last id" in stream.lines
        assert not any('"type":"done"' in line or '"type":"error"' in line for line in stream.lines)
    with serving(data, **settings) as second:
        port = int(second.url.rsplit(":", 1)[1])
        for number, stream in enumerate(streams):
            run = await asked(port, "GET", f"/runs/{stream.trace_id}")
            assert (run["status"], run["answer"]) == (("running", None) if number % 2 else ("succeeded", "Soon."))
        for stream in streams[1::2]:
            assert (await asked(port, "POST", f"/runs/{stream.trace_id}/cancel"))["status"] == "cancelled"
        assert await asyncio.to_thread(second.stop) == 0
    services = await open_services(load({"data_dir": str(data)}, {}), drive=False)
    for stream in streams[1::2]:
        view = await load_run(services.journal, SYSTEM, bytes.fromhex(stream.trace_id))
        assert [(intent.attempt, intent.epoch) for intent in of(view, ModelIntended)] == [(1, 1), (2, 2)]
    await services.close()


async def test_a_server_told_to_end_before_it_is_up(tmp_path: Path, nursery: Path) -> None:
    """It drives runs while it is being opened: they are handed over as by one that was up, and nobody is told that it
    is."""
    assert await child(nursery, Plan(str(tmp_path), 20, point="after_tool_intent")) == -signal.SIGKILL
    argument = json.dumps({"place": str(tmp_path), "early": True, "delays": {"later_ms": 20_000}})
    async with process(nursery, "server:run", argument, tmp_path / "log") as made:
        assert await made.wait() == 0
    assert not (tmp_path / "address").exists()
    async with successor(tmp_path, drive=False) as beside:
        assert {head.lease_until for head in await open_heads(beside)} == {0}
    await taken_over(tmp_path)


async def test_leases_are_kept_while_draining() -> None:
    """What has its time to end is not taken over meanwhile, however short a lease is."""
    world = World()

    async def slow(text: str, context: Any) -> str:
        await asyncio.sleep(2.0)
        return "done"

    world.does["mail"] = slow
    async with rig([call("mail"), final()], world.tools(), bounds=Bounds(lease_s=0.9)) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        await until(lambda: world.running)
        draining = asyncio.create_task(made.service.drain(WAIT_S))
        while not draining.done():
            now = time.time_ns() // 1000
            assert await made.journal.claim(SYSTEM, stream, now, now) is None
            await asyncio.sleep(0.02)
        view = await load_run(made.journal, SYSTEM, stream)
    assert (view.state.state, view.state.epoch, world.done["mail"]) == (State.FINAL_ANSWER, 1, 1)


async def test_an_outcome_in_hand_is_recorded_before_the_end() -> None:
    """The store could not take it just now, and the process is told to end: it tries once more."""
    world, refused = World(), 0
    async with rig([call("mail"), final()], world.tools()) as made:
        append = made.journal.append

        async def busy(scope: Any, given: Any) -> Any:
            nonlocal refused
            if given.bodies[0].kind == "tool_returned" and not refused:
                refused += 1
                raise Unavailable("the journal could not be written: BusyError: database is locked")
            return await append(scope, given)

        made.journal.append = busy
        stream = (await made.service.start(USER, made.start_run())).stream
        await until(lambda: refused)
        await made.service.drain(0.0)
        view = await load_run(made.journal, SYSTEM, stream)
        assert [e.outcome for e in of(view, ToolReturned)] == ["result"]
        assert view.events[-1].kind == "tool_returned"
        assert (await made.journal.head(SYSTEM, stream)).lease_until == 0


async def test_a_run_that_began_meanwhile_is_the_next_ones() -> None:
    """Acknowledged while the service was told to end: it is not driven here any more, and no lease has to pass."""
    async with rig([final()]) as made:
        begin = made.journal.begin

        async def told(scope: Any, run: Any) -> Any:
            begun = await begin(scope, run)
            made.service.stop_accepting()
            return begun

        made.journal.begin = told
        stream = (await made.service.start(USER, made.start_run())).stream
        assert not made.service._tasks
        head = await made.journal.head(SYSTEM, stream)
        assert (head.state, head.lease_until) == ("INIT", 0)
