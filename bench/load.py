"""The load of the HTTP cases, in a process of its own: POST /agent, JSON or server-sent events, so many at once.

Warms up, says so, waits for a line of input, then measures and prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from time import perf_counter
from typing import Any

import aiohttp
import uvloop

from bench.child import cpu_s, say
from bench.inside import FIRST, spread
from bench.work import answer, question


async def main(url: str, at_once: int, runs: int, warm: int, stream: bool) -> None:
    target = f"{url}/agent" + ("?stream=true" if stream else "")
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers={"X-User-Id": "bench"}) as http:
        took: list[float] = []

        async def one(number: int) -> None:
            began = perf_counter()
            async with http.post(target, json={"message": question(number)}) as response:
                body = await response.read()
            took.append(perf_counter() - began)
            check(number, response.status, body, stream)

        async def wave(first: int, count: int) -> None:
            numbers = iter(range(first, first + count))

            async def worker() -> None:
                for number in numbers:
                    await one(number)

            await asyncio.gather(*(worker() for _ in range(min(at_once, count))))

        await wave(1, warm)
        took.clear()
        print("warm", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        before, began = cpu_s(), perf_counter()
        await wave(FIRST, runs)
        wall = perf_counter() - began
        say({"runs_s": runs / wall, **spread(took), "load_cpu_ms": (cpu_s() - before) * 1000 / runs})


def check(number: int, status: int, body: bytes, stream: bool) -> None:
    """The answer is that of this run."""
    told: dict[str, Any] = {}
    if status == 200:
        last = body.strip().rpartition(b"data: ")[2] if stream else body
        told = json.loads(last)
    if told.get("status") != "succeeded" or answer(number) not in told["answer"]:
        raise ValueError(f"request {number} was answered {status} {body[-500:]!r}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("at_once", type=int)
    parser.add_argument("runs", type=int)
    parser.add_argument("warm", type=int)
    parser.add_argument("--stream", action="store_true")
    given = parser.parse_args()
    uvloop.run(main(**vars(given)))
