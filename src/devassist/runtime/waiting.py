"""Who waits in this process for a run to end."""

from __future__ import annotations

import asyncio

from devassist.core.states import State
from devassist.runtime.run import ActiveRun
from devassist.runtime.view import RunView


class Waiters:
    """Belongs to the event loop that it is used on."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, list[asyncio.Future[RunView | None]]] = {}

    async def next(self, stream: bytes, timeout_s: float | None) -> RunView | None:
        """The run once it is closed or waits for a person; None when it is time to look at the journal again."""
        waiter: asyncio.Future[RunView | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(stream, []).append(waiter)
        try:
            if timeout_s is None:
                return await waiter
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            return None
        finally:
            left = [w for w in self._waiting.pop(stream, ()) if w is not waiter]
            if left:
                self._waiting[stream] = left

    def settle(self, stream: bytes, run: ActiveRun | None) -> RunView | None:
        """The run is not driven here any more: hand it over, and return it, if it is closed or waits for a person, by
        what is in the journal; if it is not, who waits looks again."""
        view: RunView | None = None
        if run is not None and (run.confirmed.closed or run.confirmed.state is State.AWAIT_APPROVAL):
            view = RunView(stream, run.confirmed, run.placed, run.texts)
        for waiter in self._waiting.pop(stream, ()):
            if not waiter.done():
                waiter.set_result(view)
        return view

    def let_go(self) -> None:
        """Wake everyone who waits."""
        for stream in list(self._waiting):
            self.settle(stream, None)
