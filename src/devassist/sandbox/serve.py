"""`devassist sandbox serve`: the process that holds the engine's socket, and runs programs for whoever reaches its own.

Who may is who owns the socket's directory, which nobody else can enter. What can be asked is wire.py's one verb.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devassist.core.errors import Overloaded, SandboxUnavailable
from devassist.ports.sandbox import SandboxChoice
from devassist.sandbox import wire

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
REQUEST_S = 10.0
"""A peer that has not said by then what it wants is let go."""
_ANSWER_S = 10.0


class SandboxServer:
    """Serves an open sandbox on ``path``. Not reentrant: ``open`` once, ``close`` once."""

    def __init__(self, sandbox: SandboxChoice, path: Path) -> None:
        self._sandbox = sandbox
        self._path = path.absolute()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Raises SandboxUnavailable where the socket cannot be had or others could reach it."""
        try:
            owner = _private(self._path.parent)
            if await _answers(self._path):
                raise SandboxUnavailable(f"Another process serves {self._path}")
            self._server = await asyncio.start_unix_server(self._connected, self._path, limit=wire.MOST_REQUEST)
            self._path.chmod(0o600)
            if owner != os.geteuid():
                os.chown(self._path, owner, -1)  # a root that serves the directory's owner
        except OSError as error:
            raise SandboxUnavailable(f"{self._path} cannot be listened on: {error.strerror or error}") from None

    async def close(self) -> None:
        """Listen no more, and end what runs."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._talk(reader, writer)
            writer.close()
        except (OSError, asyncio.CancelledError):
            pass  # the end of this connection alone, also when the server ends
        finally:
            self._connections.discard(task)
            if not writer.is_closing():
                writer.transport.abort()  # nothing is kept for whoever does not read it

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) > MOST_CONNECTIONS:
            await _send(writer, {"error": "overloaded", "detail": "too many connections"})
            return
        state = self._sandbox.state()
        if state is None:
            await _send(writer, {"error": "sandbox_unavailable", "detail": self._sandbox.fault or "it is not open"})
            return
        await _send(writer, wire.greeting(state, dict(self._sandbox.counted())))
        try:
            async with asyncio.timeout(REQUEST_S):
                data = await reader.readline()
            if not data:
                return  # somebody looked
            scope, program = wire.read_request(data)
        except ValueError as error:
            log.warning("A request was refused", extra={"fault": str(error)})
            await _send(writer, {"error": "refused", "detail": str(error)})
            return
        work = asyncio.create_task(self._sandbox.execute(scope, program))
        gone = asyncio.create_task(reader.read(1))  # nothing more is to come: whatever comes, it is over
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await _send(writer, self._answer(work))
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    def _answer(self, work: asyncio.Task[Any]) -> dict[str, Any]:
        try:
            done = work.result()
        except Overloaded as error:
            return {"error": "overloaded", "detail": error.detail}
        except SandboxUnavailable as error:
            return {"error": "sandbox_unavailable", "detail": error.detail}
        return {"execution": wire.plain(done), "counts": dict(self._sandbox.counted())}


async def serve(sandbox: SandboxChoice, path: Path, ready: Callable[[], None]) -> None:
    """Open the sandbox and serve it until SIGTERM or SIGINT. Raises SandboxUnavailable."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, over.set)
    server = SandboxServer(sandbox, path)
    try:
        await sandbox.choose()
        opening = asyncio.create_task(sandbox.open())
        waiting = asyncio.create_task(over.wait())
        await asyncio.wait({opening, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not opening.done():
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            return
        opening.result()
        await server.open()
        ready()
        await over.wait()
    finally:
        await server.close()
        await sandbox.close()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(sign)


def _private(directory: Path) -> int:
    """Make it, or see that it is nobody's but its owner's, who is told. Raises SandboxUnavailable and OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = directory.stat()
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise SandboxUnavailable(
            f"{directory} has mode {stat.S_IMODE(about.st_mode):04o}: whoever reaches the socket may run programs, so "
            f"its directory is its owner's alone (chmod 700 {directory})"
        )
    if about.st_uid != os.geteuid() != 0:
        raise SandboxUnavailable(f"{directory} belongs to another user")
    return about.st_uid


async def _answers(path: Path) -> bool:
    """Whether somebody listens there: a file that a dead process left is not in the way."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


async def _send(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    async with asyncio.timeout(_ANSWER_S):
        writer.write(wire.line(value))
        await writer.drain()
