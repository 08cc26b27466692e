"""Processes that need not import everything anew: ``python -m tests.crash.nursery SOCKET`` imports, and forks.

A connection is a process: what is sent on it names a function of this package and its argument, what comes back is the
pid, and the exit code in the end (negative for a signal). Standard error goes to the file that is named.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tests.crash.child
import tests.crash.server
import tests.crash.twin  # noqa: F401 - what processes need is here before they are

WAIT_S = 60.0


def serve(path: str) -> None:
    """Fork until the parent goes away: standard input ends then."""
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        listening.bind(path)
        listening.listen(64)
        selector.register(listening, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listening:
                    connection, _ = listening.accept()
                    if not (wanted := connection.makefile("rb").readline()):
                        continue
                    if (pid := os.fork()) == 0:
                        _be(json.loads(wanted))
                    connection.sendall(b"%d\n" % pid)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
                else:
                    pid, connection = key.data
                    _, status = os.waitpid(pid, 0)
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    with suppress(OSError), connection:  # who asked may be gone
                        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _be(wanted: dict[str, Any]) -> None:
    """The forked process: never returns."""
    code = 1
    try:
        os.dup2(os.open(wanted["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
        getattr(importlib.import_module(wanted["module"]), wanted["function"])(wanted["argument"])
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it is said, and is the exit code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


@dataclass
class Process:
    """One that was forked; ``told`` is what it wrote to standard error."""

    pid: int
    reader: asyncio.StreamReader
    stderr: Path
    code: int | None = None

    def send(self, sig: int) -> None:
        """Send a signal; one that has ended needs none."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    async def wait(self) -> int:
        """Its exit code."""
        async with asyncio.timeout(WAIT_S):
            self.code = int(await self.reader.readline())
        return self.code

    async def stopped(self) -> None:
        """Return once it is stopped."""
        async with asyncio.timeout(WAIT_S):
            while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                await asyncio.sleep(0.01)

    @property
    def told(self) -> str:
        return self.stderr.read_text()


@asynccontextmanager
async def process(nursery: Path, function: str, argument: str, stderr: Path) -> AsyncGenerator[Process]:
    """``function`` ("module:name" of this package) in a process of its own, which does not outlive the block."""
    reader, writer = await asyncio.open_unix_connection(nursery)
    module, name = function.split(":")
    wanted = {"module": f"tests.crash.{module}", "function": name, "argument": argument, "stderr": str(stderr)}
    writer.write(json.dumps(wanted).encode() + b"\n")
    made = Process(int(await reader.readline()), reader, stderr)
    try:
        yield made
    finally:
        if made.code is None:
            made.send(signal.SIGKILL)
            await made.wait()
        writer.close()


if __name__ == "__main__":
    serve(sys.argv[1])
