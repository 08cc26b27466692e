"""The machine that is measured on: where to put files, and what else it was doing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, thread_time

from bench.child import ROOT

DEAR_US = 60
_PROBES = 60


@contextmanager
def workplace(given: Path | None) -> Generator[Path]:
    """A directory for everything, removed at the end and not before: on ext4 making a file costs up to 0.5 ms CPU for
    half a minute after many were removed nearby, so the cheaper of two places is taken, and what is left is said."""
    places = [Path(tempfile.mkdtemp(prefix="devassist-bench-", dir=parent)) for parent in _parents(given)]
    try:
        costs = {place: _file_us(place) for place in places}
        yield min(places, key=lambda place: costs[place])
    finally:
        for place in places:
            shutil.rmtree(place, ignore_errors=True)


def _parents(given: Path | None) -> list[Path]:
    if given is not None:
        return [given]
    beside = ROOT / "build"
    beside.mkdir(exist_ok=True)
    return [beside, Path(tempfile.gettempdir())]


def _file_us(place: Path) -> float:
    """CPU microseconds to make a small file there."""
    (place / "probe").mkdir(exist_ok=True)
    began = thread_time()
    for number in range(_PROBES):
        (place / "probe" / f"{number}-{os.getpid()}-{began}").write_bytes(b"x")
    return (thread_time() - began) * 1e6 / _PROBES


def warnings(place: Path) -> list[str]:
    found: list[str] = []
    cost = _file_us(place)
    if cost > DEAR_US:
        found.append(
            f"making a file in {place} costs {cost:.0f} us CPU (many were removed nearby in the last half minute?): "
            "the graph of each run makes one, so CPU per run reads that much too high"
        )
    return found


class Others:
    """How many cores were busy with other things than this benchmark."""

    def __init__(self) -> None:
        self._began, self._busy, self._mine = perf_counter(), _busy_s(), _mine_s()

    def cores(self) -> float:
        wall = perf_counter() - self._began
        return max((_busy_s() - self._busy) - (_mine_s() - self._mine), 0.0) / wall


def _busy_s() -> float:
    fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = fields
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _mine_s() -> float:
    """Of this process and of its ended children: ask between cases."""
    return sum(os.times()[:4])
