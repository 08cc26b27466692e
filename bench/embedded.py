"""``make bench-embedded``: 20 streams of the embedded model at once, and how late the API's event loop gets meanwhile.

The service runs as ``devassist serve`` does, the streams are read by another process. Progress on stderr; stdout ends
in a FIGURE line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import aiohttp
import uvloop

from bench.child import Child
from bench.figures import Figure
from bench.machine import Others, workplace

STREAMS = 20
TARGET_MS = 20
THINGS = "rivers bread clocks snow maps trains paper glass salt kites".split()


@dataclass
class Stream:
    """What one reader saw: milliseconds to the first text and to the end, pieces of text, attempts, how it ended."""

    first_ms: float
    took_ms: float
    pieces: int
    attempts: int
    status: str


async def stream(session: aiohttp.ClientSession, url: str, number: int) -> Stream:
    body = {"message": f"Tell me something about {THINGS[number % len(THINGS)]}, in three sentences."}
    began, first, pieces, attempts, status = perf_counter(), 0.0, 0, 1, "none"
    async with session.post(f"{url}/chat?stream=true", json=body, headers={"X-User-Id": f"bench{number}"}) as answer:
        async for line in answer.content:
            if not line.startswith(b"data: "):
                continue
            told: dict[str, Any] = json.loads(line[6:])
            if told["type"] == "meta" and told["model_kind"] != "embedded":
                raise ValueError(f"answered by {told['model_kind']} ({told['route_reason']})")
            if told["type"] == "delta":
                first, pieces, attempts = first or perf_counter() - began, pieces + 1, told["attempt"]
            elif told["type"] in ("done", "error"):
                status = told.get("status") if told["type"] == "done" else told["code"]
    return Stream(first * 1000, (perf_counter() - began) * 1000, pieces, attempts, str(status))


async def wave(url: str, count: int, first: int) -> tuple[list[Stream], float]:
    timeout, connector, began = aiohttp.ClientTimeout(total=600), aiohttp.TCPConnector(limit=0), perf_counter()
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        found = await asyncio.gather(*(stream(session, url, first + number) for number in range(count)))
    return found, perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main(waves: int, streams: int, directory: Path | None) -> None:
    late: list[float] = []
    with workplace(directory) as place, Child("embedded_server", place) as server:
        url = server.hear()
        _, load_s = uvloop.run(wave(url, 1, 0))
        server.say("begin")
        before = server.result()
        others = Others()
        for number in range(waves):
            seen, took_s = uvloop.run(wave(url, streams, 1 + number * streams))
            server.say("next")
            told = server.result()
            late += told["late_ms"]
            report(number, seen, took_s, told["late_ms"])
        busy = others.cores()
    model_s, own_s = told["model_cpu_s"] - before["model_cpu_s"], told["cpu_s"] - before["cpu_s"]
    print(f"INFO embedded_load_s value={load_s:.2f} (start of its process, and one answer)")
    print(f"INFO embedded_rss_mib value={told['model_rss_mib']:.0f} (the service itself {told['rss_mib']:.0f})")
    print(f"INFO embedded_cpu_s value={model_s:.1f} (the service itself {own_s:.1f})")
    print(
        f"INFO embedded_loop_lag_ms p50={median(late):.2f} p99.9={percentile(late, 0.999):.2f} max={max(late):.2f} "
        f"samples={len(late)} cores_busy_besides_the_reader={busy:.1f}"
    )
    print(Figure("embedded_loop_lag_p99_ms", percentile(late, 0.99), TARGET_MS, "").line())


def report(number: int, seen: list[Stream], took_s: float, late: list[float]) -> None:
    ended = {status: sum(each.status == status for each in seen) for status in sorted({each.status for each in seen})}
    pieces = sum(each.pieces for each in seen)
    first = sorted(each.first_ms for each in seen if each.pieces)
    print(
        f"wave {number + 1}: {len(seen)} streams in {took_s:.1f} s, {ended}, {pieces / took_s:.0f} pieces/s, first "
        f"text after {first[0] / 1000:.1f} to {first[-1] / 1000:.1f} s, at most "
        f"{max(each.attempts for each in seen)} attempts; lag p99 {percentile(late, 0.99):.2f} ms", file=sys.stderr,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waves", type=int, default=2)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--dir", type=Path, dest="directory")
    given = parser.parse_args()
    main(given.waves, given.streams, given.directory)
