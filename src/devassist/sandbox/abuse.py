"""Runs the abuse cases against a backend: what `devassist sandbox check` shows, and what the tests insist on.

The programs go to the port itself, behind the static scan: the scan is an early warning, the sandbox is the boundary.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program, Sandbox
from devassist.sandbox.abuse_cases import Abuse
from devassist.sandbox.abuse_kernel import KERNEL
from devassist.sandbox.abuse_outside import OUTSIDE
from devassist.sandbox.abuse_resources import RESOURCES

ABUSES: tuple[Abuse, ...] = tuple(sorted((*OUTSIDE, *RESOURCES, *KERNEL), key=lambda abuse: abuse.number))
SCOPE = Scope("default", "sandbox-check")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``held``: refused or stopped; ``absent``: nothing of the kind exists here; ``hole``: it got through."""

    abuse: Abuse
    verdict: Literal["held", "absent", "hole"]
    detail: str
    duration_ms: int


async def check(sandbox: Sandbox, abuses: Sequence[Abuse] = ABUSES) -> AsyncIterator[Verdict]:
    """Try each case on an open sandbox, one after another, and see that it still works afterwards.

    Raises SandboxUnavailable when it does not.
    """
    async with _bait() as port:
        for abuse in abuses:
            yield await attempt(sandbox, abuse, port)
    after = await sandbox.execute(SCOPE, Program("print('fine')", 20))
    if after.stdout != "fine\n":
        raise SandboxUnavailable(f"After the abuse cases the sandbox cannot run a program: {after.stderr[-300:]}")


async def attempt(sandbox: Sandbox, abuse: Abuse, port: int) -> Verdict:
    try:
        execution = await sandbox.execute(SCOPE, Program(abuse.program(port), abuse.timeout_s))
    except SandboxUnavailable as error:
        # A program that can break the service has got through.
        return Verdict(abuse, "hole", error.detail, 0)
    verdict, detail = _judged(abuse, execution)
    return Verdict(abuse, verdict, detail, execution.duration_ms)


def _judged(abuse: Abuse, execution: Execution) -> tuple[Literal["held", "absent", "hole"], str]:
    said = {word: _reports(execution.stdout, word) for word in ("hole", "held", "absent")}
    if said["hole"]:
        return "hole", said["hole"][0]
    if said["absent"] and not said["held"]:
        return "absent", said["absent"][0]
    if abuse.judge is not None and (fault := abuse.judge(execution)):
        return "hole", fault
    end = _end(execution)
    if abuse.ends == "judged":
        return "held", end or "as it should be"
    if abuse.ends == "stopped":
        return ("held", end) if end else ("hole", "it got to its end")
    if said["held"]:
        return "held", said["held"][0]
    if execution.oom_killed or execution.timed_out:
        return "held", end
    return "hole", f"it ended without a word: {execution.stderr[-200:]}"


def _reports(stdout: str, word: str) -> list[str]:
    start = f"@{word} "
    return [line[len(start) :] or word for line in stdout.splitlines() if line.startswith(start)]


def _end(execution: Execution) -> str:
    """How it was stopped; empty when it ended well."""
    if execution.oom_killed:
        return "killed for memory"
    if execution.timed_out:
        return "killed at the timeout"
    if execution.exit_code < 0:
        return f"killed by signal {-execution.exit_code}"
    return f"exit {execution.exit_code}" if execution.exit_code else ""


@asynccontextmanager
async def _bait() -> AsyncGenerator[int]:
    """A service on the host's loopback that no program may reach; its port."""

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
