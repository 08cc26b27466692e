"""A fake provider in a thread of its own, for tests whose own loop is not free to serve it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.provider.fake import Answer, FakeProvider, Plan, provider


@contextmanager
def listening(plan: Plan | Sequence[Answer]) -> Iterator[FakeProvider]:
    """The provider while it listens. What it plays may be changed from here; its count is only read."""
    made: list[FakeProvider] = []
    up, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with provider(plan) as fake:
            made.append(fake)
            up.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="provider", daemon=True)
    thread.start()
    try:
        assert up.wait(10), "the provider did not start"
        yield made[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
