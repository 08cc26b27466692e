"""The sandbox's image where no registry is: made of Debian's packages (rootfs.sh), once, and kept in a cache.

Its tag is a hash of the recipe, so that a changed recipe is another image and an unchanged one is never made twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.engine import Engine, EngineError

RECIPE = Path(__file__).with_name("rootfs.sh")
REPOSITORY = "devassist-sandbox"
TAG = f"deb-{hashlib.sha256(RECIPE.read_bytes()).hexdigest()[:12]}"
IMAGE = f"{REPOSITORY}:{TAG}"
"""What `devassist sandbox build` makes, and what is used when SANDBOX_IMAGE names nothing else."""
CACHE = Path("/var/cache/devassist")

Say = Callable[[str], None]
"""Takes a line about what goes on."""


async def build(engine: Engine, cache: Path, say: Say, *, again: bool = False) -> str:
    """Make the image, unless the engine has it; ``again`` makes it anew. Returns its name.

    Takes minutes the first time, seconds when the cache holds the archive. Raises SandboxUnavailable saying what
    failed or is missing.
    """
    try:
        if not again and await engine.image(IMAGE) is not None:
            say(f"{IMAGE} is there")
            return IMAGE
        archive = cache / f"{TAG}.tar"
        if again or not archive.exists():
            await _make(archive, say)
        say(f"Handing {archive} to the engine ...")
        await engine.load_rootfs(archive, REPOSITORY, TAG)
    except EngineError as error:
        raise SandboxUnavailable(f"The Docker engine refused the image: {error.message}") from None
    say(f"{IMAGE} is made")
    return IMAGE


async def _make(archive: Path, say: Say) -> None:
    lacks = ["root (sudo)"] if os.geteuid() != 0 else []
    lacks += [] if shutil.which("debootstrap") else ["debootstrap (apt-get install debootstrap)"]
    if lacks:
        raise SandboxUnavailable(
            f"Making the image needs {' and '.join(lacks)}. Where a container registry is, docker/sandbox/pin.sh "
            "builds one, and SANDBOX_IMAGE names it"
        )
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxUnavailable(f"{archive.parent} cannot be made: {error.strerror}") from None
    say("Making a small Debian with Python, numpy, pandas, requests and pytest: one to four minutes, once ...")
    process = await asyncio.create_subprocess_exec(
        "sh", str(RECIPE), str(archive), stderr=asyncio.subprocess.PIPE, start_new_session=True
    )  # fmt: skip
    try:
        _, said = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # the script removes what it has begun
        await process.wait()
        raise
    if process.returncode != 0:
        raise SandboxUnavailable(f"The image could not be made: {said.decode('utf-8', 'replace').strip()[-2000:]}")
