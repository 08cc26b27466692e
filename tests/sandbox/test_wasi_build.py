"""The component is built once, is whole or not there, and what is missing is said."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox import wasi_build
from devassist.sandbox.wasi_build import Say, component, is_built, why_unavailable
from devassist.sandbox.wasi_process import Unloadable, Worker, command

SRC = Path(__file__).parents[2] / "src"


class Making:
    """Stands in for the build: slow, and counted."""

    def __init__(self) -> None:
        self.made = 0

    async def __call__(self, made: Path, say: Say) -> str:
        self.made += 1
        say("building")
        await asyncio.sleep(0.3)
        (made / "component.cwasm").write_bytes(b"native code %d" % self.made)
        return f"python {self.made}"


async def build(cache: Path, make: Making, lines: list[str] | None = None) -> tuple[str, bytes]:
    """The image's name, and what was opened."""
    found = await component(cache, [].append if lines is None else lines.append, make=make)
    with os.fdopen(found.file, "rb") as file:
        return found.image, file.read()


async def test_it_is_built_once(tmp_path: Path) -> None:
    """Those who ask at once wait for the one who builds, and say so; later nobody says a word."""
    make, lines, later = Making(), [], []
    assert not is_built(tmp_path / "cache")
    done = await asyncio.gather(*(build(tmp_path / "cache", make, lines) for _ in range(3)))
    assert done == [("python 1", b"native code 1")] * 3
    assert (lines.count("building"), len([line for line in lines if "waiting" in line])) == (1, 2)
    assert await build(tmp_path / "cache", make, later) == done[0]
    assert (later, make.made) == ([], 1)
    assert is_built(tmp_path / "cache")


@pytest.mark.parametrize("name", ["component.cwasm", "about.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"half"])
async def test_what_is_not_whole_is_built_again(tmp_path: Path, name: str, content: bytes) -> None:
    """It would be run as native code."""
    make = Making()
    await build(tmp_path, make)
    (path,) = tmp_path.glob(f"wasi-*/{name}")
    path.write_bytes(content)
    assert await build(tmp_path, make) == ("python 2", b"native code 2")


async def test_a_build_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    """What there was stays until another is whole, and the next one is not held up."""
    (tmp_path / "wasi-old").mkdir()
    make = Making()
    task = asyncio.create_task(build(tmp_path, make))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wasi-old", "wasi.lock"]
    assert (await build(tmp_path, make))[0] == "python 2"
    assert not (tmp_path / "wasi-old").exists()


async def test_a_place_that_cannot_hold_it(tmp_path: Path) -> None:
    """Is a fault that names the place."""
    (tmp_path / "file").touch()
    with pytest.raises(SandboxUnavailable, match="file/cache cannot hold"):
        await build(tmp_path / "file" / "cache", Making())


async def test_a_step_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the words of what failed; nothing is left in the cache."""
    (tmp_path / "guest").mkdir()
    (tmp_path / "guest" / "sandbox.wit").write_text("nothing of the kind")
    monkeypatch.setattr(wasi_build, "GUEST", tmp_path / "guest")
    with pytest.raises(SandboxUnavailable, match=r"could not be built: [^$]*nothing of the kind"):
        await component(tmp_path / "cache", lambda _: None)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["wasi.lock"]


async def test_what_no_worker_can_load_is_a_fault(tmp_path: Path) -> None:
    """With the worker's own words."""
    (tmp_path / "component").write_bytes(b"no component")
    with (tmp_path / "component").open("rb") as file, pytest.raises(Unloadable, match=r"cannot run programs: \S"):
        await Worker.start(file.fileno(), 64 << 20)


async def test_without_the_packages_it_is_unavailable(tmp_path: Path) -> None:
    """Opening says which are missing, and importing does not need them."""
    code = f"""if True:
        import asyncio, sys
        sys.path[:] = [path for path in sys.path if "site-packages" not in path] + [{str(SRC)!r}]
        from pathlib import Path
        from devassist.core.errors import SandboxUnavailable
        from devassist.sandbox.wasi import WasiSandbox
        try:
            asyncio.run(WasiSandbox(Path({str(tmp_path / "cache")!r})).open())
        except SandboxUnavailable as error:
            print(error.detail)
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", code, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    out, _ = await child.communicate()
    assert b"the packages wasmtime and componentize-py are not installed" in out
    assert not (tmp_path / "cache").exists()


def test_here_it_is_available() -> None:
    """What it needs comes with the service."""
    assert why_unavailable() == ""


CONFINED = """if True:
    import ctypes, os, signal, socket, sys, threading
    from devassist.sandbox.confine import confine
    victim = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    print(confine(64 << 20), flush=True)
    def fork():
        if os.fork() == 0:
            os._exit(0)
    tries = dict(
        open=lambda: open("/etc/hostname"), list=lambda: os.listdir("/"), write=lambda: open("/tmp/x", "w"),
        socket=lambda: socket.socket(), pair=lambda: socket.socketpair(), fork=fork,
        exec=lambda: os.execv("/bin/true", ["true"]), kill=lambda: os.kill(victim, signal.SIGKILL),
        memory=lambda: bytearray(2 << 30), root=lambda: os.setuid(0) if os.getuid() else open("/etc/shadow"),
    )
    for name, attempt in tries.items():
        try:
            print(name, attempt())
        except (OSError, MemoryError) as error:
            print(name, "refused")
    thread = threading.Thread(target=print, args=("threads work",))
    thread.start()
    thread.join()
"""


async def test_a_confined_process_can_only_compute() -> None:
    """It has no files, sockets, processes or rights over others, and a bound for its memory; threads it has."""
    child = await asyncio.create_subprocess_exec(
        *command(str(os.getpid()), code="exec(sys.argv.pop(1))")[:-1], CONFINED, str(os.getpid()),
        stdout=asyncio.subprocess.PIPE, env={},
    )  # fmt: skip
    out, _ = await child.communicate()
    confined, *lines = out.decode().splitlines()
    assert lines.pop() == "threads work"
    refused = {line.split()[0] for line in lines if line.endswith(" refused")}
    kernel = {"open", "list", "write"} if "landlock" in confined else set[str]()
    assert refused >= {"memory", "root"} | kernel
    if "seccomp" in confined:
        assert refused >= {"socket", "pair", "fork", "exec", "kill"}
    assert "no_new_privs" in confined


async def test_a_worker_that_cannot_be_started_is_a_fault() -> None:
    """Of the service, and not of the component."""
    with pytest.raises(SandboxUnavailable, match="cannot be started") as caught:
        await Worker.start(10_000, 64 << 20)
    assert not isinstance(caught.value, Unloadable)
