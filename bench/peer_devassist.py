"""DevAssist as a peer of the peers' benchmark: ``class Peer`` for their ``harness.py``, which must be importable.

In process by default; with ``--opt http`` behind its HTTP API, in a process whose CPU is then what is counted. Before
the harness's line it prints one of ours: ``{"devassist": …}`` with what the harness cannot see, namely the CPU that
followers spent after the last answer, the server's memory, and whether every trace is whole.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from bench.child import Child, Failed, say
from bench.inside import sizes
from bench.peer_work import NAMES, Within, traces
from devassist.core.scope import SYSTEM
from devassist.core.states import OPEN
from devassist.ports.journal import HeadQuery

harness: Any = import_module("harness")  # theirs, like the stub: found by PYTHONPATH, read by no type checker
_SPENT: Any = harness.cpu
_RUN = re.compile(r"RUN=([\w-]+)")
_FINAL: str = import_module("stub").FINAL
_ANSWER = _FINAL.removeprefix("Final Answer: ")
_TICKS = os.sysconf("SC_CLK_TCK")


class Unsupported(Failed):
    """The harness asked for what is not measured that way."""


class Peer:
    NAME = "devassist"
    STORES = ("journal",)
    loop_factory = staticmethod(uvloop.new_event_loop)

    async def setup(self, a: Any) -> None:
        """Raises Unsupported."""
        if a.opt == "http" and a.mode == "resume":
            raise Unsupported("--mode resume is done in process, without --opt http; bench.peer_kill does it over HTTP")
        self._directory = Path(harness.WORK) / (Path(a.db).stem + ".data")
        if a.mode != "resume":
            for place in (self._directory, Path(f"{self._directory}.keys")):
                shutil.rmtree(place, ignore_errors=True)
        self._way = Served(self._directory, a.base_url) if a.opt == "http" else InProcess(self._directory, a.base_url)
        self._made, self._counted = 0, 0.0
        harness.cpu = self._cpu
        await self._way.open()

    def _cpu(self, *_: Any) -> float:
        """What the harness takes for CPU seconds, remembered: what is spent afterwards is told apart."""
        self._counted = self._way.cpu()
        return self._counted

    async def run(self, run_id: str) -> str:
        """The answer as the harness looks for it: a service takes the label off."""
        self._made += 1
        answer = await self._way.run(harness.prompt(run_id))
        return _FINAL if answer == _ANSWER else answer

    async def resume(self, run_ids: list[str]) -> dict[str, Any]:
        """Opening the service has resumed everything; wait until nothing moves, and look."""
        assert isinstance(self._way, InProcess), "setup refuses the other way"
        done, opened_with = await self._way.rest()
        self._made = 0
        return {
            "unfinished": opened_with, "resumed_ok": len(done & set(run_ids)), "lost": len(set(run_ids) - done),
            "manual": "automatic when the service starts",
        }  # fmt: skip

    def bytes(self) -> int:
        return sum(sizes(self._directory).values()) if self._made else 0

    async def teardown(self) -> None:
        rest = await self._way.settle()
        after = rest.pop("cpu_s") - self._counted
        await self._way.close()
        if self._made:
            seen = traces(self._directory)
            say({"devassist": {**rest, "after_cpu_s": after, "made": self._made, **seen._asdict()}})


class InProcess(Within):
    """Its CPU and its tool are those of the harness."""

    def __init__(self, directory: Path, url: str) -> None:
        super().__init__(directory, url, lambda run, step, _: harness.tool_call(run, step))

    def cpu(self) -> float:
        return _SPENT()

    async def rest(self) -> tuple[set[str], int]:
        """Runs by the peers' names that have their answer, once none is driven any more, and how many were open."""
        heads, query = self.services.heads, HeadQuery(states=tuple(map(str, OPEN)), limit=100_000)
        first = left = len(await heads.list(SYSTEM, query))
        while left:
            await asyncio.sleep(0.05)
            left = len(await heads.list(SYSTEM, query))
        done: set[str] = set()
        for head in await heads.list(SYSTEM, HeadQuery(states=("FINAL_ANSWER",), limit=100_000)):
            view = await self.services.service.view(SYSTEM, head.stream)
            if named := _RUN.search(view.text(view.state.started.message) or ""):
                done.add(named[1])
        return done, first

    async def settle(self) -> dict[str, float]:
        await self.settled()
        return {"cpu_s": _SPENT()}


class Served:
    """Through ``POST /agent``, JSON in and out."""

    def __init__(self, directory: Path, url: str) -> None:
        self._server = Child("peer_server", directory, url)

    async def open(self) -> None:
        self._server.__enter__()
        told = self._server.result()
        self._stat = Path(f"/proc/{told['pid']}/stat")
        self._target = told["address"] + "/agent"
        connector = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(connector=connector, headers={"X-User-Id": "bench"})

    def cpu(self) -> float:
        """Of the server, from the kernel's count (hundredths of a second)."""
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    async def run(self, message: str) -> str:
        async with self._http.post(self._target, json={"message": message, "tools": NAMES}) as response:
            body = await response.json()
        return body["answer"] if response.status == 200 and body["answer"] else f"{response.status}: {body}"

    async def settle(self) -> dict[str, float]:
        self._server.say("count")
        return self._server.result()

    async def close(self) -> None:
        await self._http.close()
        self._server.__exit__()


if __name__ == "__main__":
    harness.main(Peer)
