"""The service with the tools of the peers' work; see ``bench.hosted``.

First line: its address and process id. Each line of input is answered by the CPU spent so far and the peak of memory.
With a log, each tool call appends to that file what arrived there: ``<run> <step> <trace id> <idempotency key>
<attempt>``, the witness of what really happened.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from bench.child import say
from bench.hosted import counted, host
from bench.peer_work import settings, tools
from devassist.bootstrap import open_services
from devassist.core.tooling import Effect
from devassist.ports.tools import CallContext

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


def main(directory: Path, url: str, effect: Effect, log: Path | None) -> None:
    given, made = settings(directory, url), tools(Witness(log).act, effect)
    host(
        given, lambda: open_services(given, drive=True, extra_tools=made),
        lambda services: counted(services, directory), lambda address: say({"address": address, "pid": os.getpid()}),
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("url")
    parser.add_argument("--effect", default="pure", choices=("pure", "idempotent", "once"))
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args()
    main(asked.directory, asked.url, asked.effect, asked.log)
