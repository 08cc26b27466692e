"""The service with the two tools of the work; see ``bench.hosted``.

It prints its address, and answers each line by the CPU spent so far and the peak of memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.engine import BENCH_TOOLS, settings
from bench.hosted import counted, host
from devassist.bootstrap import open_services


def main(directory: Path, url: str) -> None:
    given = settings(directory, url)
    host(
        given, lambda: open_services(given, drive=True, extra_tools=BENCH_TOOLS),
        lambda services: counted(services, directory), lambda address: print(address, flush=True),
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
