"""Where a process stops being what it was."""

from __future__ import annotations

import os
import signal
from time import sleep

from devassist.runtime.faults import set_hook

SETTLE_S = 0.15
"""What was given to the store is written before a process is stopped: it would keep the file locked for all others."""
HOW = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}


def arm(point: str, after: int, how: str) -> None:
    """The ``after``-th time that ``point`` is passed, this process gets the signal ``how``, before it does anything
    else; "" is never passed."""
    passed = 0

    def hook(name: str, stream: bytes) -> None:
        nonlocal passed
        passed += name == point
        if name == point and passed == after:
            if how == "stop":
                sleep(SETTLE_S)
            os.kill(os.getpid(), HOW[how])

    set_hook(hook)
