"""A sandbox that runs nothing: it notes what reaches it and answers as it is told. Adapter of ports.sandbox.Sandbox."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program, SandboxState
from devassist.sandbox.scan import scan
from devassist.tools.execute_code import execute_code_tool
from devassist.tools.registry import Tool

DONE = Execution(
    stdout="ok\n", stderr="", exit_code=0, duration_ms=7, timed_out=False, oom_killed=False, truncated=False,
    backend="docker", image="image sha256:00", limits="memory=128MiB network=none",
)  # fmt: skip


@dataclass
class FakeSandbox:
    """``gives`` is what comes of every program, or the error that is raised. While ``holds`` is cleared nothing comes
    of any; ``killed`` counts those that were given up meanwhile."""

    gives: Execution | Exception = DONE
    holds: asyncio.Event | None = None
    programs: list[Program] = field(default_factory=list[Program])
    scopes: list[Scope] = field(default_factory=list[Scope])
    killed: int = 0

    async def open(self) -> None:
        """Nothing to open."""

    async def execute(self, scope: Scope, program: Program) -> Execution:
        self.programs.append(program)
        self.scopes.append(scope)
        try:
            if self.holds is not None:
                await self.holds.wait()
        except asyncio.CancelledError:
            self.killed += 1
            raise
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives

    def state(self) -> SandboxState:
        return SandboxState("docker", DONE.image, DONE.limits)

    async def close(self) -> None:
        """Nothing to close."""

    def tool(self, *cannot: str) -> Tool:
        """``execute_code`` over it, with the scan that is always before it."""
        return execute_code_tool(self, partial(scan, allowed_paths=()), 5, cannot)


def done(**changes: object) -> Execution:
    """An execution like DONE but for ``changes``."""
    return replace(DONE, **changes)  # type: ignore[arg-type]
