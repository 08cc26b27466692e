"""Processes of the benchmark: how they are started, spoken to and ended, and what they tell of themselves."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Failed(Exception):
    """A process of the benchmark ended, or said nothing in time."""


class Child:
    """A module of the benchmark in a process of its own; lines go in and out. Ended with the ``with`` block."""

    def __init__(self, module: str, *args: object, env: Mapping[str, str] | None = None) -> None:
        self._module = module
        command = [sys.executable, "-m", f"bench.{module}", *map(str, args)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """A process that has what it needs ends with its input; one that does not is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self, seconds: float = 120) -> str:
        """The next line. Raises Failed."""
        assert self._process.stdout is not None
        watchdog = threading.Timer(seconds, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise Failed(f"bench.{self._module} ended with {self._process.wait()} before it answered")
        return line.strip()

    def result(self, seconds: float = 120) -> dict[str, Any]:
        return json.loads(self.hear(seconds))


def end_with_stdin() -> None:
    """End this process when its input ends: nothing outlives whoever started it, however that one died."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def cpu_s() -> float:
    """CPU of this process and of children that it waited for."""
    mine, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def peak_mib() -> float:
    """Peak resident memory. Not from getrusage: that begins with the peak of whoever started the process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def say(data: Mapping[str, Any]) -> None:
    print(json.dumps(data), flush=True)
