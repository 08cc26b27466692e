"""What tests of the Docker backend need in common: sandboxes on a real engine, and a look at what is left on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program
from devassist.sandbox.docker import SOCKET, DockerSandbox
from devassist.sandbox.engine import Engine
from devassist.sandbox.fairness import Bounds
from devassist.sandbox.home import LABEL
from devassist.sandbox.image import IMAGE
from devassist.sandbox.policy import Policy

ALICE = Scope("default", "alice")
NARROW = Bounds(running=1, running_each=1, waiting=8, waiting_each=1)
HOW_TO = (
    "Needs a Docker engine with the sandbox's image. On Debian: apt-get install -y docker.io debootstrap, start "
    "dockerd, then as root: .venv/bin/devassist sandbox build"
)


async def require_engine(in_ci: bool) -> None:
    """Without an engine or the image a test is skipped with the way to get them; in CI it fails."""
    engine, fault = Engine(SOCKET), ""
    try:
        await engine.open()
        if await engine.image(IMAGE) is None:
            fault = f"there is no image {IMAGE}"
    except SandboxUnavailable as error:
        fault = error.detail
    finally:
        await engine.close()
    if fault and in_ci:
        pytest.fail(f"{fault}. {HOW_TO}")
    if fault:
        pytest.skip(f"{fault}. {HOW_TO}")


@asynccontextmanager
async def opened(work_dir: Path, policy: Policy | None = None, **options: Any) -> AsyncIterator[DockerSandbox]:
    sandbox = DockerSandbox(IMAGE, work_dir, policy, **options)
    await sandbox.open()
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def run(sandbox: DockerSandbox, code: str, timeout_s: float = 30) -> Execution:
    return await sandbox.execute(ALICE, Program(code, timeout_s))


async def left(work_dir: Path) -> list[str]:
    """Containers that sandboxes under this directory have, running or not."""
    engine = Engine(SOCKET)
    await engine.open()
    try:
        return list(await engine.containers(LABEL, (work_dir / "id").read_text()))
    finally:
        await engine.close()


async def until_left(work_dir: Path, count: int, within_s: float = 30) -> list[str]:
    """Wait for the number of containers; what there is then."""
    for _ in range(round(within_s / 0.1)):
        if len(await left(work_dir)) == count:
            break
        await asyncio.sleep(0.1)
    return await left(work_dir)


async def settled(sandbox: DockerSandbox, work_dir: Path, size: int = 2) -> list[str]:
    """The containers of a sandbox at rest: its pool, full, and nothing else."""
    for _ in range(600):
        if sandbox.state().warm == size and len(names := await left(work_dir)) == size:
            return names
        await asyncio.sleep(0.05)
    pytest.fail(f"{sandbox.state().warm} are warm, and there are {len(await left(work_dir))}, not {size}")


def processes_with(text: str) -> list[int]:
    """Living processes of this machine, containers' included, whose command line holds the text."""
    found: list[int] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in line and int(pid) != os.getpid():
            found.append(int(pid))
    return found
