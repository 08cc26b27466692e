"""Another runtime than the engine's own, which is gVisor for most: named by a setting, and never taken for granted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devassist.bootstrap import chosen_sandbox
from devassist.config import load
from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.docker import DockerSandbox
from devassist.sandbox.image import IMAGE
from devassist.sandbox.policy import Policy
from devassist.sandbox.probe import probe_docker
from tests.sandbox.docker_kit import require_engine

RUNSC = Policy(runtime="runsc")


class StuckEngine:
    """An engine that knows runsc, and whose containers start and never come to anything."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.removed: list[str] = []

    @asynccontextmanager
    async def served(self, socket: Path) -> AsyncGenerator[None]:
        app = web.Application()
        app.router.add_get("/version", self._answer({"ApiVersion": "1.41"}))
        app.router.add_get("/v1.41/info", self._answer({"Runtimes": {"runc": {}, "runsc": {}}}))
        app.router.add_get("/v1.41/images/{name}/json", self._answer({"Id": "sha256:1", "Config": {}}))
        app.router.add_get("/v1.41/containers/json", self._answer([]))
        app.router.add_post("/v1.41/containers/create", self._create)
        app.router.add_post("/v1.41/containers/{name}/attach", self._attach)
        app.router.add_post("/v1.41/containers/{name}/start", self._answer(None))
        app.router.add_delete("/v1.41/containers/{name}", self._remove)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.UnixSite(runner, str(socket)).start()
        try:
            yield
        finally:
            await runner.cleanup()

    def _answer(self, value: object) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(_: web.Request) -> web.Response:
            return web.json_response(value)

        return handler

    async def _create(self, request: web.Request) -> web.Response:
        self.bodies[request.query["name"]] = await request.json()
        return web.json_response({"Id": "1"}, status=201)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=101)
        await answer.prepare(request)
        await asyncio.Event().wait()
        return answer

    async def _remove(self, request: web.Request) -> web.Response:
        self.removed.append(request.match_info["name"])
        return web.Response(status=204)


async def test_a_runtime_that_comes_to_nothing_is_given_up(tmp_path: Path) -> None:
    """It is tried for so long and no longer, its container is removed, and the fault names it and the way out."""
    engine, socket = StuckEngine(), tmp_path / "engine.sock"
    async with engine.served(socket):
        sandbox = DockerSandbox(IMAGE, tmp_path / "work", RUNSC, pool_size=2, socket=socket, proof_s=0.5)
        with pytest.raises(
            SandboxUnavailable, match=r"runtime runsc cannot be used: .* within 0\.5 s.*SANDBOX_RUNTIME"
        ):
            await sandbox.open()
    assert [body["HostConfig"]["Runtime"] for body in engine.bodies.values()] == ["runsc"]
    assert engine.removed == list(engine.bodies)


async def test_a_runtime_that_the_engine_does_not_know(tmp_path: Path, in_ci: bool) -> None:
    """It is told before anything is started, with those that there are; no other one takes its place."""
    await require_engine(in_ci)
    policy = Policy(runtime="no-such-runtime")
    with pytest.raises(SandboxUnavailable, match=r"no runtime no-such-runtime, only .*runc.*daemon\.json"):
        await DockerSandbox(IMAGE, tmp_path / "work", policy).open()


@pytest.mark.parametrize("backend", ["docker", "auto"])
async def test_the_setting_reaches_the_choice(tmp_path: Path, in_ci: bool, backend: str) -> None:
    """Where Docker is insisted on there is a fault that names the runtime; else WebAssembly is taken, and it is told
    why Docker was not."""
    await require_engine(in_ci)
    flags = {"data_dir": str(tmp_path / "data"), "sandbox_backend": backend, "sandbox_runtime": "no-such-runtime"}
    choice = chosen_sandbox(load(flags, {}))
    await choice.choose()
    found = choice.look()
    if backend == "docker":
        assert found.state is None
        assert "no runtime no-such-runtime" in found.fault
    else:
        assert found.state is not None
        assert found.state.backend == "wasi"
        assert "no runtime no-such-runtime" in found.passed


async def test_the_limits_name_the_runtime(tmp_path: Path) -> None:
    """So that the record says under which kernel a program ran; an engine that knows the runtime passes the probe."""
    engine, socket = StuckEngine(), tmp_path / "engine.sock"
    async with engine.served(socket):
        await probe_docker(socket, IMAGE, "runsc")
    assert "runtime=runsc" in DockerSandbox(IMAGE, tmp_path / "work", RUNSC, socket=socket).state().limits
