"""How long the decision log takes to give the rows of one trace, at 100,000 and at 1,000,000 rows.

A few real runs are made; their rows are then repeated under new trace ids by SQL, into the same file. One line of JSON
for each size: p50 and p95 of each round, through the query port and through plain SQL on the ``decision_log`` view.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw
import uvloop

from bench.child import end_with_stdin, say
from bench.engine import Engine, settings
from bench.inside import spread
from devassist.bootstrap import open_services
from devassist.core.scope import SYSTEM
from devassist.ports.decision_log import LogQuery

MADE = 50
SIZES = (100_000, 1_000_000)
ROUNDS, ASKED = 5, 400
"""So many traces, at random, are asked for in a round; those of one round are asked for by both ways."""
_PORTION = 100
_COPIES = "WITH RECURSIVE copies(c) AS (SELECT ? UNION ALL SELECT c + 1 FROM copies WHERE c + 1 < ?)"
_RUNS = f"""{_COPIES}
INSERT INTO log_runs(run, stream, kind, tenant, domain, actor, conversation, agent)
SELECT run + c * ?3, new_stream(), kind, tenant, domain, actor, conversation || c, agent
FROM copies CROSS JOIN (SELECT * FROM log_runs WHERE run <= ?3) ORDER BY c, run"""
_TEXTS = f"""{_COPIES}
INSERT INTO texts(id, run, ref, body)
SELECT id + c * ?4, run + c * ?3, ref, body
FROM copies CROSS JOIN (SELECT * FROM texts WHERE id <= ?4) ORDER BY c, id"""
_ROWS = f"""{_COPIES}
INSERT INTO log_rows(run, seq, at, kind, step, state, tool, input, output, message, code, duration_ms, metadata, hash)
SELECT run + c * ?3, seq, at + c * 60000000, kind, step, state, tool, input + c * ?4, output + c * ?4, message + c * ?4,
       code, duration_ms, metadata, hash
FROM copies CROSS JOIN (SELECT * FROM log_rows WHERE run <= ?3) ORDER BY c, run, seq"""


class Growing:
    """A log.db that holds real runs and is made larger by their likes."""

    def __init__(self, path: Path) -> None:
        self._db = db = apsw.Connection(str(path))
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -200000")
        db.create_scalar_function("new_stream", self._new_stream)
        self.streams = [row[0] for row in db.execute("SELECT stream FROM log_runs WHERE kind = 'run'")]
        self._at = int.from_bytes(self.streams[-1][:6])
        self.rows, self._texts = next(db.execute("SELECT (SELECT count(*) FROM log_rows), (SELECT max(id) FROM texts)"))
        self._per_copy, self._copies = self.rows, 1

    def _new_stream(self) -> bytes:
        """A trace id as the service makes it: a UUID of version 7, later than the one before."""
        self._at += 60_000
        new = self._at.to_bytes(6) + b"\x70" + os.urandom(1) + b"\x80" + os.urandom(7)
        self.streams.append(new)
        return new

    def grow(self, rows: int) -> None:
        until = -(-rows // self._per_copy)
        while self._copies < until:
            upto = min(self._copies + _PORTION, until)
            with self._db:
                self._db.execute(_RUNS, (self._copies, upto, MADE))
                for sql in (_TEXTS, _ROWS):
                    self._db.execute(sql, (self._copies, upto, MADE, self._texts))
            self._copies = upto
        self.rows = self._per_copy * self._copies
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._db.close()


async def made(directory: Path, url: str) -> None:
    engine = Engine()
    await engine.open(directory, url)
    for number in range(MADE):
        await engine.run(number)
    await engine.settle()
    await engine.close()


def by_sql(path: Path, traces: Sequence[str]) -> list[float]:
    db = apsw.Connection(str(path))
    took = [_timed(db, trace) for trace in traces]
    db.close()
    return took


def _timed(db: apsw.Connection, trace: str) -> float:
    began = perf_counter()
    rows = db.execute("SELECT * FROM decision_log WHERE trace_id = ? ORDER BY seq", (trace,)).fetchall()
    took = perf_counter() - began
    if not rows:
        raise ValueError(f"no rows of {trace}")
    return took


async def by_port(log: Any, traces: Sequence[str]) -> list[float]:
    found: list[float] = []
    for trace in traces:
        began = perf_counter()
        page = await log.query(SYSTEM, LogQuery(trace_id=trace, oldest_first=True, limit=200))
        found.append(perf_counter() - began)
        if not page.rows:
            raise ValueError(f"no rows of {trace}")
    return found


async def main(directory: Path, url: str) -> None:
    await made(directory, url)
    path, chance = directory / "log.db", random.Random(7)
    growing = Growing(path)
    for size in SIZES:
        began = perf_counter()
        growing.grow(size)
        built_s = perf_counter() - began
        services = await open_services(settings(directory, url), drive=False)
        rounds: list[dict[str, dict[str, float]]] = []
        try:
            for number in range(ROUNDS + 1):
                traces = [stream.hex() for stream in chance.choices(growing.streams, k=ASKED)]
                took = {"sql": spread(by_sql(path, traces)), "port": spread(await by_port(services.log, traces))}
                rounds += [took] if number else []  # the first fills the caches
        finally:
            await services.close()
        say({"rows": growing.rows, "built_s": built_s, "mib": path.stat().st_size >> 20, "rounds": rounds})
    growing.close()


if __name__ == "__main__":
    end_with_stdin()
    uvloop.run(main(Path(sys.argv[1]), sys.argv[2]))
