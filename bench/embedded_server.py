"""The service on the embedded model, with a watch on its event loop; see ``bench.hosted``.

It prints its address. Each line of input begins a new measurement and is answered by one line on the one that it ends:
by how much sleeps of 5 ms were late, in milliseconds, and what the processes cost.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.child import cpu_s, peak_mib
from bench.hosted import host
from devassist.bootstrap import open_services
from devassist.config import load
from devassist.runtime.services import Services

SLEEP_S = 0.005


class Lag:
    """How late the loop was."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Watch this loop as long as it runs."""
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
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
    settings, lag = load({**given}, {}), Lag()

    async def opener() -> Services:
        services = await open_services(settings, drive=True)
        lag.begin()
        return services

    async def answer(_: Services) -> dict[str, Any]:
        peak, model_cpu_s = model_of()
        return {"late_ms": lag.taken(), "cpu_s": cpu_s(), "rss_mib": peak_mib(), "model_rss_mib": peak,
                "model_cpu_s": model_cpu_s}  # fmt: skip

    host(settings, opener, answer, lambda address: print(address, flush=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
