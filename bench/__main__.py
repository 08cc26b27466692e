"""``make bench``: this version against the bare limit, in minutes. Progress on stderr; stdout ends in FIGURE lines.

Every case has a process of its own; CPU is that process's, followers' work included. The cases of one repetition run
one after another, each beside its bare limit, and ratios are taken within a repetition, so that a slow or busy machine
moves both alike.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench.child import Child
from bench.figures import Figure, Spread, ratios, table
from bench.machine import Others, conclude, progress, warnings, workplace

PARTS = ("cpu", "bytes", "log")
STEPS = ((5, 80), (50, 12), (200, 3), (700, 1))
"""Steps of a run, and how many runs of so many steps are measured."""
MS_OF_RUN = 3
"""Model calls of a run: what the endpoint's delay counts for."""
JSON, SSE = "http", "http-sse"


class Case(NamedTuple):
    """So many runs at once, against an endpoint that answers after ``delay_ms``."""

    at_once: int
    delay_ms: int
    runs: int
    whos: tuple[str, ...] = ("bare", "engine", JSON, SSE)

    @property
    def name(self) -> str:
        return f"c={self.at_once}" + (f" {self.delay_ms} ms" if self.delay_ms else "")


CASES = (
    Case(1, 0, 120),
    Case(50, 0, 800),
    Case(300, 0, 900),
    Case(300, 200, 900, ("bare", "engine", JSON)),
)
Samples = dict[tuple[Case, str], list[dict[str, Any]]]


class Bench:
    """Runs cases in fresh processes under one directory."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self._directory, self._endpoint, self._made = directory, endpoint, 0

    def _fresh(self) -> Path:
        self._made += 1
        new = self._directory / f"case{self._made}"
        new.mkdir()
        return new

    def url(self, delay_ms: int, calls: int = 2) -> str:
        return f"{self._endpoint}/l{delay_ms}/c{calls}/v1"

    def run(self, case: Case, who: str) -> dict[str, Any]:
        warm = max(20, case.at_once)
        if who in (JSON, SSE):
            return self._served(case, warm, *(["--stream"] if who == SSE else []))
        return self.inside(who, self.url(case.delay_ms), case.at_once, case.runs, warm)

    def inside(self, who: str, url: str, at_once: int, runs: int, warm: int) -> dict[str, Any]:
        place = self._fresh()
        with Child("inside", who, place, url, at_once, runs, warm) as child:
            found = child.result()
        _shed(place)
        return found

    def _served(self, case: Case, warm: int, *options: str) -> dict[str, Any]:
        place = self._fresh()
        with Child("server", place, self.url(case.delay_ms)) as server:
            address = server.hear()
            with Child("load", address, case.at_once, case.runs, warm, *options) as load:
                load.hear()
                server.say("count")
                before = server.result()
                load.say("go")
                found = load.result()
            server.say("count")
            after = server.result()
        _shed(place)
        cpu_ms = (after["cpu_s"] - before["cpu_s"]) * 1000 / case.runs
        return {**found, "cpu_ms": cpu_ms, "rss_mib": after["rss_mib"]}

    def traces(self) -> Iterator[dict[str, Any]]:
        with Child("traces", self._fresh(), self.url(0)) as child:
            yield child.result()
            yield child.result()


def _shed(place: Path) -> None:
    """Databases are large and few; the many small files stay until the end."""
    for path in place.glob("*.db*"):
        path.unlink()


# -- CPU, latency, memory ------------------------------------------------------------------------------------------


def measure_cpu(bench: Bench, repetitions: int) -> Samples:
    samples: Samples = {(case, who): [] for case in CASES for who in case.whos}
    for repetition in range(repetitions):
        for case in CASES:
            order = case.whos if repetition % 2 == 0 else case.whos[::-1]
            told: list[str] = []
            for who in order:
                found = bench.run(case, who)
                samples[case, who].append(found)
                told.append(f"{who} {found['cpu_ms']:.2f}")
            progress(f"  {repetition + 1}/{repetitions}  {case.name:14}CPU ms/run: {', '.join(told)}")
    return samples


def report_cpu(samples: Samples) -> tuple[list[Figure], list[Figure]]:
    """Prints the table and the lines of information; gives (aims, figures)."""

    def values(case: Case, who: str, key: str) -> list[float]:
        return [sample[key] for sample in samples[case, who]]

    def added(case: Case, who: str) -> list[float]:
        return [p50 - MS_OF_RUN * case.delay_ms for p50 in values(case, who, "p50_ms")]

    rows: list[list[str]] = []
    for case, who in samples:
        cells = [case.name, who, Spread.of(values(case, who, "cpu_ms")).show()]
        if who == "bare":
            cells += ["", ""]
        else:
            cells.append(ratios(values(case, who, "cpu_ms"), values(case, "bare", "cpu_ms")).show())
            cells.append(ratios(values(case, who, "runs_s"), values(case, "bare", "runs_s")).show())
        cells += [
            f"{Spread.of(values(case, who, 'runs_s')).middle:.0f}", Spread.of(added(case, who)).show(".1f"),
            "" if who == "bare" else ratios(added(case, who), added(case, "bare")).show(),
            f"{max(values(case, who, 'rss_mib')):.0f}",
        ]  # fmt: skip
        rows.append(cells)
    head = ("case", "who", "CPU ms/run", "x bare", "runs/s x bare", "runs/s", "added p50 ms", "x bare", "peak MiB")
    print(f"Median of {len(next(iter(samples.values())))} repetitions [least-most]; ratios within each repetition.\n")
    print(table(head, rows), end="\n\n")
    one, fifty, many, slow = CASES
    for name, case, who in (
        ("inprocess_c50", fifty, "engine"), ("inprocess_c300", many, "engine"), ("http_c50", fifty, JSON),
    ):  # fmt: skip
        share = ratios(values(case, who, "runs_s"), values(case, "bare", "runs_s"))
        print(f"INFO runs_per_s_{name} value={share.middle:.2f}x of bare")
    for name, case, who in (
        ("inprocess_c1", one, "engine"), ("inprocess_c300_200ms", slow, "engine"), ("http_c300_200ms", slow, JSON),
    ):  # fmt: skip
        share, middle = ratios(added(case, who), added(case, "bare")), Spread.of(added(case, who)).middle
        print(f"INFO added_p50_{name} value={share.middle:.2f}x of bare ({middle:.0f} ms)")

    def cpu(who: str) -> float:
        return ratios(values(fifty, who, "cpu_ms"), values(fifty, "bare", "cpu_ms")).middle

    def peak(who: str) -> float:
        return max(values(slow, who, "rss_mib"))

    aims = [
        Figure("cpu_ratio_inprocess_c50", cpu("engine"), 2.5, "x"), Figure("cpu_ratio_http_c50", cpu(JSON), 4, "x"),
        Figure("rss_inprocess_c300", peak("engine"), 80, "MiB", ".0f"),
    ]  # fmt: skip
    figures = [
        Figure("cpu_ratio_inprocess_c50", cpu("engine"), 5, "x"), Figure("cpu_ratio_http_c50", cpu(JSON), 8, "x"),
        Figure("rss_inprocess_c300", peak("engine"), 120, "MiB", ".0f"),
        Figure("rss_http_c300", peak(JSON), 120, "MiB", ".0f"),
    ]  # fmt: skip
    return aims, figures


# -- bytes ---------------------------------------------------------------------------------------------------------


def measure_bytes(bench: Bench) -> tuple[list[Figure], list[Figure]]:
    run = bench.inside("engine", bench.url(0), 50, 950, 50)["bytes"]
    limit = bench.inside("bare", bench.url(0), 50, 950, 50)["bytes"]
    progress(f"  journal.db {run['journal.db']:.0f}, log.db {run['log.db']:.0f} B a run")
    per_step: dict[int, tuple[float, float, float]] = {}
    for steps, runs in STEPS:
        found = bench.inside("engine", bench.url(0, steps - 1), min(runs, 8), runs, 0)
        sizes = found["bytes"]
        per_step[steps] = sizes["journal.db"] / steps, sizes["log.db"] / steps, found["cpu_ms"] / steps
        progress(f"  {steps} steps: journal.db {per_step[steps][0]:.0f} B a step")
    rows = [
        [str(steps), f"{journal:.0f}", f"{log:.0f}", f"{cpu:.2f}"] for steps, (journal, log, cpu) in per_step.items()
    ]
    print(table(("steps", "journal.db B/step", "log.db B/step", "CPU ms/step"), rows), end="\n\n")
    print(f"INFO log_bytes_per_run value={run['log.db']:.0f}B (beside the journal's {run['journal.db']:.0f}B)")
    print(f"INFO journal_bytes_ratio value={run['journal.db'] / limit['journal.db']:.2f}x of bare")
    return [], [
        Figure("journal_bytes_per_run", run["journal.db"], 9000, "B", ".0f"),
        Figure("journal_bytes_per_step_700_to_50", per_step[700][0] / per_step[50][0], 1.3, "x"),
    ]


# -- the decision log ----------------------------------------------------------------------------------------------


def measure_log(bench: Bench) -> tuple[list[Figure], list[Figure]]:
    figures: list[Figure] = []
    rows: list[list[str]] = []
    for name, target, found in zip(("100k", "1m"), (1, 2), bench.traces(), strict=True):
        progress(f"  {found['rows']} rows, {found['mib']} MiB, built in {found['built_s']:.1f} s")
        for way in ("sql", "port"):
            p50, p95 = (Spread.of([r[way][key] for r in found["rounds"]]) for key in ("p50_ms", "p95_ms"))
            rows.append([str(found["rows"]), way, p50.show(), p95.show()])
            figures.append(Figure(f"log_trace_p95_{name}_{way}", p95.middle, target, "ms"))
    print(table(("rows", "way", "p50 ms", "p95 ms"), rows), end="\n\n")
    return [], figures


# -- all -----------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="of the CPU cases  [default: 5]")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; may be given again")
    parser.add_argument("--dir", type=Path, help="where to put files; a directory of a disk like the service's")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves through the with blocks
    began, others = perf_counter(), Others()
    with workplace(given.dir) as place, Child("stub") as stub:
        bench = Bench(place, f"http://127.0.0.1:{stub.hear()}")
        notes = warnings(place)
        parts: dict[str, Callable[[], tuple[list[Figure], list[Figure]]]] = {
            "cpu": lambda: report_cpu(measure_cpu(bench, given.repetitions)),
            "bytes": lambda: measure_bytes(bench),
            "log": lambda: measure_log(bench),
        }
        aims: list[Figure] = []
        figures: list[Figure] = []
        for part in given.only or PARTS:
            progress(f"{part} ({perf_counter() - began:.0f} s)")
            more_aims, more = parts[part]()
            aims += more_aims
            figures += more
        notes += [] if given.only else warnings(place)
    spoilt = ": ratios hold roughly, latencies and throughput do not"
    conclude(others, notes, aims, figures, bearable=0.25, but=spoilt)
    progress(f"{perf_counter() - began:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
