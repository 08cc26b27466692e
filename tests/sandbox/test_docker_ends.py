"""However a program ends, and whoever dies meanwhile, nothing of it is left on the engine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.docker import SOCKET, DockerSandbox
from devassist.sandbox.engine import Engine, Exit
from devassist.sandbox.image import IMAGE
from devassist.sandbox.policy import Policy
from tests.sandbox.docker_kit import left, opened, processes_with, run, settled, until_left

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("engine")]

CHILDREN = """
import os, sys, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "MARKER"])
print("born", flush=True)
time.sleep(600)
"""
OWNER = """
import asyncio, sys
from pathlib import Path
from tests.sandbox.docker_kit import opened, run
from devassist.sandbox.fairness import Bounds
async def main():
    async with opened(Path(sys.argv[1]), bounds=Bounds(4, 4)) as sandbox:
        await asyncio.gather(*(run(sandbox, "import time; time.sleep(600)", 600) for _ in range(3)))
asyncio.run(main())
"""


async def seen(text: str, count: int, within_s: float = 20) -> int:
    """Wait for so many processes with the text in their command line; how many there are then."""
    for _ in range(round(within_s / 0.05)):
        if len(processes_with(text)) == count:
            break
        await asyncio.sleep(0.05)
    return len(processes_with(text))


async def test_children_that_hide_die_with_their_program(docker: DockerSandbox, docker_home: Path) -> None:
    """Five in sessions of their own, at the timeout: none is alive, and the container is gone."""
    marker = f"hidden-child-{os.getpid()}"
    task = asyncio.create_task(run(docker, CHILDREN.replace("MARKER", marker), 4))
    assert await seen(marker, 5) == 5
    done = await task
    assert (done.timed_out, done.stdout) == (True, "born\n")
    assert await seen(marker, 0, 1) == 0
    assert await settled(docker, docker_home)


async def test_a_cancel_kills_within_a_second(docker: DockerSandbox) -> None:
    """From the cancel on, not from the timeout."""
    marker = f"cancelled-child-{os.getpid()}"
    task = asyncio.create_task(run(docker, CHILDREN.replace("MARKER", marker), 60))
    assert await seen(marker, 5) == 5
    task.cancel()
    assert await seen(marker, 0, 3) == 0
    with pytest.raises(asyncio.CancelledError):
        await task


async def _pid_of(home: Path) -> int:
    engine = Engine(SOCKET)
    await engine.open()
    try:
        (name,) = await until_left(home, 1)
        for _ in range(200):
            if (await engine.state(name)).running:
                break
            await asyncio.sleep(0.02)
        return (await engine.state(name)).pid
    finally:
        await engine.close()


async def test_a_supervisor_that_hangs_is_killed_from_outside(tmp_path: Path) -> None:
    """Stopped dead, it cannot keep the time: the host does, and says that the time was up."""
    async with opened(tmp_path / "base", pool_size=0) as sandbox:
        assert await until_left(tmp_path / "base", 0) == []  # of the proof at the start
        task = asyncio.create_task(run(sandbox, "print('start', flush=True)\nwhile True: pass", 3))
        pid = await _pid_of(tmp_path / "base")
        await asyncio.sleep(1)
        os.kill(pid, signal.SIGSTOP)
        done = await task
        assert (done.timed_out, done.exit_code, done.stdout) == (True, -9, "start\n")
        assert await until_left(tmp_path / "base", 0) == []


async def test_a_sandbox_ended_from_outside_is_no_result(tmp_path: Path) -> None:
    """What somebody else killed is a fault of the service, not of the program; the next one runs."""
    async with opened(tmp_path / "base", pool_size=0) as sandbox:
        assert await until_left(tmp_path / "base", 0) == []
        task = asyncio.create_task(run(sandbox, "while True: pass", 20))
        pid = await _pid_of(tmp_path / "base")
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxUnavailable, match="ended from outside"):
            await task
        assert (await run(sandbox, "print(1)")).stdout == "1\n"


async def test_what_a_dead_process_left_is_swept(tmp_path: Path) -> None:
    """After kill -9 in the middle the programs die by themselves, and the next start removes all that is left."""
    base = tmp_path / "base"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, str(base), cwd=Path.cwd())
    try:
        names = await _settled(base, 5)  # three at work, two ready
    finally:
        child.kill()
        await child.wait()
    assert await _running(names, 0) == 0
    remains = await left(base)
    assert len(remains) >= 3
    async with opened(base, pool_size=0) as sandbox:
        assert sandbox.counts.swept == len(remains)
        assert await until_left(base, 0) == []
        assert len(list(base.glob("own-*"))) == 1
    assert sorted(path.name for path in base.iterdir()) == ["id", "lock"]


async def _settled(base: Path, count: int) -> list[str]:
    """The containers under a directory, once there are so many and all of them run."""
    for _ in range(600):
        if (base / "id").exists():
            names = await left(base)
            if len(names) == count and await _running(names, count, 0) == count:
                return names
        await asyncio.sleep(0.05)
    pytest.fail(f"There were never {count} containers")


async def _running(names: list[str], count: int, within_s: float = 20) -> int:
    """Wait until so many of the containers run; how many do. One that is gone does not."""
    engine = Engine(SOCKET)
    await engine.open()
    try:
        for turn in range(round(within_s / 0.05) + 1):
            if turn:
                await asyncio.sleep(0.05)
            states = await asyncio.gather(*map(engine.state, names), return_exceptions=True)
            running = sum(isinstance(state, Exit) and state.running for state in states)
            if running == count:
                break
        return running
    finally:
        await engine.close()


async def test_neighbours_keep_theirs(docker: DockerSandbox, docker_home: Path) -> None:
    """A start beside a living process on the same directory sweeps nothing of it."""
    before = set(await settled(docker, docker_home))
    async with opened(docker_home, pool_size=0) as second:
        assert second.counts.swept == 0
        assert before <= set(await left(docker_home))
    assert (await run(docker, "print(1)")).stdout == "1\n"


async def test_a_warm_one_is_used_once(docker: DockerSandbox, docker_home: Path) -> None:
    """A program finds one ready, and another takes its place."""
    before = set(await settled(docker, docker_home))
    warm = docker.counts.warm
    assert (await run(docker, "print(1)")).stdout == "1\n"
    assert docker.counts.warm == warm + 1
    after = set(await settled(docker, docker_home))
    assert len(before & after) == 1


async def test_one_that_died_while_it_waited_is_passed_over(tmp_path: Path) -> None:
    """The program runs in another one, and nobody notices."""
    async with opened(tmp_path / "base", pool_size=1) as sandbox:
        for _ in range(400):
            if sandbox.state().warm:
                break
            await asyncio.sleep(0.05)
        assert sandbox.state().warm == 1
        engine = Engine(SOCKET)
        await engine.open()
        for name in await left(tmp_path / "base"):
            await engine.kill(name)
        await engine.close()
        assert (await run(sandbox, "print(1)")).stdout == "1\n"


async def test_without_an_engine_it_is_unavailable(tmp_path: Path) -> None:
    """And says where it looked; nothing is made."""
    sandbox = DockerSandbox(IMAGE, tmp_path / "base", socket=tmp_path / "none.sock")
    with pytest.raises(SandboxUnavailable, match=r"none\.sock"):
        await sandbox.open()
    assert not (tmp_path / "base").exists()


async def test_without_the_image_it_is_unavailable_and_can_be_opened_later(tmp_path: Path) -> None:
    """The error says how to get it."""
    sandbox = DockerSandbox("devassist-sandbox:none", tmp_path / "base")
    for _ in range(2):
        with pytest.raises(SandboxUnavailable, match="sandbox build"):
            await sandbox.open()


async def test_a_gigabyte_of_output_takes_no_memory(tmp_path: Path) -> None:
    """Drained to its end, cut in the middle, and this process has grown by less than 20 MB at its highest."""
    code = "import os\nblock = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, block)"
    async with opened(tmp_path / "base", Policy(output=2 << 30), pool_size=0) as sandbox:
        await run(sandbox, "print(1)")
        Path("/proc/self/clear_refs").write_text("5")  # the highest mark starts anew from here
        before = _memory("VmRSS")
        done = await run(sandbox, code, 60)
        grown = _memory("VmHWM") - before
    assert (done.exit_code, done.truncated, done.timed_out) == (0, True, False)
    assert f"… {(1 << 30) - 20_000} characters omitted …" in done.stdout
    assert grown < 20_000, f"{grown} kB"


def _memory(name: str) -> int:
    """Of this process, in kB."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(name + ":"))
