"""Parsing in a process of its own: what a file does to its parser, it does to that one.

One child serves file after file. It is ended when a file takes too long, and replaced when it ended for whatever
reason; the file that ended it is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import asdict
from typing import Self

import orjson

from devassist.core.errors import Unavailable
from devassist.knowledge.parsing.document import READY, TAKEN, Limits, ParsedDocument, Quarantine, from_wire

START_S = 60.0
"""A child that is not ready by then never will be; busy machines take seconds."""
_MAIN = "from devassist.knowledge.parsing.child import main; main()"
_LAST_WORDS = 2000
_TRIES = 3
_DYING_S = 5.0  # a child whose output ended is about to end itself, and its exit code says why


class ParserProcess:
    """Parses files one after the other. Nothing runs until the first file; ``close`` ends what runs."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._turn = asyncio.Lock()
        self._child: _Child | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        return self._child.process.pid if self._child is not None else None

    async def parse(self, data: bytes, name: str) -> ParsedDocument | Quarantine:
        """The document that ``data`` is, or why there is none; no file can make it raise.

        Raises Unavailable when no child can be started. Cancelling it ends the child.
        """
        if len(data) > self._limits.file_bytes:
            return Quarantine(
                "too_large", f"The file has {len(data)} bytes; at most {self._limits.file_bytes} are read."
            )
        async with self._turn:
            for _ in range(_TRIES):
                child = await self._ready()
                try:
                    return await self._ask(child, data, name)
                except _NotTaken:
                    continue
            return Quarantine("crashed", "Its parser ended several times before it had taken the file in.")

    async def close(self) -> None:
        """End the child, whatever it does."""
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    async def _ready(self) -> _Child:
        if self._child is None or not self._child.alive:
            await self.close()
            self._child = await _Child.start()
        return self._child

    async def _ask(self, child: _Child, data: bytes, name: str) -> ParsedDocument | Quarantine:
        head = orjson.dumps({"name": name, "limits": asdict(self._limits)})
        try:
            async with asyncio.timeout(self._limits.wall_s):
                reply = await child.ask(head, data)
        except TimeoutError:
            await self.close()
            return Quarantine("timeout", f"Reading it took longer than {self._limits.wall_s:g} s.")
        except BaseException:
            await self.close()  # it may be in the middle of a file: its next word would be about that one
            raise
        if reply is not None:
            return from_wire(orjson.loads(reply))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.process.wait(), _DYING_S)
        words = await child.end()
        self._child = None
        return _why(child.process.returncode, words, self._limits)


class _NotTaken(Exception):
    """The child was gone before it had the file: it had no work for long, or something else ended it."""


class _Child:
    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in, self._out = process.stdin, process.stdout
        self._words = b""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls) -> _Child:
        begin = f"import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); {_MAIN}"
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-X", "utf8", "-c", begin, _import_path(), stdin=PIPE, stdout=PIPE, stderr=PIPE,
                env={}, cwd="/", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Unavailable(f"The parser cannot be started: {error.strerror}") from None
        child = cls(process)
        try:
            async with asyncio.timeout(START_S):
                ready = await child._frame()
        except TimeoutError:
            ready = None
        except BaseException:
            await child.end()
            raise
        if ready != READY:
            raise Unavailable(f"The parser does not start: {await child.end() or 'it ended without a word'}")
        return child

    @property
    def alive(self) -> bool:
        return self.process.returncode is None and not self._out.at_eof()

    async def ask(self, head: bytes, data: bytes) -> bytes | None:
        """The reply; None when the child ended over it. Raises _NotTaken when it ended before that."""
        with contextlib.suppress(ConnectionError):
            for part in (head, data):
                self._in.write(len(part).to_bytes(4, "little"))
                self._in.write(part)
            await self._in.drain()
        if await self._frame() != TAKEN:
            await self.end()
            raise _NotTaken
        return await self._frame()

    async def end(self) -> str:
        """Kill it and wait for it; returns the last that it said."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await self.process.wait()
        self._in.close()
        with contextlib.suppress(ConnectionError):
            await self._in.wait_closed()
        await self._listening
        return self._words.decode("utf-8", "replace").strip()

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        while more := await self.process.stderr.read(4096):
            self._words = (self._words + more)[-_LAST_WORDS:]

    async def _frame(self) -> bytes | None:
        try:
            head = await self._out.readexactly(4)
            return await self._out.readexactly(int.from_bytes(head, "little"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


def _import_path() -> str:
    return "\n".join(os.path.abspath(each) for each in sys.path if each)


def _why(returncode: int | None, words: str, limits: Limits) -> Quarantine:
    """What a child that ended within a file died of."""
    code = returncode or 0
    if code == -signal.SIGXCPU:
        return Quarantine("timeout", f"Reading it took more than {limits.cpu_s} s of processor time.")
    if code == -signal.SIGKILL:
        return Quarantine("memory", "Its parser was killed, as a system does that runs out of memory.")
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    last = words.splitlines()[-1] if words else "without a word"
    return Quarantine("crashed", f"Its parser ended by {how}: {last}")
