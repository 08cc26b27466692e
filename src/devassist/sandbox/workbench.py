"""What a person does with a sandbox: look, build, check, bench, serve. Adapter of ports.sandbox.SandboxTools."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from devassist.core.errors import SandboxUnavailable
from devassist.ports.sandbox import Attempt, Looked, SandboxChoice, SandboxState, Say, Timed
from devassist.sandbox import abuse, bench, image, wasi_build
from devassist.sandbox.engine import Engine
from devassist.sandbox.serve import serve


class Workbench:
    """``used`` makes what the settings name; ``own`` makes the one of this very process, with so many sandboxes kept
    ready (None: as the settings say). ``backend`` is what the settings ask for, ``engine`` the Docker engine's socket,
    ``cache`` where the WASI component lies."""

    def __init__(
        self,
        used: Callable[[], SandboxChoice],
        own: Callable[[int | None], SandboxChoice],
        backend: Literal["auto", "docker", "wasi"],
        engine: Path,
        cache: Path,
    ) -> None:
        self._used, self._own = used, own
        self._backend: Literal["auto", "docker", "wasi"] = backend
        self._engine, self._cache = engine, cache

    async def look(self) -> Looked:
        choice = self._used()
        try:
            await choice.choose()
            return choice.look()
        finally:
            await choice.close()

    async def build(self, say: Say, *, again: bool = False) -> str:
        engine = Engine(self._engine)
        try:
            if self._backend != "wasi":
                try:
                    await engine.open()
                except SandboxUnavailable as error:
                    if self._backend == "docker" or wasi_build.why_unavailable():
                        raise
                    say(f"{error.detail}. So the sandbox's Python is built as WebAssembly")
                else:
                    return await image.build(engine, image.CACHE, say, again=again)
        finally:
            await engine.close()
        made = await wasi_build.component(self._cache, say, again=again)
        os.close(made.file)
        say(f"{made.image} is there")
        return made.image

    async def check(self) -> AsyncGenerator[Attempt | SandboxState]:
        async with _opened(self._used()) as (sandbox, state):
            yield state
            async for one in abuse.check(sandbox):
                yield Attempt(one.abuse.number, one.abuse.name, one.verdict, one.detail, one.duration_ms)

    async def bench(self, programs: int) -> AsyncGenerator[Timed | SandboxState]:
        used = self._used()
        async with _opened(used) as (sandbox, state):
            yield state
            yield await bench.warm(sandbox, programs)
            yield await bench.side_by_side(sandbox, programs)
            remote = sandbox.look().remote
        if remote:
            return
        if state.backend == "wasi":
            yield await bench.reopened(self._own_chosen, programs)
            return
        async with _opened(self._own(0)) as (sandbox, _):
            yield await bench.cold(sandbox, programs)
        async for figure in bench.docker_run(state.image.split()[0], programs):
            yield figure

    async def _own_chosen(self) -> SandboxChoice:
        sandbox = self._own(0)
        await sandbox.choose()
        return sandbox

    async def serve(self, socket: Path, ready: Say) -> None:
        sandbox = self._own(None)

        def told() -> None:
            state = sandbox.state()
            ready("" if state is None else f"{state.backend} {state.image}, {state.limits}")

        await serve(sandbox, socket, told)


@asynccontextmanager
async def _opened(sandbox: SandboxChoice) -> AsyncGenerator[tuple[SandboxChoice, SandboxState]]:
    try:
        await sandbox.choose()
        await sandbox.open()
        state = sandbox.state()
        assert state is not None, "an open sandbox knows what it is"
        yield sandbox, state
    finally:
        await sandbox.close()
