"""The sandbox on a Docker engine: an adapter of ports.sandbox.Sandbox."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program, SandboxState
from devassist.sandbox import proof
from devassist.sandbox.engine import Engine, EngineError
from devassist.sandbox.fairness import Bounds, Gate
from devassist.sandbox.home import LABEL, OWNER, Home
from devassist.sandbox.policy import CANNOT, Policy, container
from devassist.sandbox.pool import Pool
from devassist.sandbox.probe import unknown_runtime
from devassist.sandbox.slot import Slot, SlotLost
from devassist.sandbox.stats import Counts

log = logging.getLogger(__name__)

SOCKET = Path("/var/run/docker.sock")
PROOF_S = 20.0
"""A container that has not run a small program by then is none to be used."""
_TRIES = 3
_KILLED = -9


class DockerSandbox:
    """One-shot containers of ``image``, ``pool_size`` of them kept ready.

    ``work_dir`` holds the programs on their way in and must have the same path for the engine; several processes may
    share one. A runtime that the policy names is tried for ``proof_s`` when the sandbox is opened. Raises ConfigInvalid
    for a policy that cannot be kept.
    """

    def __init__(
        self,
        image: str,
        work_dir: Path,
        policy: Policy | None = None,
        *,
        pool_size: int = 2,
        bounds: Bounds | None = None,
        socket: Path = SOCKET,
        proof_s: float = PROOF_S,
    ) -> None:
        self._policy: Policy = policy or Policy()
        self._policy.check(socket, work_dir)
        self._bounds = bounds or Bounds()
        self._name = image
        self._image = ""
        self._proof_s = proof_s
        self._home = Home(work_dir)
        self._engine = Engine(socket)
        self._gate = Gate(self._bounds)
        self.counts = Counts()
        self.doing = ""
        self._pool_size = pool_size
        self._pool = self._new_pool()
        self._is_open = False

    def _new_pool(self) -> Pool:
        return Pool(
            self._make,
            self._boot,
            self.counts,
            size=self._pool_size,
            builders=max(1, (os.cpu_count() or 2) // 2),
            backlog=4 * self._bounds.running,
        )

    async def open(self) -> None:
        if self._is_open:
            return
        self._pool = self._new_pool()
        try:
            await self._engine.open()
            self._image = await self._find_image()
            self._home.claim()
            await self._sweep()
            await self._prove()
        except EngineError as error:
            await self.close()
            raise SandboxUnavailable(f"The Docker engine refused: {error.message}") from None
        except BaseException:  # a cancelled opening too leaves no container
            await self.close()
            raise
        self._is_open = True
        self._pool.start()

    async def execute(self, scope: Scope, program: Program) -> Execution:
        asked = time.monotonic()
        async with self._gate.turn((scope.tenant, scope.actor)):
            self.counts.waited_us += round((time.monotonic() - asked) * 1e6)
            if not self._is_open:
                raise SandboxUnavailable("The sandbox is not open")
            return await self._execute(program)

    async def _execute(self, program: Program) -> Execution:
        for _ in range(_TRIES):
            slot = await self._pool.take()
            try:
                await slot.run(program.code, program.timeout_s)
                execution = await self._seen(slot)
            except SlotLost:
                self._pool.dispose(slot)
                continue
            except asyncio.CancelledError:
                self.counts.cancelled += 1
                self.counts.killed += 1
                await asyncio.wait({self._pool.dispose(slot)}, timeout=1)
                raise
            except BaseException:
                self._pool.dispose(slot)
                raise
            self._pool.dispose(slot)
            return execution
        raise SandboxUnavailable("Sandboxes end before they get their program: the Docker engine is going down")

    async def _seen(self, slot: Slot) -> Execution:
        """What a slot that has ended shows. Raises SandboxUnavailable when something outside ended it."""
        if self._pool.closing:
            raise SandboxUnavailable("The sandbox was closed while it ran a program")
        frames, trailer = slot.frames, slot.frames.trailer
        try:
            oom = trailer.oom > 0 if trailer else not frames.flooded and await slot.memory_killed()
        except EngineError as error:
            raise SandboxUnavailable(f"A sandbox ended, and the engine cannot say how: {error.message}") from None
        if trailer is None and not (oom or slot.overdue or frames.flooded or self._policy.runtime):
            # A supervisor cannot be ended by its program, unless another kernel than the host's is between them.
            raise SandboxUnavailable("A sandbox was ended from outside while it ran a program")
        timed_out = trailer.timed_out if trailer else slot.overdue
        stdout, stderr = frames.stdout.text(), frames.stderr.text()
        self.counts.timeouts += timed_out
        self.counts.floods += frames.flooded
        self.counts.oom += oom
        self.counts.killed += timed_out or frames.flooded or oom
        return Execution(
            stdout=stdout,
            stderr=stderr,
            exit_code=trailer.status if trailer else _KILLED,
            duration_ms=round(trailer.wall_us / 1000 if trailer else slot.wall_s * 1000),
            timed_out=timed_out,
            oom_killed=oom,
            truncated=frames.flooded or frames.stdout.omitted + frames.stderr.omitted > 0,
            backend="docker",
            image=self._shown_image(),
            limits=self._policy.text(),
            flooded=frames.flooded,
        )

    def state(self) -> SandboxState:
        return SandboxState("docker", self._shown_image(), self._policy.text(), CANNOT, self._pool.warm)

    async def close(self) -> None:
        self._is_open = False
        await self._pool.close()
        if self._home.owner:
            try:
                await self._remove_all(self._home.owner)
            except (EngineError, SandboxUnavailable) as error:
                log.warning("Sandboxes may be left; the next start removes them", extra={"fault": str(error)})
        self._home.release()
        await self._engine.close()

    def _shown_image(self) -> str:
        return f"{self._name} {self._image}".strip()

    def _make(self) -> Slot:
        return Slot(self._engine, self._home, self._policy.output)

    async def _boot(self, slot: Slot, warm: bool) -> None:
        code = self._home.make(slot.name)
        await slot.boot(container(self._policy, self._image, code, self._home.labels, warm=warm))
        if warm:
            await slot.ready()

    async def _find_image(self) -> str:
        image = await self._engine.image(self._name)
        if image is None:
            raise SandboxUnavailable(
                f"The engine has no image {self._name}: 'devassist sandbox build' makes one without a registry, "
                f"'docker pull {self._name}' fetches one that a registry has"
            )
        if image.volumes:
            raise SandboxUnavailable(
                f"The image {self._name} declares volumes ({', '.join(image.volumes)}): programs could write there"
            )
        return image.id

    async def _sweep(self) -> None:
        """Remove what dead processes left on this engine; others that live keep theirs."""
        for name, labels in (await self._engine.containers(LABEL, self._home.id)).items():
            if not self._home.lives(labels.get(OWNER, "")):
                await self._engine.remove(name)
                self.counts.swept += 1
        self._home.clear_dead()

    async def _remove_all(self, owner: str) -> None:
        for name in await self._engine.containers(OWNER, owner):
            await self._engine.remove(name)

    async def _prove(self) -> None:
        """See that a program is run as it should be. Raises SandboxUnavailable.

        Of another runtime than the engine's own it is not taken for granted that anything comes of a container: gVisor
        starts on some machines and then computes for ever, so that it is killed when its time is over.
        """
        runtime = self._policy.runtime
        if runtime and runtime not in (known := await self._engine.runtimes()):
            raise SandboxUnavailable(unknown_runtime(runtime, known))
        try:
            async with asyncio.timeout(self._proof_s if runtime else None):
                found = await self._execute(Program(proof.PROGRAM, self._proof_s))
        except TimeoutError:
            raise SandboxUnavailable(
                f"The runtime {runtime} cannot be used: nothing came of a small program within {self._proof_s:g} s. "
                "Without SANDBOX_RUNTIME the engine's own runtime is used"
            ) from None
        if fault := proof.fault(found, self._policy):
            by = f" under the runtime {runtime}" if runtime else ""
            raise SandboxUnavailable(
                f"A sandbox was tried{by}, and {fault}. Programs come from {self._home.base}: the engine must see that "
                "directory under this very path"
            )
