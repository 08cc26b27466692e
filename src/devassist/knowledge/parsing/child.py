"""The process that parses: reads files from its standard input, writes documents to its standard output.

It bounds itself before the first file: memory and processor time by the kernel, and a hook that refuses sockets,
programs and files opened for writing, none of which a parser needs. A request is a frame of JSON and a frame of bytes,
a reply the frame TAKEN and a frame of JSON; a frame is a length of four bytes, little-endian, and so many bytes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import sys
from typing import Any, BinaryIO

import orjson

from devassist.knowledge.parsing.document import READY, TAKEN, Limits, ParsedDocument, Quarantine, to_wire
from devassist.knowledge.parsing.parse import parse

IDLE_S = 60.0
"""Without work for so long it ends, and gives its memory back; the next file starts another."""
NICENESS = 10
_FORBIDDEN = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "os.spawn",
    "ctypes.dlopen",
    "urllib.",
)
_WRITES = os.O_WRONLY | os.O_RDWR


def main() -> None:
    """Serve until the input ends, or nothing comes for ``IDLE_S``."""
    _confine()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not print into the replies
    sys.addaudithook(_refuse)
    _send(replies, READY)
    while select.select([requests], [], [], IDLE_S)[0]:
        head = _frame(requests)
        data = _frame(requests) if head is not None else None
        if head is None or data is None:
            return
        _send(replies, TAKEN)
        asked: dict[str, Any] = orjson.loads(head)
        result = _parsed(data, asked["name"], Limits(**asked["limits"]))
        _send(replies, orjson.dumps(to_wire(result)))
        if isinstance(result, Quarantine) and result.code == "memory":
            return  # what is left of its memory is in pieces


def _confine() -> None:
    os.nice(NICENESS)
    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 64)):
        resource.setrlimit(limit, (value, value))


def _bound(limits: Limits) -> None:
    """Room and time for one more file. Only the soft limits move: the time is what was used so far and more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    for limit, value in ((resource.RLIMIT_AS, limits.memory_bytes), (resource.RLIMIT_CPU, spent + limits.cpu_s)):
        _, hard = resource.getrlimit(limit)
        with contextlib.suppress(OSError, ValueError):  # some systems have no bound of the address space
            resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _parsed(data: bytes, name: str, limits: Limits) -> ParsedDocument | Quarantine:
    _bound(limits)
    try:
        return parse(data, name, limits)
    except MemoryError:
        return Quarantine("memory", f"Reading it needs more than {limits.memory_bytes >> 20} MiB.")
    except Exception as error:  # noqa: BLE001  a damaged file meets every error that its libraries know: it is refused, not the next one
        return Quarantine("malformed", f"It cannot be read: {type(error).__name__}: {error}")


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
    if writes or event.startswith(_FORBIDDEN):
        raise PermissionError(f"a parser does not use {event}")


def _frame(source: BinaryIO) -> bytes | None:
    head = source.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "little")
    data = source.read(size)
    return data if len(data) == size else None


def _send(target: BinaryIO, data: bytes) -> None:
    target.write(len(data).to_bytes(4, "little") + data)
    target.flush()


if __name__ == "__main__":
    main()
