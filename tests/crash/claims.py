"""A process that wants runs at the same instant as another does."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import struct
import time
from pathlib import Path

import uvloop

from devassist.core.scope import SYSTEM
from tests.crash.twin import Twin, driver
from tests.store.files import store

LEASE_US = 60_000_000
_TURN = struct.Struct("<q")


class Barrier:
    """Lets ``parties`` processes go on together, to within what the scheduler can do: each writes the turn it has come
    to into its own place of a shared page, and looks at the others' until they are there."""

    def __init__(self, path: Path, me: int, parties: int) -> None:
        self._me, self._parties, self._turn = me, parties, 0
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(fd, mmap.PAGESIZE)
        self._page = mmap.mmap(fd, mmap.PAGESIZE)
        os.close(fd)

    def wait(self, seconds: float = 30.0) -> None:
        """Raises TimeoutError when the others do not come."""
        self._turn += 1
        _TURN.pack_into(self._page, self._me * _TURN.size, self._turn)
        end = time.monotonic() + seconds
        while any(_TURN.unpack_from(self._page, n * _TURN.size)[0] < self._turn for n in range(self._parties)):
            if time.monotonic() > end:
                raise TimeoutError
            os.sched_yield()


async def _claim(place: Path, me: int, streams: list[bytes]) -> list[int | None]:
    """The epoch that each claim gave, None for one that was refused."""
    barrier, won = Barrier(place / "barrier", me, 2), list[int | None]()
    async with store(place) as (journal, _):
        for stream in streams:
            now = time.time_ns() // 1000
            barrier.wait()
            won.append(await journal.claim(SYSTEM, stream, now, now + LEASE_US))
    return won


async def _drive(place: Path, me: int, plan: Twin) -> None:
    """Find the same runs as the other does, and drive those that this one gets, until none is open."""
    Barrier(place / "barrier", me, 2).wait()
    async with driver(plan) as made:
        while made.service._tasks:
            await asyncio.sleep(0.02)


def claim(argument: str) -> None:
    """Claim one run after the other; what came of it goes to the file ``won<me>``."""
    given = json.loads(argument)
    place, me = Path(given["place"]), given["me"]
    won = uvloop.run(_claim(place, me, [bytes.fromhex(s) for s in given["streams"]]))
    (place / f"won{me}").write_text(json.dumps(won))


def drive(argument: str) -> None:
    """Drive what is there, against another that does the same."""
    given = json.loads(argument)
    uvloop.run(_drive(Path(given["place"]), given["me"], Twin(**given["plan"])))
