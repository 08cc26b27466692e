"""The sandbox of another process (`devassist sandbox serve`), which alone holds the engine's socket: an adapter of
ports.sandbox.SandboxChoice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from devassist.core.errors import Overloaded, SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Backend, Execution, Looked, Program, SandboxState
from devassist.sandbox import wire

ANSWER_S = 10.0
"""A process that does not greet by then is none that runs programs."""
LATE_S = 180.0
"""How much later than its timeout a program's answer may come: its turn has to come first, and containers are made."""


class RemoteSandbox:
    """A connection for each program. One that cannot be reached is tried again with the next program: the process may
    come later, and may be started anew."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._state: SandboxState | None = None
        self._counts: Mapping[str, int] = {}
        self._fault = ""
        self._closed = False
        self._running: set[asyncio.Task[Execution]] = set()

    async def choose(self) -> None:
        """Ask what it is; that nobody answers yet is told by ``fault``."""
        try:
            await self._greeted()
        except SandboxUnavailable:
            return

    async def open(self) -> None:
        self._closed = False
        await self._greeted()

    @property
    def backend(self) -> Backend | None:
        return None if self._state is None else self._state.backend

    @property
    def fault(self) -> str:
        return self._fault

    @property
    def cannot(self) -> tuple[str, ...]:
        return () if self._state is None else self._state.cannot

    def state(self) -> SandboxState | None:
        return self._state

    def look(self) -> Looked:
        return Looked(self._state, self._fault, remote=True)

    def counted(self) -> Mapping[str, int]:
        """As the other process told with its last answer."""
        return self._counts

    async def execute(self, scope: Scope, program: Program) -> Execution:
        if self._closed:
            raise SandboxUnavailable("The sandbox is closed")
        # A task of its own, for closing has to end it and yet is not a cancellation of its caller.
        task = asyncio.create_task(self._execute(scope, program))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        if task.cancelled():
            raise SandboxUnavailable("The sandbox was closed while it ran a program")
        try:
            done = task.result()
        except SandboxUnavailable as error:
            self._fault = error.detail
            raise
        self._fault = ""
        return done

    async def close(self) -> None:
        self._closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _greeted(self) -> None:
        async with self._connected():
            pass

    async def _execute(self, scope: Scope, program: Program) -> Execution:
        async with self._connected() as (reader, writer):
            try:
                async with asyncio.timeout(program.timeout_s + LATE_S):
                    writer.write(wire.line(wire.request(scope, program)))
                    await writer.drain()
                    data = await reader.readline()
            except TimeoutError:
                raise SandboxUnavailable("The sandbox's process did not answer in time") from None
            except (OSError, ValueError) as error:
                raise SandboxUnavailable(f"The sandbox's process broke off: {error}") from None
        if not data:
            raise SandboxUnavailable("The sandbox's process ended while it ran a program")
        answer = wire.read_answer(data)
        if "execution" not in answer:
            raise _fault(answer)
        self._counts = wire.read_counts(answer)
        return wire.execution(answer["execution"])

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection that was greeted; leaving it ends what it asked for."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket, limit=wire.MOST_ANSWER)
        except OSError as error:
            self._fault = f"Nobody serves {self._socket} ({error.strerror or error}); start 'devassist sandbox serve'"
            raise SandboxUnavailable(self._fault) from None
        try:
            await self._greet(reader)
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _greet(self, reader: asyncio.StreamReader) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                data = await reader.readline()
            answer = wire.read_answer(data)
            if "error" in answer:
                raise _fault(answer)
            self._state, self._counts = wire.read_greeting(answer)
        except SandboxUnavailable as error:
            self._fault = error.detail
            raise
        except (OSError, ValueError, TimeoutError):
            self._fault = f"What serves {self._socket} does not greet as a sandbox does"
            raise SandboxUnavailable(self._fault) from None
        self._fault = ""


def _fault(answer: dict[str, Any]) -> Exception:
    detail = str(answer.get("detail", "it gives no reason"))
    if answer.get("error") == "overloaded":
        return Overloaded(detail)
    return SandboxUnavailable(detail)
