"""One worker process as the service holds it: started, handed programs one by one, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.output import Frames

START_S = 60.0
"""A worker that is not ready by then never will be; busy machines take seconds."""
GRACE_S = 2.0
"""A program is ended on time wherever it computes; one that waits in a call of the host is killed so much later."""
UNLOADABLE = 3
"""The exit code of a worker that cannot load the component."""
_DYING_S = 1.0
_READ = 1 << 16
_WORKER = "from devassist.sandbox.wasi_worker import main; main()"


def command(*arguments: str, code: str = _WORKER) -> list[str]:
    """How to start a Python that has this process's packages and nothing of its environment."""
    path = "\n".join(os.path.abspath(each) for each in sys.path if each)
    begin = f"import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); {code}"
    return [sys.executable, "-I", "-X", "utf8", "-c", begin, path, *arguments]


class Unloadable(SandboxUnavailable):
    """The component was not compiled for this processor, or with other options."""


class WorkerLost(Exception):
    """It was gone before it began with the program: another one can run it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a program. Without a trailer in ``frames`` it was killed, with its worker; ``overdue``: for its
    time."""

    frames: Frames
    wall_s: float
    overdue: bool = False


class Worker:
    """A running worker. Made by ``start``; ``end`` must follow. ``confined`` says what confines it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reading = asyncio.Lock()
        self._is_killed = False
        self.confined = ""

    @classmethod
    async def start(cls, component: int, memory: int) -> Worker:
        """Load the component that is open as this file; programs get ``memory`` bytes each.

        Raises SandboxUnavailable with what the worker said when it does not come up; Unloadable is one.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command("serve", str(component), str(memory)), stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}, cwd="/",
                pass_fds=(component,), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise SandboxUnavailable(f"A worker cannot be started: {error.strerror}") from None
        worker = cls(process)
        try:
            async with asyncio.timeout(START_S):
                worker.confined = (await worker._out.readline()).decode().strip()
        except TimeoutError:
            await worker.end()
            raise SandboxUnavailable(f"A worker was not ready within {START_S:.0f} s") from None
        except BaseException:
            await worker.end()
            raise
        if not worker.confined:
            said = await worker.end()
            fault = Unloadable if process.returncode == UNLOADABLE else SandboxUnavailable
            raise fault(f"A worker cannot run programs: {said or 'it ended without a word'}")
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._out.at_eof()

    @property
    def _out(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    async def run(self, code: str, timeout_s: float, most_bytes: int) -> Ran:
        """Run a program to its end or to what ends it; whoever does not get a trailer ends the worker.

        Raises WorkerLost, and SandboxUnavailable when something else ended the worker meanwhile.
        """
        source = code.encode("utf-8", "replace")
        nonce = secrets.token_hex(16).encode()
        frames = Frames(nonce, most_bytes)
        begun = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s + GRACE_S), self._reading:
                await self._send(b"%s %.3f %d\n%s" % (nonce, timeout_s, len(source), source))
                while not (frames.ended or frames.flooded) and (data := await self._out.read(_READ)):
                    frames.feed(data)
        except TimeoutError:
            return _killed(self, frames, begun, overdue=True)
        if frames.ended:
            return Ran(frames, time.monotonic() - begun)
        if frames.flooded:
            return _killed(self, frames, begun)
        if frames.ready:
            raise SandboxUnavailable("A worker was ended from outside while it ran a program")
        raise WorkerLost

    async def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except OSError:
            raise WorkerLost from None

    def kill(self) -> None:
        """End it now, unless it ends by itself: killing looks whether it lives, and may take its exit code away from
        whoever waits for that."""
        if not self._out.at_eof():
            self._kill()

    def _kill(self) -> None:
        if self._is_killed:
            return
        self._is_killed = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> str:
        """Kill it, and wait until it is gone; idempotent. Returns what it said of itself last."""
        self.kill()
        if self._out.at_eof():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DYING_S):
                    await self._process.wait()
            self._kill()
        async with self._reading:
            _, said = await self._process.communicate()  # reads on: a pipe that nobody empties would hold its end up
        return said.decode("utf-8", "replace").strip()[-500:]


def _killed(worker: Worker, frames: Frames, begun: float, *, overdue: bool = False) -> Ran:
    worker.kill()
    frames.finish()
    return Ran(frames, time.monotonic() - begun, overdue)
