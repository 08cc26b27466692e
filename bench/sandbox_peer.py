"""A peer of the sandbox's benchmark, in a Python of its own: it knows nothing of this repository.

One JSON line each way: ``["fresh", program]`` runs a program where none has run before and answers ``{"ms": …,
"result_ms": …}``, with its sandbox given up, and when its output was there;
``["timeout", program]`` lets it run out of time (3 s) and answers how long that took, with the sandbox still there;
``["end"]`` gives the sandbox up as its library does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from importlib import import_module
from time import perf_counter
from typing import Any

IMAGE = os.environ["SANDBOX_BENCH_IMAGE"]
IDLE = "sleep infinity"
TIMEOUT_S = 3
GOT = [0.0]


def got(said: str) -> str:
    """The output is there; what follows is giving the sandbox up."""
    GOT[0] = perf_counter()
    return said


def _module(name: str) -> Any:
    """Each peer's packages are there only where that peer is."""
    return import_module(name)


class DockerPy:
    """The SDK, used as its documentation shows."""

    def __init__(self) -> None:
        self._client: Any = _module("docker").from_env()
        self._left: list[Any] = []

    def fresh(self, program: str) -> str:
        command = ["python3", "-c", program]
        container = self._client.containers.create(IMAGE, command, network_mode="none")
        container.start()
        container.wait()
        said = container.logs(stdout=True, stderr=False).decode() + container.logs(stdout=False, stderr=True).decode()
        got(said)
        container.remove(force=True)
        return said

    def timeout(self, program: str) -> None:
        container = self._client.containers.create(IMAGE, ["python3", "-c", program], network_mode="none")
        container.start()
        self._left.append(container)
        try:
            container.wait(timeout=TIMEOUT_S)
        except Exception:  # noqa: BLE001 (a time-out of its HTTP client, of several types)
            return

    def end(self) -> None:
        for container in self._left:
            container.remove(force=True)


class LlmSandbox:
    def __init__(self) -> None:
        self._open: Any = None

    def _session(self) -> Any:
        given = {"command": IDLE, "network_mode": "none"}
        session: Any = _module("llm_sandbox").SandboxSession(
            lang="python", image=IMAGE, keep_template=True, skip_environment_setup=True, runtime_configs=given
        )
        session.open()
        return session

    def fresh(self, program: str) -> str:
        session = self._session()
        try:
            return got(session.run(program).stdout)
        finally:
            session.close()

    def timeout(self, program: str) -> None:
        self._open = self._session()
        try:
            self._open.run(program, timeout=TIMEOUT_S)
        except Exception:  # noqa: BLE001 (types of its own, which change)
            return

    def end(self) -> None:
        self._open.close()


class Autogen:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._work = tempfile.TemporaryDirectory()
        self._open: Any = None

    async def _start(self) -> Any:
        make: Any = _module("autogen_ext.code_executors.docker").DockerCommandLineCodeExecutor
        executor: Any = make(image=IMAGE, work_dir=self._work.name, timeout=TIMEOUT_S)
        await executor.start()
        return executor

    async def _run(self, executor: Any, program: str) -> str:
        blocks = [_module("autogen_core.code_executor").CodeBlock(code=program, language="python")]
        token = _module("autogen_core").CancellationToken()
        return (await executor.execute_code_blocks(blocks, token)).output

    async def _fresh(self, program: str) -> str:
        executor = await self._start()
        try:
            return got(await self._run(executor, program))
        finally:
            await executor.stop()

    def fresh(self, program: str) -> str:
        return self._loop.run_until_complete(self._fresh(program))

    async def _timeout(self, program: str) -> None:
        self._open = await self._start()
        await self._run(self._open, program)

    def timeout(self, program: str) -> None:
        self._loop.run_until_complete(self._timeout(program))

    def end(self) -> None:
        self._loop.run_until_complete(self._open.stop())


def main(name: str) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    peer: Any = {"docker-py": DockerPy, "llm-sandbox": LlmSandbox, "autogen": Autogen}[name]()
    for line in sys.stdin:
        verb, *args = json.loads(line)
        began = perf_counter()
        said = getattr(peer, verb)(*args)
        took = (perf_counter() - began) * 1000
        if verb == "fresh" and str(said).strip() != "1":
            raise SystemExit(f"{name} said {said!r}")
        print(json.dumps({"ms": took, "result_ms": (GOT[0] - began) * 1000}), file=out, flush=True)
    os._exit(0)  # one of them patches the closing of loops, and not for the best


if __name__ == "__main__":
    main(sys.argv[1])
