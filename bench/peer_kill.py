"""kill -9 with 300 runs in flight: what is lost, and what is done twice without a mark.

Clients begin runs over HTTP and read server-sent events; a run is acknowledged when its ``meta`` was read. When the
tools' witness holds so many calls the server is killed, and started again on the same files; nobody does anything more.
Once every acknowledged run has ended or waits for a person, the witness (a file that the tools append to, no part of
the journal) is laid beside what the journal says. Two passes: tools that take an idempotency key, and tools whose
effect must happen once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import apsw

from bench.child import Child, Failed
from devassist.core.chain import call_id

RUNS = 300
KILL_AT = (150, 300, 450)
"""Tool calls made when the process is killed; 600 would be all."""
_KILL_WITHIN_S, _END_WITHIN_S = 90.0, 90.0
_ANSWERED, _HELD = "succeeded", "awaiting_approval"
_RESTING = frozenset({_ANSWERED, _HELD, "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Killed:
    """What one kill came to. ``lost`` runs were acknowledged, and neither have their answer nor wait for a person.
    ``arrived`` and ``repeats`` are calls by the witness; ``unmarked`` ones have no attempt of their own in the journal,
    or one of which it says no outcome; ``second_effects``: the same step of a run under another key. ``doubts`` are
    attempts whose outcome the journal calls unknown, ``missing_rows`` events that the decision log does not have."""

    effect: str
    killed_at: int
    acknowledged: int
    lost: int
    answered: int
    held: int
    arrived: int
    repeats: int
    unmarked: int
    second_effects: int
    doubts: int
    missing_rows: int

    @property
    def row(self) -> list[str]:
        return [str(getattr(self, name)) for name in self.__slots__]


def kill(place: Path, url: str, effect: str, at: int) -> Killed:
    """One kill at ``at`` tool calls, in the empty directory ``place``. Raises Failed."""
    data, witness = place / "data", place / "witness.log"
    options = ("--effect", effect, "--log", witness)
    with Child("peer_server", data, url, *options) as server:
        told = server.result()
        acknowledged = asyncio.run(_begin(told["address"], witness, at, told["pid"]))
    killed_at = len(_arrivals(witness))
    with Child("peer_server", data, url, *options) as server:
        status = asyncio.run(_until_resting(server.result()["address"], acknowledged))
        server.say("count")  # answered when every follower has had everything
        server.result()
    resting = Counter(status.values())
    seen = Record(data).beside(_arrivals(witness))
    return Killed(
        effect, killed_at, len(acknowledged), len(status) - resting[_ANSWERED] - resting[_HELD], resting[_ANSWERED],
        resting[_HELD], **seen,
    )  # fmt: skip


# -- the clients ---------------------------------------------------------------------------------------------------


async def _begin(address: str, witness: Path, at: int, pid: int) -> list[str]:
    """Begin all runs, kill ``pid`` when the witness has ``at`` lines, and return the acknowledged trace ids."""
    acknowledged: list[str] = []

    async def client(http: aiohttp.ClientSession, number: int) -> None:
        body = {"message": f"RUN=k{number} How many days of annual leave do I have left?"}
        with suppress(aiohttp.ClientError, OSError):  # the server dies below it
            async with http.post(f"{address}/agent?stream=true", json=body) as response:
                async for line in response.content:
                    if line.startswith(b'data: {"type":"meta"'):
                        acknowledged.append(json.loads(line[6:])["trace_id"])  # noqa: PERF401 (as it comes)

    async def killer() -> None:
        end = monotonic() + _KILL_WITHIN_S
        while len(_arrivals(witness)) < at:
            if monotonic() > end:
                raise Failed(f"{len(_arrivals(witness))} tool calls in {_KILL_WITHIN_S:.0f} s, {at} were to come")
            await asyncio.sleep(0.005)
        os.kill(pid, signal.SIGKILL)

    async with _session() as http, asyncio.TaskGroup() as group:
        group.create_task(killer())
        for number in range(RUNS):
            group.create_task(client(http, number))
    return acknowledged


async def _until_resting(address: str, streams: list[str]) -> dict[str, str]:
    """The status of each run once all have ended or wait for a person, or when the time for that is over."""
    status = dict.fromkeys(streams, "")
    end = monotonic() + _END_WITHIN_S
    async with _session() as http:
        while monotonic() < end and (left := [s for s in streams if status[s] not in _RESTING]):
            for stream in left:
                async with http.get(f"{address}/runs/{stream}") as response:
                    told: dict[str, Any] = await response.json()
                status[stream] = told["status"] if response.status == 200 else f"HTTP {response.status}"
            await asyncio.sleep(0.2)
    return status


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), headers={"X-User-Id": "bench"}, timeout=aiohttp.ClientTimeout(120)
    )


# -- witness and record --------------------------------------------------------------------------------------------


def _arrivals(witness: Path) -> list[tuple[str, ...]]:
    """(run, step, trace id, key, attempt) of each call that was really made."""
    if not witness.exists():
        return []
    return [tuple(line.split()) for line in witness.read_text().splitlines()]


class Record:
    """What the files say, read by plain SQL and not through the service."""

    def __init__(self, data: Path) -> None:
        self._intents: dict[tuple[str, str], tuple[bytes, int]] = {}
        self._outcomes: dict[tuple[bytes, int], str] = {}
        self._rows = 0
        with closing(_read(data / "journal.db")) as db:
            sql = (
                "SELECT stream, seq, body FROM events WHERE stream IN (SELECT stream FROM heads WHERE kind = 'run')"
                " ORDER BY stream, seq"
            )
            for stream, seq, body in db.execute(sql):
                self._rows += 1
                event = json.loads(body)
                if event["k"] == "tool_intended":
                    key = call_id(stream, event["decision"], event["call"])
                    self._intents[key, str(event["attempt"])] = stream, seq
                elif event["k"] == "tool_returned":
                    self._outcomes[stream, event["of"]] = event["outcome"]
        with closing(_read(data / "log.db")) as db:
            self._logged = int(next(db.execute("SELECT count(*) FROM decision_log WHERE trace_id IS NOT NULL"))[0])

    def beside(self, arrivals: list[tuple[str, ...]]) -> dict[str, int]:
        calls = Counter((run, step) for run, step, *_ in arrivals)
        attempts = Counter((key, attempt) for *_, key, attempt in arrivals)
        keys = {(run, step, key) for run, step, _, key, _ in arrivals}
        # An attempt stands for one arrival, and something has to have been said of how it ended.
        unmarked = sum(times - (self._intents.get(one) in self._outcomes) for one, times in attempts.items())
        return {
            "arrived": len(arrivals), "repeats": len(arrivals) - len(calls), "unmarked": unmarked,
            "second_effects": len(keys) - len(calls),
            "doubts": sum(outcome == "unknown" for outcome in self._outcomes.values()),
            "missing_rows": self._rows - self._logged,
        }  # fmt: skip


def _read(path: Path) -> Any:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


# -- the peers, by their own script ---------------------------------------------------------------------------------


def of_peer(python: Path, peers: Path, script: str, store: str, env: dict[str, str]) -> dict[str, Any]:
    """Their ``killtest.py`` on one of them."""
    command = [str(python), "killtest.py", str(python), script, store, "300"]
    try:
        done = subprocess.run(command, cwd=peers, env=env, capture_output=True, timeout=400, check=False)
    except subprocess.TimeoutExpired:
        return {"peer": script, "store": store, "failed": "nothing after 400 s"}
    lines = done.stdout.decode().strip().splitlines()
    return json.loads(lines[-1]) if lines else {"peer": script, "store": store, "failed": done.stderr.decode()[-200:]}
