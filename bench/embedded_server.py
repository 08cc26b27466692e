"""The service as ``devassist serve`` runs it, on the embedded model, with a watch on its event loop.

Prints its address once it listens. Each line of input begins a new measurement and is answered by one line on the one
that it ends: by how much sleeps of 5 ms were late, in milliseconds, and what the processes cost. Ends with its input.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from time import perf_counter

from bench.child import cpu_s, peak_mib, say
from devassist.bootstrap import open_services
from devassist.cli.serve import serve
from devassist.config import load
from devassist.runtime.services import Services

SLEEP_S = 0.005


class Lag:
    """How late the loop was."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []

    async def watch(self) -> None:
        while True:
            began = perf_counter()
            await asyncio.sleep(SLEEP_S)
            self.late_ms.append((perf_counter() - began - SLEEP_S) * 1000)

    def taken(self) -> list[float]:
        late, self.late_ms = self.late_ms, []
        return [round(ms, 3) for ms in late]


def model_of() -> tuple[float, float]:
    """(peak MiB, CPU seconds) of the model's process, zeros before it was started."""
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            process = Path("/proc", pid)
            if b"embedded_server" in (process / "cmdline").read_bytes():
                peak = int((process / "status").read_text().split("VmHWM:")[1].split()[0]) / 1024
                ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
                return peak, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return 0.0, 0.0


def main(directory: Path) -> None:
    given = {"data_dir": str(directory / "data"), "port": "0", "chat_model": "embedded", "sandbox_pool_size": "0"}
    settings = load({**given}, {})

    async def opener() -> Services:
        services = await open_services(settings, drive=True)
        loop, lag = asyncio.get_running_loop(), Lag()
        watching = loop.create_task(lag.watch())

        async def answer() -> None:
            peak, model_cpu_s = model_of()
            say({"late_ms": lag.taken(), "cpu_s": cpu_s(), "rss_mib": peak_mib(), "model_rss_mib": peak,
                 "model_cpu_s": model_cpu_s})  # fmt: skip

        def listen() -> None:
            while sys.stdin.buffer.readline():
                asyncio.run_coroutine_threadsafe(answer(), loop).result()
            loop.call_soon_threadsafe(watching.cancel)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=listen, daemon=True).start()
        return services

    serve(settings, opener, lambda line: print(line.split()[4], flush=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
