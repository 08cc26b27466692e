"""How programs and workers end on the WebAssembly backend, and that nothing is left of either."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.wasi_process import GRACE_S
from tests.sandbox.wasi_kit import lives, opened, run, status, until_gone, workers

pytestmark = pytest.mark.asyncio(loop_scope="session")

_HOST_WAIT = "import select\nprint('before')\nselect.select([], [], [], 100)"
_ROOT = Path(__file__).parents[2]


async def until_busy(task: asyncio.Task[object]) -> None:
    await asyncio.wait({task}, timeout=0.7)
    assert not task.done()


async def test_a_wait_in_the_host_is_killed_with_its_worker(wasi_cache: Path) -> None:
    """Nothing in WebAssembly could end it; what was printed is kept, and another worker takes over."""
    before = workers()
    async with opened(wasi_cache) as sandbox:
        (worker,) = workers() - before
        begun = time.monotonic()
        done = await run(sandbox, _HOST_WAIT, 0.5)
        assert 0.5 + GRACE_S - 0.1 <= time.monotonic() - begun < 0.5 + GRACE_S + 5
        assert (done.timed_out, done.exit_code, done.stdout) == (True, -9, "before\n")
        assert await until_gone({worker}, 5) == set()
        assert (await run(sandbox, "print(1)")).stdout == "1\n"
        assert (sandbox.counts.timeouts, sandbox.counts.killed) == (1, 1)


async def test_a_timeout_leaves_the_worker_alive(wasi_cache: Path) -> None:
    """Neither a loop nor a sleep costs a process."""
    before = workers()
    async with opened(wasi_cache) as sandbox:
        mine = workers() - before
        for code in ("while True: pass", "import time; time.sleep(100)"):
            done = await run(sandbox, code, 0.3)
            assert done.timed_out
            assert done.duration_ms < 300 + GRACE_S * 1000
        assert workers() - before == mine


async def test_cancelling_kills_within_a_second(wasi_cache: Path) -> None:
    """Whatever the program does: the process is gone, not only forgotten."""
    for code in ("while True: pass", _HOST_WAIT):
        before = workers()
        async with opened(wasi_cache) as sandbox:
            mine = workers() - before
            task = asyncio.create_task(run(sandbox, code))
            await until_busy(task)
            task.cancel()
            begun = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await until_gone(mine, 5) == set()
            assert time.monotonic() - begun < 3
            assert (await run(sandbox, "print(1)")).stdout == "1\n"
            assert sandbox.counts.cancelled == 1


async def test_a_worker_that_died_idle_is_replaced(wasi_cache: Path) -> None:
    """Nobody notices."""
    before = workers()
    async with opened(wasi_cache) as sandbox:
        (worker,) = workers() - before
        os.kill(worker, signal.SIGKILL)
        assert (await run(sandbox, "print(1)")).stdout == "1\n"
        await until_gone({worker}, 5)
        assert (await run(sandbox, "print(2)")).stdout == "2\n"


async def test_a_worker_that_is_killed_from_outside_is_a_fault_of_the_service(wasi_cache: Path) -> None:
    """Not the program's doing, so not its result; the next one runs."""
    before = workers()
    async with opened(wasi_cache) as sandbox:
        (worker,) = workers() - before
        task = asyncio.create_task(run(sandbox, "while True: pass"))
        await until_busy(task)
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(SandboxUnavailable, match="ended from outside"):
            await task
        assert (await run(sandbox, "print(1)")).stdout == "1\n"


async def test_closing_leaves_no_process(wasi_cache: Path) -> None:
    """Idle ones, busy ones, and those that were being started."""
    before, files = workers(), len(os.listdir("/proc/self/fd"))
    async with opened(wasi_cache) as sandbox:
        tasks = [asyncio.create_task(run(sandbox, "while True: pass")) for _ in range(2)]
        await asyncio.wait(tasks, timeout=0.05)
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(ended, SandboxUnavailable), ended
    assert await until_gone(workers() - before, 5) == set()
    assert len(os.listdir("/proc/self/fd")) <= files


async def test_workers_are_as_many_as_run_side_by_side(wasi_cache: Path) -> None:
    """No more than the bounds allow, and they are used again."""
    before = workers()
    async with opened(wasi_cache) as sandbox:
        await asyncio.gather(*(run(sandbox, "import time; time.sleep(0.2)") for _ in range(6)))
        assert len(workers() - before) == 2
        assert (sandbox.counts.cold, sandbox.counts.warm) == (1, 5)


async def test_a_killed_service_leaves_nothing(wasi_cache: Path) -> None:
    """Not even while an endless program runs; also under the event loop that the service uses."""
    code = f"""
        import asyncio, uvloop, sys
        sys.path.insert(0, {str(_ROOT)!r})
        from pathlib import Path
        from tests.sandbox.wasi_kit import opened, run, workers
        async def main():
            async with opened(Path({str(wasi_cache)!r})) as sandbox:
                assert (await run(sandbox, "print(6 * 7)")).stdout == "42\\n"
                loop = asyncio.create_task(run(sandbox, "while True: pass"))
                await asyncio.sleep(0.5)
                print(*workers(), flush=True)
                await loop
        uvloop.run(main())
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import textwrap; exec(textwrap.dedent('''" + code.replace("\\", "\\\\") + "'''))",
        stdout=asyncio.subprocess.PIPE, env={"SECRET_TOKEN": "x", "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert child.stdout is not None
    try:
        (worker,) = map(int, (await asyncio.wait_for(child.stdout.readline(), 60)).split())
        environment = Path(f"/proc/{worker}/environ").read_bytes()
        assert lives(worker)
    finally:
        child.kill()
        await child.wait()
    assert environment == b""
    assert await until_gone({worker}, 5) == set()


async def test_a_worker_has_no_privileges(wasi_cache: Path) -> None:
    """What it is to the kernel, and that the record says so."""
    before = workers()
    async with opened(wasi_cache) as sandbox:
        (worker,) = workers() - before
        said = status(worker)
        user = "65534" if os.getuid() == 0 else str(os.getuid())
        assert said["Uid"].split() == [user] * 4
        assert (int(said["CapEff"], 16), int(said["CapPrm"], 16), said["NoNewPrivs"]) == (0, 0, "1")
        limits = Path(f"/proc/{worker}/limits").read_text()
        for name, limit in (("Max file size", "0"), ("Max core file size", "0"), ("Max open files", "64")):
            (row,) = (row for row in limits.splitlines() if row.startswith(name))
            assert row.removeprefix(name).split()[:2] == [limit, limit]
        assert Path(f"/proc/{worker}/environ").read_bytes() == b""
        paths = {path for path in map(os.readlink, Path(f"/proc/{worker}/fd").iterdir()) if path.startswith("/")}
        assert {Path(path).name for path in paths} <= {"null", "component.cwasm"}
        assert f"user={user} no_new_privs" in sandbox.state().limits
        assert ("seccomp" in sandbox.state().limits) == (said["Seccomp"] == "2")
