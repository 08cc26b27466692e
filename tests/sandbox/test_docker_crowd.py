"""Many programs at once: each gets its own result, and nothing is left of any."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from devassist.core.scope import Scope
from devassist.ports.sandbox import Program
from devassist.sandbox.fairness import Bounds
from tests.sandbox.docker_kit import left, opened, processes_with

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("engine")]

PROGRAMS = 64
IN_FLIGHT = 32


async def test_a_crowd_leaves_nothing(tmp_path: Path) -> None:
    """None is lost or mixed up; no container, process, directory or file descriptor is left behind."""
    base = tmp_path / "base"
    open_before = len(os.listdir("/proc/self/fd"))
    at_once = asyncio.Semaphore(IN_FLIGHT)
    async with opened(base, pool_size=2, bounds=Bounds(running=8, running_each=3)) as sandbox:

        async def one(number: int) -> str:
            async with at_once:
                scope = Scope("default", f"user{number % 5}")
                return (await sandbox.execute(scope, Program(f"print('result', {number})", 30))).stdout

        results = await asyncio.gather(*map(one, range(PROGRAMS)))
        assert results == [f"result {number}\n" for number in range(PROGRAMS)]
        assert sandbox.counts.warm + sandbox.counts.cold == PROGRAMS + 1  # and the proof at the start
        assert (sandbox.counts.leaks, sandbox.counts.killed) == (0, 0)
    assert await left(base) == []
    assert sorted(path.name for path in base.iterdir()) == ["id", "lock"]
    assert processes_with(str(base)) == []
    assert len(os.listdir("/proc/self/fd")) <= open_before
