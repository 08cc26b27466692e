"""What tests of the WebAssembly backend need in common: opened sandboxes, and a look at their processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program
from devassist.sandbox.wasi import WasiSandbox

ALICE = Scope("default", "alice")


@asynccontextmanager
async def opened(cache: Path, **options: Any) -> AsyncIterator[WasiSandbox]:
    sandbox = WasiSandbox(cache, **options)
    await sandbox.open()
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def run(sandbox: WasiSandbox, code: str, timeout_s: float = 30) -> Execution:
    return await sandbox.execute(ALICE, Program(code, timeout_s))


def workers(parent: int | None = None) -> set[int]:
    """Worker processes that live, of this process or of ``parent``."""
    found: set[int] = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                named = b"wasi_worker" in (path / "cmdline").read_bytes()
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if named and fields[0] != "Z" and int(fields[1]) == (parent or os.getpid()):
                found.add(int(path.name))
    return found


async def until_gone(pids: set[int], seconds: float) -> set[int]:
    """Those that still live when the time is over; empty as soon as none does."""
    for _ in range(round(seconds / 0.02)):
        pids = {pid for pid in pids if lives(pid)}
        if not pids:
            break
        await asyncio.sleep(0.02)
    return pids


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (row.partition(":") for row in rows)}
