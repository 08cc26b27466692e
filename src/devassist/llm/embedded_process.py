"""The embedded model's process as the service holds it: started, asked whether it lives, ended.

Its socket lies in a directory of mode 0700 and asks for a random key, so that neither another user nor a web page of
this one reaches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devassist.core.errors import ProviderError
from devassist.llm.endpoint import UNREACHABLE

_START_S = 60.0
_TERM_S = 3.0
_PATH_BYTES = 100
"""A Unix socket's address holds 104 bytes (108 on Linux), the final one among them zero."""
_SOCKET, _ERRORS = "s.sock", "stderr"
"""Without its ending llama.cpp would take the name of the socket for a host's."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the process is told. ``context`` is the tokens of one of the ``slots``, prompt and reply together;
    ``batch`` the tokens of a prompt that are read in one go, which nothing interrupts."""

    gguf: str
    name: str
    slots: int
    context: int
    threads: int
    batch: int = 256


@dataclass(slots=True)
class ServerProcess:
    """A running server. Made by ``start``; ``stop`` must follow."""

    socket: str
    key: str = field(repr=False)
    _process: Process = field(repr=False)

    @classmethod
    async def start(cls, settings: Settings) -> ServerProcess:
        """Returns once it can be asked. Raises ProviderError ``provider_unreachable``, retryable, when it does not
        come up."""
        directory = _private_directory()
        try:
            return await cls._started(settings, directory)
        except BaseException:  # cancelled too: the key's directory must not stay
            shutil.rmtree(directory, ignore_errors=True)
            raise

    @classmethod
    async def _started(cls, settings: Settings, directory: Path) -> ServerProcess:
        server = cls(str(directory / _SOCKET), secrets.token_urlsafe(32), await _spawn(directory))
        try:
            told = json.dumps(asdict(settings) | {"socket": server.socket, "key": server.key})
            answered = await server._told(told.encode() + b"\n")
        except BaseException:  # cancelled too: no process may stay behind
            await server.stop()
            raise
        if answered == b"ready\n":
            return server
        why = _last_line(directory)
        await server.stop()
        raise ProviderError(f"The embedded model did not start: {why}", code=UNREACHABLE, retryable=True)

    async def _told(self, line: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_START_S):
                self._process.stdin.write(line)
                await self._process.stdin.drain()
                return await self._process.stdout.readline()
        return b""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ended(self, within_s: float) -> bool:
        """Whether it has ended, or does so soon: a lost connection is seen before the end of the process."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._process.wait()
        return not self.alive

    async def stop(self) -> None:
        """End it and remove its directory; idempotent."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            if not await self.ended(_TERM_S):
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(Path(self.socket).parent, ignore_errors=True)


async def _spawn(directory: Path) -> Process:
    """It inherits nothing of the environment, which may hold keys of others, and no signal meant for the service: that
    one ends its runs first."""
    with open(directory / _ERRORS, "wb") as errors:  # noqa: ASYNC230
        return await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "devassist.llm.embedded_server", stdin=PIPE, stdout=PIPE, stderr=errors,
            env={"PYTHONPATH": _import_path()}, cwd=directory.anchor, start_new_session=True,
        )  # fmt: skip


def _import_path() -> str:
    return os.pathsep.join(os.path.abspath(each) for each in sys.path if each)


def _private_directory() -> Path:
    """Of mode 0700, as mkdtemp makes it, and short enough for the address of a socket."""
    for parent in (None, "/tmp"):
        directory = Path(tempfile.mkdtemp(prefix="devassist-", dir=parent))
        if len(os.fsencode(directory / _SOCKET)) <= _PATH_BYTES:
            return directory
        directory.rmdir()
    raise ProviderError("The paths of temporary directories are too long for a socket", code=UNREACHABLE)


def _last_line(directory: Path) -> str:
    try:
        lines = (directory / _ERRORS).read_text("utf-8", "replace").split("\n")
    except OSError:
        lines = []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it gave no reason")
