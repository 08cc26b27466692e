"""``make bench-peers``: this version against other durable agent loops, by their own harness, interleaved.

The work is theirs: three model calls and two tool calls a run, every step stored before the next. In a pass every
contestant takes its turn at each case, in an order that rotates; ratios are taken within a pass, to the peer that is
best there, and their median over the passes is the figure. Then the service is killed with 300 runs in flight. Progress
on stderr; stdout ends in FIGURE lines.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench import peer_report
from bench.child import ROOT, Failed
from bench.figures import Figure
from bench.machine import Others, conclude, progress, warnings, workplace
from bench.peer_kill import KILL_AT, Killed, kill, of_peer
from bench.peer_report import HTTP, OURS, Case, Rows
from bench.peer_setup import HOME, environment, found, installed, runnable, stub_running

CASES = (Case("c50", 50, 0), Case("c300", 300, 0), Case("slow", 300, 200))
PARTS = (*(case.name for case in CASES), "kill")
_WITHIN_S = 240
"""A slow peer drains one wave of 300 runs, each with its own 60 s."""


class Contestant(NamedTuple):
    """``venv`` empty: this repository's own."""

    name: str
    venv: str
    script: str
    store: str
    option: str = ""


CONTESTANTS = (
    Contestant(OURS, "", "bench.peer_devassist", "journal"),
    Contestant("dbos-sqlite", "v_dbos", "peer_dbos.py", "sqlite"),
    Contestant(HTTP, "", "bench.peer_devassist", "journal", "http"),
    Contestant("dbos-pg", "v_dbos", "peer_dbos.py", "pg"),
    Contestant("langgraph-sqlite", "v_lg", "peer_langgraph.py", "sqlite"),
)


class Race:
    """Runs contestants one at a time, each in a fresh process."""

    def __init__(self, peers: Path, home: Path, place: Path, stub: str) -> None:
        self.peers, self._home, self._place, self._stub = peers, home, place, stub
        self._made = 0

    def fresh(self) -> Path:
        self._made += 1
        new = self._place / f"turn{self._made}"
        new.mkdir()
        return new

    def env(self, place: Path) -> dict[str, str]:
        return environment(self.peers, self._home, place, self._stub)

    def python(self, who: Contestant) -> Path:
        return self._home / who.venv / "bin/python" if who.venv else Path(sys.executable)

    def turn(self, who: Contestant, case: Case, seconds: float) -> dict[str, Any]:
        """What the harness told, or ``failed``."""
        place = self.fresh()
        script = [who.script] if who.venv else ["-m", who.script]
        command = [
            str(self.python(who)), *script, "--store", who.store, "--opt", who.option, "--conc", str(case.at_once),
            "--lat", str(case.delay_ms), "--secs", str(seconds), "--n", "20000",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=self.peers if who.venv else ROOT, env=self.env(place), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=_WITHIN_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failed": f"nothing after {_WITHIN_S} s"}
        finally:
            for path in place.glob("**/*.db*"):
                path.unlink()  # large and few; the many small files stay until the end
        told: dict[str, Any] = {}
        for line in done.stdout.splitlines():
            told |= json.loads(line) if line.startswith("{") else {}
        if not told.get("runs"):
            return {"failed": done.stderr.strip()[-300:] or f"no run was finished; {told.get('errors')}"}
        pg = told["pg_cpu_ms"] if who.store == "pg" else 0.0
        after = told.get("devassist", {}).get("after_cpu_s", 0.0) * 1000 / told["runs"]
        return {**told, "cpu": told["cpu_ms"] + pg + after}


def run_passes(race: Race, cases: list[Case], who: list[Contestant], passes: int, seconds: float) -> Rows:
    rows: Rows = {(case, one.name): [] for case in cases for one in who}
    for number in range(passes):
        for at, case in enumerate(cases):
            first = (number * 2 + at) % len(who)
            told: list[str] = []
            for one in (*who[first:], *who[:first]):
                found_here = race.turn(one, case, seconds)
                rows[case, one.name].append(found_here)
                told.append(f"{one.name} {found_here['cpu']:.1f}" if "cpu" in found_here else f"{one.name} failed")
            progress(f"  {number + 1}/{passes}  {case.name:6}CPU ms/run: {', '.join(told)}")
    return rows


def run_kills(race: Race, stub: str, who: list[Contestant], with_peers: bool) -> list[Killed]:
    kills: list[Killed] = []
    for effect in ("idempotent", "once"):
        for at in KILL_AT:
            kills.append(kill(race.fresh(), f"{stub}/l200/v1", effect, at))
            progress(f"  {effect} tools, killed at {kills[-1].killed_at} calls: {kills[-1].repeats} repeated")
    for one in who if with_peers else ():
        if one.venv:
            found_here = of_peer(race.python(one), race.peers, one.script, one.store, race.env(race.fresh()))
            print(f"INFO killtest {json.dumps(found_here)}")
    return kills


def main() -> int:
    given = _arguments()
    signal.signal(signal.SIGTERM, _stopped)
    began, others = perf_counter(), Others()
    try:
        peers = found(given.peers)
    except Failed as reason:
        print(reason, file=sys.stderr)
        return 3
    parts = given.only or PARTS
    cases = [case for case in CASES if case.name in parts]
    notes: list[str] = []
    figures: list[Figure] = []
    aims: list[Figure] = []
    with workplace(given.dir) as place, installed(peers, given.home, notes), stub_running(peers) as stub:
        race = Race(peers, given.home, place, stub)
        who = [one for one in CONTESTANTS if not one.venv or runnable(given.home, one.venv, one.store)]
        notes += [f"{one.name} is missing" for one in CONTESTANTS if one not in who]
        notes += warnings(place)
        if cases:
            progress(f"passes ({perf_counter() - began:.0f} s)")
            rows = run_passes(race, cases, who, given.passes, given.seconds)
            aims, figures = peer_report.of_rows(rows, notes)
        if "kill" in parts:
            progress(f"kill -9 ({perf_counter() - began:.0f} s)")
            figures += peer_report.of_kills(run_kills(race, stub, who, given.with_peers))
    spoilt = " (PostgreSQL counts as such): CPU ratios hold roughly, the rest may not"
    conclude(others, notes, aims, figures, bearable=0.4, but=spoilt)
    progress(f"{perf_counter() - began:.0f} s in all")
    return 0


def _stopped(*_: object) -> None:
    sys.exit(143)  # through the with blocks


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--peers", type=Path, help="their directory  [default: $PEERS_DIR, else ../shared/peers]")
    parser.add_argument("--home", type=Path, default=HOME, help=f"scratch for what they install  [default: {HOME}]")
    parser.add_argument("--passes", type=int, default=3, metavar="N", help="[default: 3]")
    parser.add_argument("--seconds", type=float, default=4, metavar="S", help="of each turn  [default: 4]")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; may be given again")
    parser.add_argument("--with-peers", action="store_true", help="kill the peers too, by their own script (slow)")
    parser.add_argument("--dir", type=Path, help="where to put files; a directory of a disk like the service's")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
