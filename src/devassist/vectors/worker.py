"""The loop of a worker process: the first frame holds its settings, each later one is a request.

It ends when its stdin does, and on Linux it is killed with the thread that started it. What anything prints goes to
stderr, so that stdout carries frames alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import BinaryIO

from devassist.vectors.frames import Header, encoded, read_frame

Answer = tuple[Header, bytes]
Handler = Callable[[Header, bytes], Answer]
_PR_SET_PDEATHSIG = 1
_SAID_CHARS = 300


class Refused(Exception):
    """The request cannot be done, and the worker is as it was before; the text is for people."""


def serve(make: Callable[[Header], Handler]) -> None:
    """Answer until stdin ends. ``make`` turns the settings into what answers.

    An answer carries ``cpu_us``, what it cost this process. A request that fails unforeseen is answered with ``error``
    and ``broken``, and ends the process: the next request gets one that knows nothing of the fault.
    """
    _die_with_the_service()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    settings = read_frame(requests)
    if settings is None:
        return
    try:
        os.nice(settings[0].get("nice", 0))
        handler = make(settings[0])
    except Exception as error:  # noqa: BLE001
        _send(replies, {"error": _said(error)}, b"")
        return
    _send(replies, {"ready": True}, b"")
    while (request := read_frame(requests)) is not None:
        header, body = _answered(handler, *request)
        _send(replies, header, body)
        if "broken" in header:
            break
    sys.stderr.flush()
    os._exit(0)  # whatever was answered is done; threads of libraries would only hold the end up


def _answered(handler: Handler, header: Header, body: bytes) -> Answer:
    began = time.process_time_ns()
    try:
        answer, data = handler(header, body)
    except Refused as error:
        return {"error": str(error)}, b""
    except Exception as error:  # noqa: BLE001
        return {"error": _said(error), "broken": True}, b""
    return {**answer, "cpu_us": (time.process_time_ns() - began) // 1000}, data


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())[:_SAID_CHARS]
    return text if isinstance(error, Refused) else f"{type(error).__name__}: {text}"


def _send(replies: BinaryIO, header: Header, body: bytes) -> None:
    replies.write(encoded(header, body))
    replies.flush()


def _die_with_the_service() -> None:
    """The end of stdin says the same, but is not seen within a long computation."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
