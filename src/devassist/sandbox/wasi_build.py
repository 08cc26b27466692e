"""The sandbox's Python as WebAssembly: built from what componentize-py brings, once, and kept in a cache.

The component is a snapshot of an interpreter that has loaded guest/app.py; it is compiled for this machine ahead of
time, so that a worker maps it and is ready. A directory of the cache is named after everything that goes into it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.wasi_process import command

GUEST = Path(__file__).with_name("guest")
WORLD = "sandbox"
BUILD_S = 1800.0
_PACKAGES = ("wasmtime", "componentize-py")
_COMPONENT, _ABOUT = "component.cwasm", "about.json"
_SCRIPT = "import componentize_py; sys.exit(componentize_py.script())"

Say = Callable[[str], None]
"""Takes a line about what goes on."""


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def why_unavailable() -> str:
    """Why this machine can run no WebAssembly; empty where it can."""
    if os.name != "posix":
        return "it needs Linux or macOS"
    missing = [name for name in _PACKAGES if find_spec(name.replace("-", "_")) is None]
    if missing:
        return f"the packages {' and '.join(missing)} are not installed (there are none for {platform.machine()}?)"
    return ""


def is_built(cache: Path) -> bool:
    """Whether the cache has a component for this machine; whoever opens it sees whether it is whole."""
    return not why_unavailable() and (cache / f"wasi-{_key()}" / _ABOUT).exists()


@dataclass(frozen=True, slots=True)
class Component:
    """A compiled component: the open file, which is the caller's to close, and what to call it."""

    file: int
    image: str


Make = Callable[[Path, Say], Awaitable[str]]
"""Makes ``component.cwasm`` in a directory, and returns the image's name."""


async def component(cache: Path, say: Say = to_stderr, *, again: bool = False, make: Make | None = None) -> Component:
    """The component for this machine, built where the cache has none that is whole; ``again`` builds it anyway.

    Takes half a minute of two idle cores the first time. Processes that ask at once build it once. Raises
    SandboxUnavailable saying what failed or is missing.
    """
    if why := why_unavailable():
        raise SandboxUnavailable(f"No WebAssembly can be run here: {why}")
    place = cache / f"wasi-{_key()}"
    try:
        if not again and (found := await asyncio.to_thread(_opened, place)):
            return found
        os.makedirs(cache, exist_ok=True)
        async with asyncio.timeout(BUILD_S), _alone(cache, say):
            if not again and (found := await asyncio.to_thread(_opened, place)):
                return found
            await _publish(place, say, make or _make)
            found = await asyncio.to_thread(_opened, place)
    except TimeoutError:
        raise SandboxUnavailable(f"The sandbox's Python was not built within {BUILD_S:.0f} s") from None
    except OSError as error:
        raise SandboxUnavailable(f"{cache} cannot hold the sandbox's Python: {error.strerror}") from None
    if found is None:
        raise SandboxUnavailable(f"The sandbox's Python was changed in {cache} while it was built")
    return found


def _key() -> str:
    parts = [platform.machine(), sys.platform, *(f"{name} {version(name)}" for name in _PACKAGES)]
    parts += [path.read_text("utf-8") for path in sorted(GUEST.iterdir()) if path.is_file()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _opened(place: Path) -> Component | None:
    """What lies in the cache, unless it is not what was put there: it is native code, to be run as it is."""
    try:
        about = json.loads((place / _ABOUT).read_text("utf-8"))
        file = os.open(place / _COMPONENT, os.O_RDONLY)
    except (OSError, ValueError):
        return None
    with os.fdopen(os.dup(file), "rb") as readable:
        digest = hashlib.file_digest(readable, "sha256").hexdigest()
        readable.seek(0)
    if digest == about.get("sha256"):
        return Component(file, about["image"])
    os.close(file)
    return None


@asynccontextmanager
async def _alone(cache: Path, say: Say) -> AsyncGenerator[None]:
    """Hold the cache's lock, which ends with its holder."""
    lock = os.open(cache / "wasi.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        waits = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waits:
                    say("Another process builds the sandbox's Python: waiting for it ...")
                waits = True
                await asyncio.sleep(0.1)
        yield
    finally:
        os.close(lock)


async def _publish(place: Path, say: Say, make: Make) -> None:
    """Make it beside its place and move it there whole; what other versions and broken builds left is removed."""
    made = Path(tempfile.mkdtemp(prefix="wasi-", dir=place.parent))
    try:
        image = await make(made, say)
        about = {"image": image, "sha256": await asyncio.to_thread(_digest, made / _COMPONENT)}
        (made / _ABOUT).write_text(json.dumps(about) + "\n", "utf-8")
        for old in {*place.parent.glob("wasi-*")} - {made}:
            shutil.rmtree(old, ignore_errors=True)
        os.rename(made, place)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


async def _make(made: Path, say: Say) -> str:
    begun = time.monotonic()
    say("Building the sandbox's Python (WebAssembly, 50 MB): once, half a minute or two ...")
    source = made / "guest"  # a copy: building writes beside what it reads
    shutil.copytree(GUEST, source, ignore=shutil.ignore_patterns("__pycache__"))
    wasm = made / "component.wasm"
    arguments = ("-d", str(source / "sandbox.wit"), "-w", WORLD, "componentize", "-p", str(source), "app")
    await _step(command("-q", *arguments, "-o", str(wasm), code=_SCRIPT))
    say(f"Compiling it for this machine ... ({time.monotonic() - begun:.0f} s)")
    python = await _step(command("compile", str(wasm), str(made / _COMPONENT)))
    digest = await asyncio.to_thread(_digest, wasm)
    wasm.unlink()
    shutil.rmtree(source)
    say(f"The sandbox's Python is built ({time.monotonic() - begun:.0f} s)")
    return f"cpython-{python}-wasi sha256:{digest}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _step(arguments: list[str]) -> str:
    """Run one step of the build; what it says on stdout. Raises SandboxUnavailable with what it complained of."""
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, env={}, cwd="/",
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise SandboxUnavailable(f"{sys.executable} cannot be started: {error.strerror}") from None
    try:
        out, said = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        text = (said or out).decode("utf-8", "replace").strip()
        raise SandboxUnavailable(f"The sandbox's Python could not be built: {text[-1500:]}")
    return out.decode("utf-8", "replace").strip()
