"""One reader of the journal for all followers of this process: each has its own cursor, and none blocks another.

Followers see events at least once, in row order, and must be idempotent by (stream, seq).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from devassist.ports.journal import Feed, Record

log = logging.getLogger("devassist.observability")

_BATCH = 500
_PAUSE_S = 0.1
"""How long news are gathered: ten batches a second are soon enough for graphs and counters."""


class Follower(Protocol):
    """``cursor`` is the last row that ``handle`` has finished with."""

    cursor: int

    async def handle(self, records: Sequence[Record]) -> None: ...


class Hub:
    def __init__(self, feed: Feed, followers: Sequence[Follower]) -> None:
        self._feed, self._followers = feed, followers
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="followers")

    async def stop(self) -> None:
        """Stop after what has been read is handled. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def catch_up(self) -> None:
        """Handle everything up to the journal's end as of now."""
        tip = await self._feed.tip()
        while min((f.cursor for f in self._followers), default=tip) < tip:
            await self._once()

    async def _run(self) -> None:
        while True:
            if await self._feed.wait(min(f.cursor for f in self._followers), 5.0):
                await asyncio.sleep(_PAUSE_S)
                while await self._once() == _BATCH:
                    pass

    async def _once(self) -> int:
        """Hand over what is next; return how many rows."""
        start = min(f.cursor for f in self._followers)
        records = await self._feed.changes(start, _BATCH)
        for follower in self._followers:
            news = records if follower.cursor <= start else [r for r in records if r.row > follower.cursor]
            if not news:
                continue
            try:
                await follower.handle(news)
            except asyncio.CancelledError:
                raise
            except Exception:  # a follower's fault must not stop the others; its rows are said to be skipped
                log.exception("%s failed on rows %d..%d", type(follower).__name__, news[0].row, news[-1].row)
            follower.cursor = news[-1].row
        return len(records)
