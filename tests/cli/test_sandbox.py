"""``devassist sandbox``: what it prints, its exit codes, and a process that runs programs for another one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import tempfile
import urllib.request
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from devassist.bootstrap import file_backups, open_services
from devassist.cli.context import App
from devassist.cli.main import cli
from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Attempt, Looked, Program, SandboxState, Say, Timed
from devassist.sandbox.image import IMAGE
from devassist.sandbox.remote import RemoteSandbox
from tests.cli.kit import WAIT_S, invoke, lines, serving, start
from tests.sandbox.docker_kit import processes_with, require_engine

STATE = SandboxState("docker", "image", "limits", ("fly",), 2)
HELD = Attempt(1, "a door", "held", "it is\nlocked", 12)
HOLE = Attempt(2, "a window", "hole", "open", 3)
ABSENT = Attempt(3, "a chimney", "absent", "no chimney", 0)


class Tools:
    """A sandbox's tools that tell what they were given."""

    def __init__(self, *found: Any, fault: str = "") -> None:
        self._found, self._fault = found, fault

    async def look(self) -> Looked:
        return Looked(STATE)

    async def build(self, say: Say, *, again: bool = False) -> str:
        if self._fault:
            raise SandboxUnavailable(self._fault)
        say("Making it anew ..." if again else "it is there")
        return "image:1"

    async def check(self) -> AsyncGenerator[Attempt | SandboxState]:
        for one in self._found:
            yield one
        if self._fault:
            raise SandboxUnavailable(self._fault)

    async def bench(self, programs: int) -> AsyncGenerator[Timed | SandboxState]:
        yield STATE
        for name in self._found:
            yield Timed(name, programs, 10.0, 20.5, 3.0 if name == "side_by_side" else None)

    async def serve(self, socket: Path, ready: Say) -> None:
        ready(str(socket))


def used(tools: Tools, *args: str) -> Result:
    """The command with these tools in place of the real ones."""
    return CliRunner().invoke(cli, ["sandbox", *args], obj=App(open_services, file_backups, lambda _: tools))


def test_check_shows_each_case_and_fails_for_a_hole() -> None:
    """A line a case and a sum; what ran them goes to stderr."""
    result = used(Tools(STATE, HELD, HOLE, ABSENT), "check")
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert rows == [
        "1 held a door 12 ms it is locked",
        "2 hole a window 3 ms open",
        "3 absent a chimney 0 ms no chimney",
        "3 cases: 1 held, 1 absent, 1 hole",
    ]
    assert (result.exit_code, result.stderr) == (1, "docker image\nlimits\n")
    assert used(Tools(STATE, HELD, ABSENT), "check").exit_code == 0


def test_check_for_programs() -> None:
    """One JSON object a line, and nothing else on stdout."""
    result = used(Tools(STATE, HELD, HOLE), "check", "--json")
    assert [(row["number"], row["verdict"], row["detail"]) for row in lines(result.stdout)] == [
        (1, "held", "it is\nlocked"),
        (2, "hole", "open"),
    ]
    assert result.exit_code == 1


def test_a_sandbox_that_breaks_fails_the_check() -> None:
    """Whatever was held before."""
    result = used(Tools(STATE, HELD, fault="it broke"), "check")
    assert (result.exit_code, "sandbox_unavailable: it broke" in result.stderr) == (1, True)


def test_bench_prints_figures() -> None:
    """Two percentiles each, the rate where programs ran side by side, and how a warm one stands to `docker run`."""
    result = used(Tools("warm", "side_by_side", "docker_run"), "bench", "-n", "5")
    assert result.stdout.splitlines() == [
        "FIGURE sandbox_warm_p50 value=10.0ms",
        "FIGURE sandbox_warm_p95 value=20.5ms",
        "FIGURE sandbox_side_by_side_p50 value=10.0ms",
        "FIGURE sandbox_side_by_side_p95 value=20.5ms",
        "FIGURE sandbox_side_by_side_rate value=3.0/s",
        "FIGURE sandbox_docker_run_p50 value=10.0ms",
        "FIGURE sandbox_docker_run_p95 value=20.5ms",
        "FIGURE sandbox_warm_of_docker_run_p50 value=1.000x",
    ]
    assert [row["programs"] for row in lines(used(Tools("warm"), "bench", "-n", "5", "--json").stdout)] == [5]


def test_build_names_what_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress goes to stderr; that a setting names another image is said."""
    result = used(Tools(), "build", "--again")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "image:1\n", "Making it anew ...\n")
    monkeypatch.setenv("SANDBOX_IMAGE", "mine")
    assert "SANDBOX_IMAGE is mine" in used(Tools(), "build").stderr
    result = used(Tools(fault="debootstrap is missing"), "build")
    assert (result.exit_code, "debootstrap is missing" in result.stderr) == (1, True)


def test_serve_needs_a_place(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """A flag, or the setting that the service has too."""
    assert used(Tools(), "serve").exit_code == 2
    assert used(Tools(), "serve", "--socket", "s").exit_code == 0
    monkeypatch.setenv("DEVASSIST_SANDBOX_SOCKET", "run/s")
    assert str(place / "run" / "s") in used(Tools(), "serve").stdout


@pytest.fixture
def engine(in_ci: bool) -> None:
    asyncio.run(require_engine(in_ci))


@pytest.fixture
def socket() -> Iterator[Path]:
    """Short enough for the kernel."""
    with tempfile.TemporaryDirectory(prefix="sbx-") as name:
        yield Path(name) / "run" / "s"


@pytest.mark.usefixtures("engine")
def test_the_real_tools() -> None:
    """The image is there, and programs are timed on it."""
    assert invoke("sandbox", "build").stdout == f"{IMAGE}\n"
    rows = lines(invoke("sandbox", "bench", "-n", "2", "--json").stdout)
    assert {row["name"] for row in rows} >= {"warm", "side_by_side", "cold"}
    assert all(0 < row["p50_ms"] <= row["p95_ms"] for row in rows)


@pytest.mark.usefixtures("engine")
def test_a_process_of_its_own_runs_programs(socket: Path) -> None:
    """What another process asks for is run; cancelling kills it within a second, and so does the end by a signal,
    which is no failure."""
    process = start("sandbox", "serve", "--socket", str(socket))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"Sandbox is up at {socket} (docker {IMAGE} "), (
            line,
            process.communicate(timeout=WAIT_S),
        )
        marker = f"never-ends-{os.getpid()}"
        assert asyncio.run(_ran(socket, marker)) == ("2\n", 0)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err, socket.exists()) == (0, "", False)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WAIT_S)


@pytest.mark.usefixtures("engine")
def test_a_service_whose_programs_another_process_runs(place: Path, socket: Path) -> None:
    """It needs no Docker socket; what ran, where and under what is in the answer, in /readyz and in the metrics."""
    process = start("sandbox", "serve", "--socket", str(socket))
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Sandbox is up")
        with serving(place / "data", DEVASSIST_SANDBOX_SOCKET=str(socket)) as server:
            code = "```python\nprint(6 * 7)\n```"
            asked = invoke("--url", server.url, "ask", "--json", "--tools", "execute_code", code)
            ready = json.loads(_got(f"{server.url}/readyz"))
            metrics = _got(f"{server.url}/metrics")
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)
    step = json.loads(asked.stdout)["steps"][0]
    assert (step["observation"]["stdout"], step["observation"]["backend"]) == ("42\n", "docker")
    assert step["observation"]["image"].startswith(IMAGE)
    assert ready["sandbox"] == {"backend": "docker", "fault": None}
    assert re.search(r'^devassist_sandbox_programs_total\{start="(warm|cold)"\} 1.0$', metrics, re.MULTILINE)


def _got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WAIT_S) as reply:
        return reply.read().decode()


async def _ran(socket: Path, marker: str) -> tuple[str, int]:
    """What a program printed, and how many of one that was cancelled are left a second later."""
    remote, scope = RemoteSandbox(socket), Scope("default", "ann")
    done = await remote.execute(scope, Program("print(1 + 1)", 30))
    sleep = "import time; time.sleep(600)"
    code = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {sleep!r}, {marker!r}])"
    task = asyncio.create_task(remote.execute(scope, Program(code, 60)))
    for _ in range(400):
        if processes_with(marker):
            break
        await asyncio.sleep(0.05)
    assert processes_with(marker)
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    for _ in range(20):
        if not processes_with(marker):
            break
        await asyncio.sleep(0.05)
    await remote.close()
    return done.stdout, len(processes_with(marker))
