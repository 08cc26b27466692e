"""The service as ``devassist serve`` runs it, in a process of the benchmark that speaks by lines.

It tells its address once it listens. Each line of its input is answered by one line of output, and it ends with its
input, and with an answer that cannot be given.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from bench.child import cpu_s, peak_mib, say
from bench.engine import settled
from devassist.cli.serve import serve
from devassist.config import Settings
from devassist.runtime.services import Services


def host(
    settings: Settings, opener: Callable[[], Awaitable[Services]],
    answer: Callable[[Services], Awaitable[Mapping[str, Any]]], up: Callable[[str], None],
) -> None:  # fmt: skip
    """``answer`` gives what a line is answered with; ``up`` is told the address."""

    async def listening() -> Services:
        services = await opener()
        loop = asyncio.get_running_loop()

        async def told() -> None:
            say(await answer(services))

        def listen() -> None:
            try:
                while sys.stdin.buffer.readline():
                    asyncio.run_coroutine_threadsafe(told(), loop).result()
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=listen, daemon=True).start()
        return services

    serve(settings, listening, lambda line: up(line.split()[4]))


async def counted(services: Services, directory: Path) -> dict[str, float]:
    """The CPU spent so far and the peak of memory, after every follower has finished."""
    await settled(services, directory)
    return {"cpu_s": cpu_s(), "rss_mib": peak_mib()}
