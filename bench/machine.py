"""The machine that is measured on: where to put files, and what else it was doing."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, thread_time

from bench.child import ROOT
from bench.figures import Figure

DEAR_US = 100
_PROBES = 60
_GET_FLAGS, _SET_FLAGS, _TOP_DIRECTORY = 0x80086601, 0x40086602, 0x00020000  # linux/fs.h


@contextmanager
def workplace(given: Path | None) -> Generator[Path]:
    """A directory for everything, removed at the end and not before."""
    parent = given or ROOT / "build"
    parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    try:
        _spread(place)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _spread(place: Path) -> None:
    """Have ext4 put each directory made in ``place`` somewhere else, as ``chattr +T`` does: making a file costs it up
    to 0.5 ms CPU for half a minute after many were removed nearby, and each run of an agent makes one."""
    directory = os.open(place, os.O_RDONLY)
    try:
        flags = int.from_bytes(fcntl.ioctl(directory, _GET_FLAGS, bytes(8)), sys.byteorder)
        fcntl.ioctl(directory, _SET_FLAGS, (flags | _TOP_DIRECTORY).to_bytes(8, sys.byteorder))
    except OSError:  # another file system
        pass
    finally:
        os.close(directory)


def _file_us(place: Path) -> float:
    """CPU microseconds to make a small file there."""
    began = thread_time()
    for number in range(_PROBES):
        (place / str(number)).write_bytes(b"x")
    return (thread_time() - began) * 1e6 / _PROBES


def warnings(place: Path) -> list[str]:
    found: list[str] = []
    probe = Path(tempfile.mkdtemp(prefix="probe-", dir=place))
    cost = _file_us(probe)
    if cost > DEAR_US:
        found.append(
            f"making a file in {place} costs {cost:.0f} us CPU (many were removed nearby in the last half minute?): "
            "the graph of each run makes one, so CPU per run reads that much too high"
        )
    return found


class Others:
    """How many cores were busy with other things than this benchmark."""

    def __init__(self) -> None:
        self.load_before = os.getloadavg()[0]
        self._began, self._busy, self._mine = perf_counter(), _busy_s(), _mine_s()

    def cores(self) -> float:
        wall = perf_counter() - self._began
        return max((_busy_s() - self._busy) - (_mine_s() - self._mine), 0.0) / wall


def conclude(
    others: Others, notes: list[str], aims: Sequence[Figure], figures: Sequence[Figure], *, bearable: float, but: str
) -> None:  # fmt: skip
    """Print what the machine was doing besides, the notes, and the figures. Where more than ``bearable`` cores were
    busy with other things a note says so, and what that spoils (``but``)."""
    busy = others.cores()
    print(
        f"Machine: {os.cpu_count()} cores, load {others.load_before:.1f} before; "
        f"others kept {busy:.1f} cores busy meanwhile."
    )
    for note in [*notes, *([f"other work was running{but}"] if busy > bearable else [])]:
        print(f"Note: {note}.")
    for aim in aims:
        print(aim.line("AIM", "aim"))
    for figure in figures:
        print(figure.line())


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _busy_s() -> float:
    fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = fields
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _mine_s() -> float:
    """Of this process and of its ended children: ask between cases."""
    return sum(os.times()[:4])
