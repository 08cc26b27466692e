"""Whether a Docker engine could run programs: asked at the start, so it has to be quick."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.engine import Engine, EngineError

PROBE_S = 5.0


async def probe_docker(socket: Path, image: str, runtime: str = "") -> None:
    """Raises SandboxUnavailable where no engine answers, or has no such image or runtime. Starts nothing."""
    engine = Engine(socket)
    try:
        async with asyncio.timeout(PROBE_S):
            await engine.open()
            there = await engine.image(image) is not None
            known = await engine.runtimes() if runtime else ()
    except TimeoutError:
        raise SandboxUnavailable(f"the engine on {socket} did not answer within {PROBE_S:.0f} s") from None
    except EngineError as error:
        raise SandboxUnavailable(f"the engine refused to look for its image: {error.message}") from None
    finally:
        await engine.close()
    if not there:
        raise SandboxUnavailable(f"the engine has no image {image}; 'devassist sandbox build' makes one")
    if runtime and runtime not in known:
        raise SandboxUnavailable(unknown_runtime(runtime, known))


def unknown_runtime(runtime: str, known: Collection[str]) -> str:
    return (
        f"the engine has no runtime {runtime}, only {', '.join(sorted(known))}: add it to the engine's daemon.json, or "
        "leave SANDBOX_RUNTIME empty for the engine's own"
    )
