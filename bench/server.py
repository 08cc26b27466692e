"""The service as ``devassist serve`` runs it, with the two tools of the work, told by its standard input when to count.

Prints its address once it listens. Each line of input is answered, after every follower has finished, by one line with
the CPU spent so far and the peak of memory. Ends with its input.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

from bench.child import cpu_s, peak_mib, say
from bench.engine import BENCH_TOOLS, settings, settled
from devassist.bootstrap import open_services
from devassist.cli.serve import serve
from devassist.runtime.services import Services


def main(directory: Path, url: str) -> None:
    given = settings(directory, url)

    async def opener() -> Services:
        services = await open_services(given, drive=True, extra_tools=BENCH_TOOLS)
        loop = asyncio.get_running_loop()

        async def answer() -> None:
            await settled(services, directory)
            say({"cpu_s": cpu_s(), "rss_mib": peak_mib()})

        def listen() -> None:
            while sys.stdin.buffer.readline():
                asyncio.run_coroutine_threadsafe(answer(), loop)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=listen, daemon=True).start()
        return services

    serve(given, opener, lambda line: print(line.split()[4], flush=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
