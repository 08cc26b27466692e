"""A worker for tests: it does what it is told."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from devassist.vectors.frames import Header
from devassist.vectors.worker import Answer, Handler, Refused, serve


def make(settings: Header) -> Handler:
    match settings.get("start"):
        case "fail":
            raise ValueError("cannot begin")
        case "hang":
            time.sleep(1000)
        case _:
            pass
    return answer


def answer(header: Header, body: bytes) -> Answer:
    match header["do"]:
        case "pid":
            return {"pid": os.getpid()}, b""
        case "environment":
            return {"names": sorted(os.environ)}, b""
        case "refuse":
            raise Refused("no such thing")
        case "fail":
            raise KeyError("missing")
        case "print":
            print(header["text"], flush=True)
        case "die":
            print("last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(1000)
        case "spin":
            while True:
                pass
        case "hang_once":
            mark = Path(header["mark"])
            if mark.exists():
                return {"hung": False}, body
            mark.touch()
            time.sleep(1000)
        case _:
            pass
    return {}, body


if __name__ == "__main__":
    if sys.stdin.buffer.peek(200).find(b"babble") >= 0:
        os.write(1, b"x" * 100)
        time.sleep(1000)
    serve(make)
