"""Which backend runs programs: the first that could, opened when it is first needed. Adapter of ports.sandbox.Sandbox.

The choice is made once, so that what models are told of the sandbox stays true: a backend that fails later is a fault
of the service, and no other takes its place behind anybody's back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from time import monotonic
from typing import NamedTuple, Protocol

from devassist.core.errors import SandboxStarting, SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Backend, Execution, Looked, Program, Sandbox, SandboxState
from devassist.sandbox.stats import Counts

AGAIN_S = 10.0
"""How long a failure to open stands before it is tried again."""
PATIENCE_S = 10.0
"""How long a program waits for an opening that goes on already: of containers it takes moments, of WebAssembly longer
where it has to be built first."""


class CountingSandbox(Sandbox, Protocol):
    """``doing``: what its opening is at, for people; empty where it says nothing."""

    counts: Counts
    doing: str


class Candidate(NamedTuple):
    """A backend that may be there. ``probe`` raises SandboxUnavailable where it is not; it is cheap and starts nothing.
    ``cannot``: what its programs cannot do, for models and people."""

    backend: Backend
    cannot: tuple[str, ...]
    probe: Callable[[], Awaitable[None]]
    make: Callable[[], CountingSandbox]


class ChosenSandbox:
    """``await choose()`` before anything else; then ``open`` early, or let the first program do it."""

    def __init__(self, candidates: Sequence[Candidate], patience_s: float = PATIENCE_S) -> None:
        self._candidates = tuple(candidates)
        self._chosen: Candidate | None = None
        self._sandbox: CountingSandbox | None = None
        self._made: CountingSandbox | None = None  # while it is being opened
        self._opening = asyncio.Lock()
        self._patience_s = patience_s
        self._failed_at = -AGAIN_S
        self._fault = "No backend is allowed."
        self._passed = ""

    async def choose(self) -> None:
        """Raises ConfigInvalid where the chosen one cannot keep the limits that it is given."""
        faults: list[str] = []
        for candidate in self._candidates:
            try:
                await candidate.probe()
            except SandboxUnavailable as error:
                faults.append(f"{candidate.backend}: {error.detail}")
                continue
            candidate.make()  # what is wrong with its limits is said now, not to the first program
            self._chosen, self._fault, self._passed = candidate, "", " ".join(faults)
            return
        self._fault = " ".join(faults) or self._fault

    @property
    def fault(self) -> str:
        """Why no program can be run now; empty where nothing is known to stand in the way."""
        return self._ready_soon() or self._fault

    def _ready_soon(self) -> str:
        """That it is being opened, and how far that is; empty when it is not."""
        if self._made is None or self._chosen is None:
            return ""
        doing = f": {self._made.doing}" if self._made.doing else ""
        return f"{self._chosen.backend}: it is being made ready{doing}"

    @property
    def backend(self) -> Backend | None:
        return None if self._chosen is None else self._chosen.backend

    @property
    def cannot(self) -> tuple[str, ...]:
        return () if self._chosen is None else self._chosen.cannot

    def look(self) -> Looked:
        """What was chosen, before or after it is open; nothing is started. Raises ConfigInvalid where its limits cannot
        be kept."""
        sandbox = self._sandbox or (None if self._chosen is None else self._chosen.make())
        return Looked(sandbox.state() if sandbox else None, self._fault, self._passed)

    async def open(self) -> None:
        """Idempotent; calls at the same time open once. Raises SandboxUnavailable."""
        async with self._opening:
            if self._sandbox is not None:
                return
            if self._chosen is None or monotonic() - self._failed_at < AGAIN_S:
                raise SandboxUnavailable(f"No sandbox can be used. {self._fault}")
            sandbox = self._made = self._chosen.make()
            try:
                await sandbox.open()
            except SandboxUnavailable as error:
                self._fault, self._failed_at = f"{self._chosen.backend}: {error.detail}", monotonic()
                raise
            finally:
                self._made = None
            self._sandbox, self._fault = sandbox, ""

    async def execute(self, scope: Scope, program: Program) -> Execution:
        if self._sandbox is None:
            await self._open_for_one()
        assert self._sandbox is not None, "opening makes one or raises"
        try:
            done = await self._sandbox.execute(scope, program)
        except SandboxUnavailable as error:
            self._fault = error.detail
            raise
        self._fault = ""
        return done

    async def _open_for_one(self) -> None:
        """Open it, or wait for who is at that, but not for long: a program is better told than left without a word."""
        if self._made is None:
            await self.open()
            return
        try:
            async with asyncio.timeout(self._patience_s):
                await self.open()
        except TimeoutError:
            raise SandboxStarting(f"{self.fault}. Try again in a minute") from None

    def counted(self) -> Mapping[str, int]:
        return {} if self._sandbox is None else asdict(self._sandbox.counts)

    def state(self) -> SandboxState | None:
        """None while it is not open."""
        return None if self._sandbox is None else self._sandbox.state()

    async def close(self) -> None:
        async with self._opening:
            sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.close()
