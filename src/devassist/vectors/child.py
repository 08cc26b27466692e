"""A worker process as the service holds it: started at the first request, asked, started once more, ended."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from devassist.core.errors import Unavailable
from devassist.vectors.frames import Header, NoFrame, encoded, receive

log = logging.getLogger(__name__)

_END_S = 2.0
_READ = 1 << 16
_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Program:
    """What runs in the child. ``worker`` is a module that calls ``worker.serve``, ``what`` its name for people,
    ``fault`` what is raised when it does not answer. ``idle_s``: how long a process that nobody asks is kept (None: for
    ever).
    ``start_s`` and ``answer_s`` bound its start and an answer; ``rest_s`` passes after a start that failed before
    another one is tried."""

    worker: str
    what: str
    fault: type[Unavailable]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    idle_s: float | None = None
    start_s: float = 60.0
    answer_s: float = 120.0
    rest_s: float = 5.0


@dataclass(slots=True)
class _Asked:
    frame: bytes
    answer: asyncio.Future[tuple[Header, bytes]]


class _Lost(Exception):
    """The process ended instead of answering; the text says how."""


class Child:
    """At most one process, in the loop that asks first. ``close`` must follow."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._waiting: list[tuple[int, int, _Asked]] = []
        self._number = count()
        self._arrived = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._running: _Running | None = None
        self._resting: tuple[float, str] = (0.0, "")
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return self._running.process.pid if self._running else None

    async def ask(self, header: Mapping[str, Any], body: bytes = b"", *, urgent: bool = False) -> tuple[Header, bytes]:
        """The worker's answer. ``urgent`` requests go before others that wait; none interrupts another.

        A request whose process ends under it is made once more, of a new process: requests must bear that. Raises the
        program's fault: the worker refuses, cannot be started, ended twice, or took too long.
        """
        if self._closed:
            raise self._program.fault(f"{self._program.what} is closed")
        try:
            frame = encoded(header, body)
        except TypeError as error:  # half a surrogate pair, a number beyond 64 bits
            raise self._fault(f"cannot be asked that: {error}") from None
        asked = _Asked(frame, asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiting, (not urgent, next(self._number), asked))
        self._arrived.set()
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return await asked.answer

    async def close(self) -> None:
        """End the process, whatever it does; idempotent."""
        self._closed = True
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
        for _, _, asked in self._waiting:
            if not asked.answer.done():
                asked.answer.set_exception(self._program.fault(f"{self._program.what} is closed"))
        self._waiting.clear()
        await self._end()

    async def _serve(self) -> None:
        while True:
            asked = await self._next()
            if asked.answer.done():  # whoever asked was cancelled
                continue
            try:
                answer = await self._answered(asked.frame)
            except asyncio.CancelledError:
                if not asked.answer.done():
                    asked.answer.set_exception(self._program.fault(f"{self._program.what} is closed"))
                raise
            except Exception as error:  # noqa: BLE001
                if not asked.answer.done():
                    asked.answer.set_exception(error)
            else:
                if not asked.answer.done():
                    asked.answer.set_result(answer)

    async def _next(self) -> _Asked:
        while not self._waiting:
            self._arrived.clear()
            try:
                async with asyncio.timeout(self._program.idle_s if self._running else None):
                    await self._arrived.wait()
            except TimeoutError:
                await self._end()
        return heapq.heappop(self._waiting)[2]

    async def _answered(self, frame: bytes) -> tuple[Header, bytes]:
        why = ""
        for _ in range(2):
            running = self._running = self._running or await self._started()
            try:
                async with asyncio.timeout(self._program.answer_s):
                    header, body = await running.exchange(frame)
            except TimeoutError:
                await self._end(kill=True)
                raise self._fault(f"did not answer within {self._program.answer_s:g} s") from None
            except _Lost as error:
                await self._end(kill=True)
                why = f"{error}{running.last_word()}"
                log.warning("A worker process ended", extra={"worker": self._program.worker, "fault": why})
                continue
            if "broken" in header:
                await self._end()
            if "error" in header:
                raise self._fault(f"failed: {header['error']}" if "broken" in header else f"refuses: {header['error']}")
            return header, body
        raise self._fault(f"ended twice under one request: {why}")

    async def _started(self) -> _Running:
        loop = asyncio.get_running_loop()
        until, why = self._resting
        if loop.time() < until:
            raise self._fault(why)
        try:
            return await self._start()
        except _Lost as error:
            why = f"cannot be started: {error}"
        except OSError as error:
            why = f"cannot be started: {error.strerror}"
        self._resting = (loop.time() + self._program.rest_s, why)
        raise self._fault(why)

    async def _start(self) -> _Running:
        running = _Running(await _spawn(self._program), self._program.worker)
        try:
            async with asyncio.timeout(self._program.start_s):
                header, _ = await running.exchange(encoded(self._program.settings))
        except TimeoutError:
            await running.end(kill=True)
            raise _Lost(f"it was not ready within {self._program.start_s:g} s") from None
        except _Lost as error:
            await running.end(kill=True)
            raise _Lost(f"{error}{running.last_word()}") from None
        except BaseException:  # cancelled: no process may stay behind
            await running.end(kill=True)
            raise
        if "error" in header:
            await running.end()
            raise _Lost(header["error"])
        return running

    async def _end(self, *, kill: bool = False) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.end(kill=kill)

    def _fault(self, what: str) -> Unavailable:
        return self._program.fault(f"{self._program.what} {what}")


class _Running:
    """A process with its pipes; ``end`` must follow."""

    def __init__(self, process: Process, worker: str) -> None:
        self.process = process
        self._worker = worker
        self._last = ""
        self._listening = asyncio.create_task(self._listen())

    async def exchange(self, frame: bytes) -> tuple[Header, bytes]:
        """Raises _Lost when the process ends or says what is no frame."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(frame)
            await self.process.stdin.drain()
            return await receive(self.process.stdout)
        except (OSError, RuntimeError, asyncio.IncompleteReadError):  # uvloop: RuntimeError on a closed pipe
            raise _Lost(await self._how_it_ended()) from None
        except NoFrame:
            raise _Lost("it said what is no answer") from None

    async def _how_it_ended(self) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                code = await self.process.wait()
                return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"
        return "it closed its pipes"

    def last_word(self) -> str:
        return f" ({self._last})" if self._last else ""

    async def end(self, *, kill: bool = False) -> None:
        """Close its stdin, which it ends upon; kill it where it does not, or at once."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if kill:
            self._kill()
        gone = asyncio.gather(self.process.wait(), self._drain(), self._listening)
        done, _ = await asyncio.wait({gone}, timeout=_END_S)
        if not done:
            self._kill()
        await gone

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def _drain(self) -> None:
        """Read what nobody waits for any more: a full pipe would hold its end up."""
        assert self.process.stdout is not None
        while await self.process.stdout.read(_READ):
            pass

    async def _listen(self) -> None:
        """Log what it says, line by line and cut; it is given no secret that it could say."""
        assert self.process.stderr is not None
        rest = b""
        while data := await self.process.stderr.read(_READ):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:_READ]
            for line in lines:
                if text := line.decode("utf-8", "replace").strip()[:_LINE_CHARS]:
                    self._last = text
                    log.info("A worker process says", extra={"worker": self._worker, "line": text})


async def _spawn(program: Program) -> Process:
    """It inherits nothing of the environment, which may hold keys of others, and no signal meant for the service."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", program.worker, stdin=PIPE, stdout=PIPE, stderr=PIPE,
        env={"PYTHONPATH": _import_path(), "PYTHONUTF8": "1", **program.environment}, cwd="/", start_new_session=True,
    )  # fmt: skip


def _import_path() -> str:
    return os.pathsep.join(os.path.abspath(each) for each in sys.path if each)
