"""Programs run by another process: the port's contract over its socket, and what that socket refuses."""

from __future__ import annotations

import asyncio
import json
import stat
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from devassist.core.errors import Overloaded, SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Backend, Execution, Looked, Program, SandboxState
from devassist.sandbox import wire
from devassist.sandbox.choice import Candidate, ChosenSandbox
from devassist.sandbox.docker import DockerSandbox
from devassist.sandbox.remote import RemoteSandbox
from devassist.sandbox.serve import SandboxServer
from devassist.testing.sandbox_suite import SandboxSuite

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALICE = Scope("default", "alice")
DONE = Execution("1\n", "", 0, 5, False, False, False, "docker", "image", "limits")
STATE = SandboxState("docker", "image", "limits", ("fly",), 2)


class Local:
    """A sandbox that runs nothing: a program ends as ``answer`` says, or never where there is none."""

    backend: Backend | None = "docker"
    fault = ""
    cannot = ("fly",)

    def __init__(self, answer: Execution | Exception | None = DONE) -> None:
        self.answer = answer
        self.asked: list[tuple[Scope, Program]] = []
        self.killed = asyncio.Event()

    async def choose(self) -> None: ...

    async def open(self) -> None: ...

    async def execute(self, scope: Scope, program: Program) -> Execution:
        self.asked.append((scope, program))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            try:
                await asyncio.Event().wait()
            finally:
                self.killed.set()
        assert self.answer is not None
        return self.answer

    def state(self) -> SandboxState | None:
        return STATE

    def look(self) -> Looked:
        return Looked(STATE)

    def counted(self) -> Mapping[str, int]:
        return {"warm": len(self.asked)}

    async def close(self) -> None: ...


@pytest.fixture
def socket() -> Iterator[Path]:
    """Short enough for the kernel, wherever tests keep their files."""
    with tempfile.TemporaryDirectory(prefix="sbx-") as name:
        yield Path(name) / "run" / "s"


@asynccontextmanager
async def served(local: Local, socket: Path) -> AsyncGenerator[RemoteSandbox]:
    server, remote = SandboxServer(local, socket), RemoteSandbox(socket)
    await server.open()
    try:
        yield remote
    finally:
        await remote.close()
        await server.close()


async def said(socket: Path, *lines: bytes) -> list[dict[str, object]]:
    """What the server says to somebody who sends these bytes, until it hangs up."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        for line in lines:
            writer.write(line)
        await writer.drain()
        return [json.loads(line) for line in (await asyncio.wait_for(reader.read(), 20)).splitlines()]
    finally:
        writer.close()


class TestRemoteDocker(SandboxSuite):
    @pytest_asyncio.fixture(loop_scope="session")
    async def sandbox(self, docker: DockerSandbox) -> AsyncIterator[RemoteSandbox]:
        async with _through(docker) as remote:
            yield remote

    @pytest_asyncio.fixture(loop_scope="session")
    async def narrow(self, docker_narrow: DockerSandbox) -> AsyncIterator[RemoteSandbox]:
        async with _through(docker_narrow) as remote:
            yield remote

    @pytest_asyncio.fixture(loop_scope="session")
    async def closed(self, docker: DockerSandbox) -> AsyncIterator[RemoteSandbox]:
        async with _through(docker) as remote:
            yield remote


@asynccontextmanager
async def _through(docker: DockerSandbox) -> AsyncGenerator[RemoteSandbox]:
    async def there() -> None: ...

    chosen = ChosenSandbox([Candidate("docker", (), there, lambda: docker)])
    await chosen.choose()
    await chosen.open()
    with tempfile.TemporaryDirectory(prefix="sbx-") as name:
        server, remote = SandboxServer(chosen, Path(name) / "s"), RemoteSandbox(Path(name) / "s")
        await server.open()
        await remote.open()
        try:
            yield remote
        finally:
            await remote.close()
            await server.close()


async def test_it_is_what_the_other_process_is(socket: Path) -> None:
    """Backend, image, limits and what programs cannot do are known once it answers; so are its counts."""
    async with served(Local(), socket) as remote:
        assert (remote.backend, remote.cannot, remote.state(), remote.fault) == (None, (), None, "")
        await remote.choose()
        assert (remote.backend, remote.cannot, remote.state(), remote.fault) == ("docker", ("fly",), STATE, "")
        assert await remote.execute(ALICE, Program("print(1)", 3)) == DONE
        assert remote.counted()["warm"] == 1
        assert remote.look() == Looked(STATE, remote=True)


async def test_who_asks_and_what_arrives_whole(socket: Path) -> None:
    """Tenant, actor, time, and code with whatever characters; the caller's rights are none of its business."""
    local, code = Local(), "x = '\ud83d 短 \x00 🌍'" + "🌍" * 100_000
    async with served(local, socket) as remote:
        await remote.execute(Scope("t", "ann", frozenset({"admin"})), Program(code, 2.5))
    assert local.asked == [(Scope("t", "ann"), Program(code, 2.5))]


@pytest.mark.parametrize("fault", [Overloaded("too many"), SandboxUnavailable("gone")], ids=lambda one: one.code)
async def test_faults_come_as_what_they_are(socket: Path, fault: Overloaded | SandboxUnavailable) -> None:
    """Too much is no fault of the service, and a fault of the service is no output of a program."""
    async with served(Local(fault), socket) as remote:
        with pytest.raises(type(fault)) as raised:
            await remote.execute(ALICE, Program("print(1)", 3))
    assert raised.value.detail == fault.detail


async def test_cancelling_kills_within_a_second(socket: Path) -> None:
    """The caller does not wait for it."""
    local = Local(None)
    async with served(local, socket) as remote:
        task = asyncio.create_task(remote.execute(ALICE, Program("print(1)", 30)))
        while not local.asked:
            await asyncio.sleep(0.01)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(local.killed.wait(), 5)
        assert time.monotonic() - begun < 1


async def test_a_process_that_ends_is_a_fault_and_its_successor_is_found(socket: Path) -> None:
    """What it ran has failed; the next program runs once one listens again, also over a socket left behind."""
    local = Local(None)
    remote = RemoteSandbox(socket)
    with pytest.raises(SandboxUnavailable, match="sandbox serve"):
        await remote.open()
    assert "sandbox serve" in remote.fault
    server = SandboxServer(local, socket)
    await server.open()
    task = asyncio.create_task(remote.execute(ALICE, Program("print(1)", 30)))
    while not local.asked:
        await asyncio.sleep(0.01)
    await server.close()
    with pytest.raises(SandboxUnavailable):
        await asyncio.wait_for(task, 5)
    assert local.killed.is_set()
    dead = await asyncio.start_unix_server(lambda _, writer: writer.close(), socket)
    dead.close()
    assert socket.is_socket()
    local.answer = DONE
    async with served(local, socket):
        assert await remote.execute(ALICE, Program("print(1)", 3)) == DONE
        assert remote.fault == ""


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (b"GET /containers/json HTTP/1.1\r\n\r\n", "no JSON"),
        (b"[1]\n", "no JSON object"),
        (b'{"state": {}}\n', "exactly execute"),
        (b'{"execute": {}, "build": {}}\n', "exactly execute"),
        (b'{"execute": 1}\n', "an object"),
        (b'{"execute": {"code": "1"}}\n', "exactly code"),
        (b'{"execute": {"code": 1, "timeout_s": 1, "tenant": "t", "actor": "a"}}\n', "code is no str"),
        (b'{"execute": {"code": "1", "timeout_s": true, "tenant": "t", "actor": "a"}}\n', "is no float"),
        (b'{"execute": {"code": "1", "timeout_s": 0, "tenant": "t", "actor": "a"}}\n', "above 0"),
        (b'{"execute": {"code": "1", "timeout_s": NaN, "tenant": "t", "actor": "a"}}\n', "above 0"),
        (b"x" * (wire.MOST_REQUEST + 2), "limit"),
    ],
)
async def test_anything_else_is_refused(socket: Path, request_: bytes, why: str) -> None:
    """One verb, one shape, one size; nothing is run, and the next one is served."""
    local = Local()
    async with served(local, socket) as remote:
        greeting, answer = await said(socket, request_)
        assert (greeting["devassist_sandbox"], answer["error"]) == (wire.VERSION, "refused")
        assert why in str(answer["detail"])
        assert local.asked == []
        assert await remote.execute(ALICE, Program("print(1)", 3)) == DONE


async def test_who_says_more_has_lost_the_program(socket: Path) -> None:
    """A connection runs one program: what comes after it ends it."""
    local = Local(None)
    async with served(local, socket):
        asked = wire.line(wire.request(ALICE, Program("print(1)", 30)))
        assert len(await said(socket, asked + asked)) == 1
        await asyncio.wait_for(local.killed.wait(), 5)
    assert len(local.asked) == 1


async def test_the_socket_is_its_owners_alone(socket: Path) -> None:
    """It lies in a directory of its own, made for the owner; one that others can enter is refused, as is a second
    process."""
    async with served(Local(), socket) as remote:
        assert [stat.S_IMODE(path.stat().st_mode) for path in (socket.parent, socket)] == [0o700, 0o600]
        with pytest.raises(SandboxUnavailable, match="Another process"):
            await SandboxServer(Local(), socket).open()
        await remote.open()  # the one that is there still answers
    assert not socket.exists()
    socket.parent.chmod(0o750)
    with pytest.raises(SandboxUnavailable, match="chmod 700"):
        await SandboxServer(Local(), socket).open()


@pytest.mark.parametrize(
    "greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n", b'{"devassist_sandbox": 2}\n', b"x" * (2 << 20)]
)
async def test_a_stranger_is_not_taken_for_a_sandbox(socket: Path, greeting: bytes) -> None:
    """Whatever listens there, it is a fault that is told."""

    gone = asyncio.Semaphore(0)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        with suppress(OSError):
            await writer.drain()
        writer.transport.abort()
        gone.release()

    socket.parent.mkdir()
    async with await asyncio.start_unix_server(greet, socket):
        remote = RemoteSandbox(socket)
        await remote.choose()
        assert remote.backend is None
        assert remote.fault
        with pytest.raises(SandboxUnavailable):
            await remote.execute(ALICE, Program("print(1)", 3))
        for _ in range(2):
            await gone.acquire()
