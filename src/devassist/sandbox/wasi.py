"""The sandbox without an engine: CPython as WebAssembly, in worker processes without privileges."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine
from pathlib import Path

from devassist.core.errors import ConfigInvalid, SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program, SandboxState
from devassist.sandbox.fairness import Bounds, Gate
from devassist.sandbox.output import OUTPUT_BYTES
from devassist.sandbox.stats import Counts
from devassist.sandbox.wasi_build import Component, Say, component, is_built, to_stderr
from devassist.sandbox.wasi_process import Ran, Unloadable, Worker, WorkerLost

log = logging.getLogger(__name__)

MIB = 1 << 20
LEAST_MEMORY = 48 * MIB
"""The interpreter with the standard library takes 29 MiB of it."""
CANNOT = (
    "import packages that are not of Python's standard library: no numpy, pandas, requests, pytest; of the standard "
    "library ssl, ctypes, bz2, lzma are missing / "
    "导入标准库以外的软件包：没有 numpy、pandas、requests、pytest；标准库中没有 ssl、ctypes、bz2、lzma",
    "open files: there is no file system, not even /tmp (io.StringIO and sqlite3 in memory work) / "
    "打开文件：没有文件系统，也没有 /tmp（可用 io.StringIO 和内存中的 sqlite3）",
    "start threads or processes (asyncio works) / 启动线程或进程（asyncio 可用）",
    "open sockets or reach any network / 打开套接字或访问任何网络",
    "read input: stdin is empty / 读取输入：标准输入为空",
    "look up time zones by name: zoneinfo has no data / 按名称查找时区：zoneinfo 没有数据",
    "compute fast: loops take about three times as long as elsewhere / 快速计算：循环耗时约为平常的三倍",
)
"""What programs cannot do here, for models and people."""
_TRIES = 3
_KILLED = -9


class WasiSandbox:
    """Programs get ``memory`` bytes each, the interpreter's own included, and may write ``output`` bytes. The component
    is built under ``cache`` when first needed, of which ``say`` is told. Raises ConfigInvalid for too little memory.

    One worker is kept ready, and more are started as programs run side by side; ``bounds`` limits both.
    """

    def __init__(
        self,
        cache: Path,
        memory: int = 128 * MIB,
        *,
        output: int = OUTPUT_BYTES,
        bounds: Bounds | None = None,
        say: Say = to_stderr,
    ) -> None:
        if memory < LEAST_MEMORY:
            least = f"{LEAST_MEMORY // MIB}m"
            raise ConfigInvalid(f"SANDBOX_MEMORY_LIMIT is {memory} bytes; allowed without Docker is {least} or more")
        self._cache, self._memory, self._output, self._told = cache, memory, output, say
        self.doing = ""
        self._bounds = bounds or Bounds()
        self._gate = Gate(self._bounds)
        self.counts = Counts()
        self._component: Component | None = None
        self._confined = ""
        self._idle: list[Worker] = []
        self._workers: set[Worker] = set()
        self._chores: set[asyncio.Task[None]] = set()
        self._making = False
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Build the component where the cache has none, which may take a minute or two: meanwhile there is
        SandboxUnavailable, which says so."""
        async with self._opening:
            if self._component is None:
                try:
                    await self._open()
                except BaseException:
                    await self.close()
                    raise

    def _say(self, line: str) -> None:
        self.doing = line
        self._told(line)

    async def _open(self) -> None:
        self._component = await component(self._cache, self._say)
        try:
            first = await self._start()
        except Unloadable as error:
            self._say(f"{error.detail}. Building it once more ...")
            os.close(self._component.file)
            self._component = None
            self._component = await component(self._cache, self._say, again=True)
            first = await self._start()
        self._confined = first.confined
        self._idle.append(first)

    async def execute(self, scope: Scope, program: Program) -> Execution:
        asked = time.monotonic()
        async with self._gate.turn((scope.tenant, scope.actor)):
            self.counts.waited_us += round((time.monotonic() - asked) * 1e6)
            for _ in range(_TRIES):
                worker = await self._take()
                try:
                    ran = await worker.run(program.code, program.timeout_s, self._output)
                except WorkerLost:
                    self._dispose(worker)
                    continue
                except asyncio.CancelledError:
                    self.counts.cancelled += 1
                    self.counts.killed += 1
                    self._dispose(worker)
                    raise
                except BaseException:
                    self._dispose(worker)
                    raise
                self._give_back(worker, ran)
                return self._seen(ran)
        raise SandboxUnavailable("Workers end before they get their program")

    def _seen(self, ran: Ran) -> Execution:
        frames, trailer = ran.frames, ran.frames.trailer
        stdout, stderr = frames.stdout.text(), frames.stderr.text()
        timed_out = trailer.timed_out if trailer else ran.overdue
        oom = trailer is not None and trailer.oom > 0
        self.counts.timeouts += timed_out
        self.counts.floods += frames.flooded
        self.counts.oom += oom
        self.counts.killed += timed_out or frames.flooded
        return Execution(
            stdout=stdout,
            stderr=stderr,
            exit_code=trailer.status if trailer else _KILLED,
            duration_ms=round(trailer.wall_us / 1000 if trailer else ran.wall_s * 1000),
            timed_out=timed_out,
            oom_killed=oom,
            truncated=frames.flooded or frames.stdout.omitted + frames.stderr.omitted > 0,
            backend="wasi",
            image=self._image,
            limits=self._limits,
            flooded=frames.flooded,
        )

    def state(self) -> SandboxState:
        image = self._image
        if self._component is None and not is_built(self._cache):
            image += " (not built yet: a start builds it in the background, or 'devassist sandbox build' does)"
        return SandboxState("wasi", image, self._limits, CANNOT, sum(worker.alive for worker in self._idle))

    async def close(self) -> None:
        opened, self._component = self._component, None
        self._idle.clear()
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*(worker.end() for worker in self._workers))
        await asyncio.gather(*self._chores, return_exceptions=True)
        if opened is not None:
            os.close(opened.file)

    def _is_open(self) -> bool:
        return self._component is not None

    @property
    def _image(self) -> str:
        return self._component.image if self._component else "cpython-wasi"

    @property
    def _limits(self) -> str:
        sizes = f"memory={self._memory // MIB}MiB output={self._output // MIB}MiB"
        return f"{sizes} network=none files=none threads=none packages=none {self._confined}".strip()

    async def _start(self) -> Worker:
        if self._component is None:
            making = self._opening.locked()
            raise SandboxUnavailable("The sandbox is being made ready" if making else "The sandbox is not open")
        worker = await Worker.start(self._component.file, self._memory)
        if not self._is_open():
            await worker.end()
            raise SandboxUnavailable("The sandbox was closed")
        self._workers.add(worker)
        return worker

    async def _take(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                self.counts.warm += 1
                return worker
            self._dispose(worker)
        worker = await self._start()
        self.counts.cold += 1
        return worker

    def _give_back(self, worker: Worker, ran: Ran) -> None:
        surplus = len(self._workers) > self._bounds.running
        if ran.frames.trailer is None or self._component is None or surplus:
            self._dispose(worker)
        else:
            self._idle.append(worker)

    def _dispose(self, worker: Worker) -> None:
        """Kill it now, bury it later, and see that one is ready again."""
        worker.kill()
        self._do(self._bury(worker))
        if not (self._idle or self._making or self._component is None):
            self._making = True
            self._do(self._make())

    def _do(self, work: Coroutine[None, None, None]) -> None:
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _bury(self, worker: Worker) -> None:
        await worker.end()
        self._workers.discard(worker)

    async def _make(self) -> None:
        try:
            self._idle.append(await self._start())
        except SandboxUnavailable as error:
            log.warning("No worker could be made ready", extra={"fault": error.detail})
        finally:
            self._making = False
