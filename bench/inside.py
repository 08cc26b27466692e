"""One measurement in process, in a process of its own: a contestant, a number of runs at once, one line of JSON."""

from __future__ import annotations

import argparse
import asyncio
from importlib import import_module
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

import apsw
import uvloop

from bench.child import cpu_s, end_with_stdin, peak_mib, say
from bench.work import answer

FIRST = 1_000_000
"""Number of the first measured run; those before it warm up."""


async def measure(who: str, directory: Path, url: str, at_once: int, runs: int, warm: int) -> dict[str, Any]:
    contestant: Any = getattr(import_module(f"bench.{who}"), who.capitalize())()  # the bare one is without the other
    await contestant.open(directory, url)
    empty = sizes(directory)
    took: list[float] = []

    async def one(number: int) -> None:
        began = perf_counter()
        text = await contestant.run(number)
        took.append(perf_counter() - began)
        if answer(number) not in text:
            raise ValueError(f"run {number} of {who} answered {text[:200]!r}")

    async def wave(first: int, count: int) -> None:
        numbers = iter(range(first, first + count))

        async def worker() -> None:
            for number in numbers:
                await one(number)

        await asyncio.gather(*(worker() for _ in range(min(at_once, count))))

    await wave(1, warm)
    await contestant.settle()
    took.clear()
    before, began = cpu_s(), perf_counter()
    await wave(FIRST, runs)
    wall = perf_counter() - began
    await contestant.settle()
    cpu = cpu_s() - before
    await contestant.close()
    grown = {name: (size - empty[name]) / (runs + warm) for name, size in sizes(directory).items()}
    return {
        "cpu_ms": cpu * 1000 / runs, "runs_s": runs / wall, **spread(took), "rss_mib": peak_mib(), "bytes": grown,
    }  # fmt: skip


def sizes(directory: Path) -> dict[str, int]:
    """Bytes of each database with everything of its write-ahead log in it."""
    found: dict[str, int] = {}
    for path in directory.glob("*.db"):
        db = apsw.Connection(str(path))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.close()
        found[path.name] = path.stat().st_size
    return found


def spread(seconds: list[float]) -> dict[str, float]:
    """p50 and p95 in milliseconds."""
    cuts = quantiles(seconds if len(seconds) > 1 else seconds * 2, n=20, method="inclusive")
    return {"p50_ms": cuts[9] * 1000, "p95_ms": cuts[18] * 1000}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", choices=("bare", "engine"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("url")
    parser.add_argument("at_once", type=int)
    parser.add_argument("runs", type=int)
    parser.add_argument("warm", type=int)
    given = vars(parser.parse_args())
    end_with_stdin()
    say(uvloop.run(measure(**given)))
