"""Times of the smallest program: how long a caller waits for a sandbox, beside `docker run` on the same machine."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Awaitable, Callable
from statistics import quantiles

from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Program, Sandbox, Timed

PROGRAM = Program("print(1)", 30.0)
AT_ONCE = 32
_USERS = 8
"""Side by side they are several users', for one user's programs take turns."""
_WARM_S = 60.0


async def warm(sandbox: Sandbox, programs: int) -> Timed:
    """Each program finds a sandbox ready, as it does where the last one was a while ago."""

    async def once() -> None:
        await _run(sandbox, 0)

    took: list[float] = []
    for _ in range(programs):
        await _until_warm(sandbox)
        took.append(await _timed(once))
    return _figure("warm", took)


async def cold(sandbox: Sandbox, programs: int) -> Timed:
    """Each program waits for its sandbox to be made: none is kept ready."""
    return _figure("cold", [await _timed(lambda: _run(sandbox, 0)) for _ in range(programs)])


async def reopened(make: Callable[[], Awaitable[Sandbox]], programs: int) -> Timed:
    """Each program is the first of a new sandbox, whose opening counts."""
    took: list[float] = []
    for _ in range(programs):
        sandbox = await make()

        async def first(sandbox: Sandbox = sandbox) -> None:
            await sandbox.open()
            await _run(sandbox, 0)

        try:
            took.append(await _timed(first))
        finally:
            await sandbox.close()
    return _figure("cold", took)


async def side_by_side(sandbox: Sandbox, programs: int) -> Timed:
    """All of them at once, as far as ``AT_ONCE`` goes: what the machine keeps up; waiting counts."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> float:
        async with room:
            return await _timed(lambda: _run(sandbox, number % _USERS))

    begun = time.perf_counter()
    took = await asyncio.gather(*(one(number) for number in range(programs)))
    return _figure("side_by_side", took, programs / (time.perf_counter() - begun))


async def docker_run(image: str, programs: int) -> AsyncGenerator[Timed]:
    """The same program by `docker run`, with no limits but the network; nothing where there is no such command."""
    command = shutil.which("docker")
    if command is None:
        return

    async def once() -> None:
        arguments = ("run", "--rm", "--network", "none", image, "python3", "-c", PROGRAM.code)
        process = await asyncio.create_subprocess_exec(command, *arguments, stdout=DEVNULL, stderr=DEVNULL)
        try:
            if await process.wait() != 0:
                raise SandboxUnavailable(f"'docker run' of {image} ended with {process.returncode}")
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise

    yield _figure("docker_run", [await _timed(once) for _ in range(programs)])


async def _run(sandbox: Sandbox, user: int) -> None:
    done = await sandbox.execute(Scope("default", f"sandbox-bench-{user}"), PROGRAM)
    if done.stdout != "1\n":
        raise SandboxUnavailable(f"The sandbox did not run a program: {done.stderr[-300:]}")


async def _until_warm(sandbox: Sandbox) -> None:
    with contextlib.suppress(TimeoutError):  # one that keeps none ready is timed as it is
        async with asyncio.timeout(_WARM_S):
            while True:
                await sandbox.open()  # another process tells anew how it stands
                state = sandbox.state()
                if state is not None and state.warm:
                    return
                await asyncio.sleep(0.02)


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1000


def _figure(name: str, took: list[float], per_s: float | None = None) -> Timed:
    cuts = quantiles(took, n=20, method="inclusive") if len(took) > 1 else took * 19
    return Timed(name, len(took), cuts[9], cuts[18], per_s)
