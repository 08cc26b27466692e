"""Port to where untrusted code runs. One execution, one sandbox: nothing is left of it for the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from devassist.core.scope import Scope

Backend = Literal["docker", "wasi"]


@dataclass(frozen=True, slots=True)
class Program:
    """Python source to run. ``timeout_s`` bounds its running time, not the wait for its turn. ``label`` (hex) marks
    what is made for it, so that leftovers can be told apart."""

    code: str
    timeout_s: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a static scan noticed: ``line`` and ``column`` from 1, the rule's name, and what it is about."""

    line: int
    column: int
    rule: str
    what: str
    blocked: bool


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a program, as evidence. ``stdout`` and ``stderr`` are cut in the middle where ``truncated``;
    ``exit_code`` is negative for a signal (-9: killed). ``image`` names exactly what it ran in (an image digest, or
    name and hash of the WASI component), ``limits`` under what. ``flooded``: killed for having written too much."""

    stdout: str
    stderr: str
    exit_code: int
    duration_ms: int
    timed_out: bool
    oom_killed: bool
    truncated: bool
    backend: Backend
    image: str
    limits: str
    flooded: bool = False


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What runs programs now. ``cannot`` lists what programs cannot do here, for models and people (both languages)."""

    backend: Backend
    image: str
    limits: str
    cannot: tuple[str, ...] = ()
    warm: int = 0


class Sandbox(Protocol):
    """Runs programs one by one or many at a time, each in a sandbox of its own."""

    async def open(self) -> None:
        """Sweep what a dead process left, fill the pool. Raises SandboxUnavailable."""
        ...

    async def execute(self, scope: Scope, program: Program) -> Execution:
        """Run a program to its end, its timeout or its limits; being cancelled kills it within a second.

        Raises SandboxUnavailable (a fault of the service) and Overloaded (too many wait, of this user or in all).
        """
        ...

    def state(self) -> SandboxState | None:
        """None where nothing is chosen yet."""
        ...

    async def close(self) -> None:
        """Kill and remove everything. Idempotent."""
        ...


class SandboxChoice(Sandbox, Protocol):
    """The sandbox of a process, of which it is known early what it is, and why it is none."""

    @property
    def backend(self) -> Backend | None:
        """None where no backend can be used."""
        ...

    @property
    def fault(self) -> str:
        """Why no program can be run now; empty where nothing is known to stand in the way."""
        ...
