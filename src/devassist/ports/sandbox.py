"""Port to where untrusted code runs. One execution, one sandbox: nothing is left of it for the next."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from devassist.core.scope import Scope

Backend = Literal["docker", "wasi"]
Say = Callable[[str], None]
"""Takes a line about what goes on, for people."""


@dataclass(frozen=True, slots=True)
class Program:
    """Python source to run. ``timeout_s`` bounds its running time, not the wait for its turn."""

    code: str
    timeout_s: float


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

    @property
    def cannot(self) -> tuple[str, ...]:
        """As ``SandboxState.cannot``, as far as it is known before anything is opened."""
        ...

    async def choose(self) -> None:
        """Find out what it is, before anything else. Nothing is started, and what is missing is told by ``fault``.
        Raises ConfigInvalid for limits that cannot be kept."""
        ...

    def look(self) -> Looked:
        """What was chosen, also before it is open. Raises ConfigInvalid where its limits cannot be kept."""
        ...

    def counted(self) -> Mapping[str, int]:
        """What has been counted since the start, by the names of COUNTED; empty where nothing was."""
        ...


COUNTED = ("warm", "cold", "killed", "timeouts", "floods", "oom", "cancelled", "leaks", "swept", "waited_us")
"""Programs that found a sandbox ready, or waited for one to be made; programs that did not end by themselves, and of
these for their time, their output, memory, or because nobody wanted the result; sandboxes that could not be removed;
leftovers of dead processes, removed at start; microseconds spent waiting for a turn."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look without starting anything found. ``state`` is None where no program can be run, ``fault`` says why;
    ``passed`` why a backend that comes first was not taken. ``remote``: another process runs the programs, so that
    this one needs no engine's socket."""

    state: SandboxState | None
    fault: str = ""
    passed: str = ""
    remote: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One abuse case. ``held``: refused or stopped; ``absent``: nothing of the kind exists here; ``hole``: it got
    through."""

    number: int
    name: str
    verdict: Literal["held", "absent", "hole"]
    detail: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds that programs took, each from being asked for to its result. ``per_s`` is how many came through a
    second, where they ran side by side."""

    name: str
    programs: int
    p50_ms: float
    p95_ms: float
    per_s: float | None = None


class SandboxTools(Protocol):
    """What a person does with the sandbox that the settings name. All raise SandboxUnavailable."""

    async def look(self) -> Looked:
        """What would run programs. Starts and changes nothing; it does not raise. ConfigInvalid where limits cannot
        be kept."""
        ...

    async def build(self, say: Say, *, again: bool = False) -> str:
        """Make what programs run in on this machine, unless it is there; ``again`` makes it anew. Its name."""
        ...

    def check(self) -> AsyncGenerator[Attempt | SandboxState]:
        """Open it, tell what it is, and try each abuse case on it."""
        ...

    def bench(self, programs: int) -> AsyncGenerator[Timed | SandboxState]:
        """Open it, tell what it is, and time it: ``programs`` runs of the smallest program a figure."""
        ...

    async def serve(self, socket: Path, ready: Say) -> None:
        """Run programs for whoever reaches the socket, until SIGTERM or SIGINT; ``ready`` is told what it is."""
        ...
