"""One container for one program: made, given its program, read until the end, thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Mapping
from typing import Any

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.engine import Attached, Engine, EngineError
from devassist.sandbox.home import Home
from devassist.sandbox.output import Frames

BOOT_S = 60.0
"""A container that is not ready by then never will be; busy machines take seconds."""
GRACE_S = 1.5
"""The supervisor ends a program on time; one that is still there so much later is ended from outside."""
_STOP_S = 10.0
_END_S = 1.0


class SlotLost(Exception):
    """The container was gone before it got the program: another one can run it."""


class Slot:
    """A container by ``name``. ``frames`` is what it wrote; ``overdue``: it had to be killed from outside."""

    def __init__(self, engine: Engine, home: Home, most_bytes: int) -> None:
        self.name = f"devassist-{home.owner}-{secrets.token_hex(8)}"
        self.frames: Frames
        self.overdue = False
        self.wall_s = 0.0
        self._engine = engine
        self._home = home
        self._nonce = secrets.token_hex(32)
        self.frames = Frames(self._nonce.encode(), most_bytes)
        self._attached: Attached | None = None

    async def boot(self, body: Mapping[str, Any]) -> None:
        """Create and start it; whatever became of that, ``remove`` cleans up.

        Raises SandboxUnavailable and EngineError.
        """
        await self._engine.create(self.name, body)
        self._attached = await self._engine.attach(self.name)
        await self._engine.start(self.name)

    async def ready(self) -> None:
        """Wait for the supervisor's first word."""
        try:
            async with asyncio.timeout(BOOT_S):
                while not self.frames.ready and await self._read():
                    pass
        except TimeoutError:
            raise SandboxUnavailable(f"A sandbox was not ready within {BOOT_S:.0f} s") from None
        if not self.frames.ready:
            self.frames.finish()
            said = " ".join((self.frames.stderr.text() or self.frames.stdout.text()).split())[-300:]
            raise SandboxUnavailable(f"The sandbox's image cannot run programs: {said or 'it ended without a word'}")

    @property
    def gone(self) -> bool:
        return self._attached is None or self._attached.over

    async def run(self, code: str, timeout_s: float) -> None:
        """Run the program to its end or to what ends it. Raises SandboxUnavailable, and SlotLost."""
        assert self._attached is not None
        self._home.write(self.name, code)
        try:
            await self._attached.send(f"{self._nonce} {timeout_s:.3f}\n".encode())
        except OSError:
            raise SlotLost from None
        await self.ready()
        begun = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s + GRACE_S):
                await self._read_on()
        except TimeoutError:
            self.overdue = True
        if self.overdue or self.frames.flooded:
            await self._stop()
        self.frames.finish()
        self.wall_s = time.monotonic() - begun

    async def _stop(self) -> None:
        """Kill it, and read on meanwhile: an engine whose stream is not read does not get to killing.

        Raises SandboxUnavailable when the engine does not do it: what is not known to have ended did not end.
        """
        kill = asyncio.create_task(self._engine.kill(self.name))
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    while not self.frames.ended and await self._read():
                        pass
                    await kill
                    return
        except EngineError as error:
            raise SandboxUnavailable(f"The engine could not kill a sandbox: {error.message}") from None
        finally:
            kill.cancel()
        raise SandboxUnavailable("The engine did not kill a sandbox in time")

    async def _read_on(self) -> None:
        while not (self.frames.ended or self.frames.flooded) and await self._read():
            pass

    async def _read(self) -> bool:
        """Take in some bytes; whether there were any."""
        assert self._attached is not None
        data = await self._attached.read()
        self.frames.feed(data)
        return bool(data)

    async def memory_killed(self) -> bool:
        """Whether it ended by the kernel's hand, for memory, before its supervisor could say so."""
        for _ in range(40):
            state = await self._engine.state(self.name)
            if state.oom_killed:
                return True
            if not state.running:
                return False
            await asyncio.sleep(0.05)
        return False

    def close(self) -> None:
        """End the connection: what still runs is killed by its supervisor. One that has said its last is left alone."""
        if not self.frames.ended:
            self._hang_up()

    async def remove(self) -> None:
        """Kill and remove. Raises EngineError and SandboxUnavailable when that failed."""
        if self.frames.ended:
            await self._end()
        self._hang_up()
        await self._engine.remove(self.name)
        self._home.drop(self.name)

    async def _end(self) -> None:
        """Let a container that is done come to its end: one that has to be killed costs the engine a process more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                while self._attached is not None and await self._attached.read():
                    pass

    def _hang_up(self) -> None:
        if self._attached is not None:
            self._attached.close()
