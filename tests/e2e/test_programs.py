"""A killed service and its programs: nothing is left of them after the next start, and the run comes to its end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.api.client import Page
from tests.api.kit import Api
from tests.e2e.test_first_five_minutes import up
from tests.sandbox.docker_kit import left, require_engine, until_left

PROGRAM = "```python\nimport time\ntime.sleep(2)\nprint('through')\n```"


async def test_a_killed_service_leaves_no_program(tmp_path: Path, in_ci: bool) -> None:
    """kill -9 while a program runs: it is pure, so the next process runs it again, as an attempt of its own."""
    await require_engine(in_ci)
    data, page = tmp_path / "data", Page()
    home = data / "cache" / "sandbox"
    async with up(data) as (server, api):
        reading = asyncio.create_task(read_on(api, page))
        killed = await _one(home)
        await asyncio.to_thread(server.stop, signal.SIGKILL)
        await asyncio.gather(reading, return_exceptions=True)
    async with up(data) as (server, api):
        run = await api.until(page.meta["trace_id"], "succeeded", "failed")
        assert run["status"] == "succeeded"
        assert run["steps"][0]["observation"]["stdout"] == "through\n"
        events = (await api.get(f"/admin/agent-traces/{run['trace_id']}")).json["events"]
        assert [e["body"]["attempt"] for e in events if e["kind"] == "tool_intended"] == [1, 2]
        assert await until_left(home, 0) == [], killed
        assert await asyncio.to_thread(server.stop) == 0
    assert await left(home) == []
    assert sorted(path.name for path in home.iterdir()) == ["id", "lock"]


async def read_on(api: Api, page: Page) -> None:
    async with api.stream(PROGRAM, tools=["execute_code"]) as response:
        connection = page.connect()
        async for chunk in response.content.iter_any():
            connection.feed(chunk)


async def _one(home: Path) -> list[str]:
    """The container of the program, once it has been running for a moment."""
    for _ in range(400):
        if (home / "id").exists() and len(names := await left(home)) == 1:
            await asyncio.sleep(0.8)
            if await left(home) == names:  # the sandbox's own proof at the start is over sooner
                return names
        await asyncio.sleep(0.05)
    raise AssertionError("no program was started")
