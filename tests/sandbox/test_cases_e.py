"""The shared cases of group E that concern the Docker backend; those of the static scan are tested with it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from devassist.core.scope import Scope
from devassist.ports.sandbox import Program
from devassist.sandbox.docker import DockerSandbox
from tests.sandbox.docker_kit import run, settled

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILE = Path(__file__).parents[1] / "cases" / "group_e.jsonl"
CASES: dict[str, dict[str, Any]] = {one["id"]: one for one in map(json.loads, FILE.read_text("utf-8").splitlines())}
MALLORY = Scope("default", "mallory")


async def test_the_group_is_whole() -> None:
    """The file holds the whole group, so that no case can go missing unseen."""
    assert list(CASES) == ["E01", "E02", "E04", "E06", "E07", "E08", "E09", "E11", "E13", "E15", "E16", "E17"]


async def test_e07_harmless_code_runs(docker: DockerSandbox) -> None:
    """E07: what only looks dangerous prints what it should."""
    done = await run(docker, CASES["E07"]["input"])
    assert done.stdout == CASES["E07"]["expected"]["accept"][0]["stdout"]


async def test_e09_a_timeout_kills_within(docker: DockerSandbox, docker_home: Path) -> None:
    """E09: in time, with what was printed, and with nothing left."""
    case, begun = CASES["E09"], time.monotonic()
    done = await run(docker, case["input"], case["context"]["timeout_s"])
    assert time.monotonic() - begun < 2 + 5
    assert (done.timed_out, done.stdout) == (True, "start\n")
    assert await settled(docker, docker_home)


async def test_e11_a_flood_is_cut_in_the_middle(docker: DockerSandbox) -> None:
    """E11: both ends, the number between them, and no more than the cap; on stderr too."""
    code = CASES["E11"]["input"]
    done = await run(docker, code, 60)
    between = 5 + 5000 * 10_001 + 5 - 20_000
    assert (done.exit_code, done.truncated) == (0, True)
    assert done.stdout.startswith("HEAD\nxxx")
    assert done.stdout.endswith("xxx\nTAIL\n")
    assert len(done.stdout) == 20_000 + len(f"… {between} characters omitted …")
    assert f"… {between} characters omitted …" in done.stdout
    done = await run(docker, "import sys\nsys.stdout = sys.stderr\n" + code, 60)
    assert (f"… {between} characters omitted …" in done.stderr, done.stdout) == (True, "")


async def test_e13_nothing_survives(docker: DockerSandbox) -> None:
    """E13: neither files nor secrets are there for the next program in the pool."""
    writes = "open('/tmp/m.txt', 'w').write('secret-A'); open('m.txt', 'w').write('secret-A')"
    reads = (
        "import os\nprint([os.path.exists(path) for path in ('/tmp/m.txt', 'm.txt')], len(os.environ) <= 15)\n"
        "try: print(open('/proc/1/environ').read())\nexcept OSError as error: print(type(error).__name__)"
    )
    assert (await run(docker, writes)).exit_code == 0
    for _ in range(4):
        done = await docker.execute(MALLORY, Program(reads, 30))
        assert done.stdout == "[False, False] True\nPermissionError\n"


async def test_e15_no_host_paths(docker: DockerSandbox) -> None:
    """E15: neither the engine's socket nor anything of the host is to be seen."""
    assert (await run(docker, CASES["E15"]["input"])).stdout == "[]\n"


async def test_e16_twenty_that_eat_memory(docker: DockerSandbox, docker_home: Path) -> None:
    """E16: each is reported as what it is, the next program runs, and no container is left."""
    done = await asyncio.gather(*(run(docker, CASES["E16"]["input"]) for _ in range(20)))
    assert [(one.oom_killed, one.timed_out) for one in done] == [(True, False)] * 20
    assert (await run(docker, "print(1)")).stdout == "1\n"
    assert await settled(docker, docker_home)


async def test_e17_a_file_name_in_the_code_names_nothing(docker: DockerSandbox, docker_home: Path) -> None:
    """E17: it is a comment, and no path is made of it."""
    code = "# filename: ../../outside/x.py\n" + CASES["E17"]["input"]
    before = {path.name for path in docker_home.parent.iterdir()}
    assert (await run(docker, code)).stdout == "ok\n"
    assert {path.name for path in docker_home.parent.iterdir()} == before
