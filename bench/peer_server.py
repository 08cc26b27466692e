"""The service as ``devassist serve`` runs it, for the peers' work; ``bench.server`` with other tools.

First line: its address and process id. Each line of input is answered, after every follower has finished, by the CPU
spent so far and the peak of memory. Ends with its input. With a log, each tool call appends to that file what arrived
there: ``<run> <step> <trace id> <idempotency key> <attempt>``, the witness of what really happened.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

from bench.child import cpu_s, peak_mib, say
from bench.engine import settled
from bench.peer_work import opened, settings, tools
from devassist.cli.serve import serve
from devassist.ports.tools import CallContext
from devassist.runtime.services import Services

RESULT = json.dumps({"policy": "annual_leave", "days": 15, "used": 5, "remaining": 10, "text": "x" * 400})


class Witness:
    """Appends with ``O_APPEND``, so that what was written outlives the process that is killed right after."""

    def __init__(self, path: Path | None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else None

    def act(self, run: str, step: int, context: CallContext) -> str:
        if self._file is not None:
            line = f"{run} {step} {context.trace_id} {context.call_id} {context.attempt}\n"
            os.write(self._file, line.encode())
        return RESULT


def main(directory: Path, url: str, effect: str, log: Path | None) -> None:
    given = settings(directory, url)

    async def opener() -> Services:
        services = await opened(given, tools(Witness(log).act, effect))  # type: ignore[arg-type]
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

    serve(given, opener, lambda line: say({"address": line.split()[4], "pid": os.getpid()}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("url")
    parser.add_argument("--effect", default="pure", choices=("pure", "idempotent", "once"))
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args()
    main(asked.directory, asked.url, asked.effect, asked.log)
