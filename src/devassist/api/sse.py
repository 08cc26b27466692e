"""Server-sent events of a run, written by plain ASGI ``send``: the journal first, then what is live.

A message's ``id`` is its journal position. Following the journal alone shows the same page, so a reader who was cut off
anywhere goes on from the last id it saw.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from starlette.types import Receive, Scope, Send

from devassist.core.event_codec import refs
from devassist.core.frames import RESYNC, Frame, Watcher
from devassist.core.scope import SYSTEM
from devassist.runtime.service import Service
from devassist.runtime.view import Placed, decoded, texts_of

HEARTBEAT_S = 10.0
_POLL_S = 1.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class RunStream:
    """An ASGI response that follows a run. ``after`` is the position that the reader has already; ``watching``: the
    run's topic on the bus is already counted for this reader. ``driven``: whether a run in INIT has its turn."""

    def __init__(
        self, service: Service, stream: bytes, *, after: int = -1, admin: bool = False, watching: bool = False,
        driven: bool = True, resync: bool = False, headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:  # fmt: skip
        self._service, self._stream = service, stream
        self._resync, self._headers = resync, headers
        self._texts: dict[str, str] = {}
        self._watcher = Watcher(text=self._texts.get, admin=admin, after=after, trace_id=stream.hex(), driven=driven)
        self._seq = -1
        self._attempt = -1
        self._had = 0
        self._gone = False
        if not watching:
            service.bus.watch(stream)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *self._headers]})
        listener = asyncio.create_task(self._listen(receive))
        try:
            if self._resync:
                await _write(send, RESYNC.encode())
            await self._follow(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            listener.cancel()
            self._service.bus.unwatch(self._stream)

    async def _listen(self, receive: Receive) -> None:
        """A reader that left costs nothing more; its run goes on."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._service.bus.touch(self._stream)

    async def _follow(self, send: Send) -> None:
        version, written, first = -1, monotonic(), True
        while not self._gone:
            frames = await self._journal()
            frames += self._live(first)
            first = False
            if frames:
                await _write(send, b"".join(f.encode() for f in frames))
                written = monotonic()
            if self._watcher.ended:
                return
            if self._service.draining:
                await _write(send, b": the server is restarting, reconnect from the last id\n\n")
                return
            version = await self._service.bus.changed(self._stream, version, _POLL_S)
            if monotonic() - written > HEARTBEAT_S:
                await _write(send, b": \n\n")
                written = monotonic()

    async def _journal(self) -> list[Frame]:
        placed = decoded(await self._service.journal.read(SYSTEM, self._stream, self._seq))
        if not placed:
            return []
        await self._load(placed)
        frames: list[Frame] = []
        for event, seq, at in placed:
            frames += self._watcher.feed(event, seq, at)
            self._seq = seq
        return frames

    async def _load(self, placed: list[Placed]) -> None:
        if any(ref not in self._texts for event, _, _ in placed for ref in refs(event)):
            self._texts.update(await texts_of(self._service.journal, SYSTEM, self._stream, placed))

    def _live(self, first: bool) -> list[Frame]:
        live = self._service.bus.live(self._stream)
        if self._watcher.ended or (live is None and not first):
            return []
        if live is None:
            return self._watcher.partial(self._watcher.attempt, "")
        if first:
            self._attempt, self._had = live.attempt, len(live.text)
            return self._watcher.partial(live.attempt, live.text)
        if live.attempt != self._attempt:
            self._attempt, self._had = live.attempt, 0
        more = live.text[self._had :]
        if not more:
            return []
        frames = self._watcher.delta(live.attempt, self._had, more)
        self._had += len(more)
        return frames


async def _write(send: Send, body: bytes) -> None:
    message: dict[str, Any] = {"type": "http.response.body", "body": body, "more_body": True}
    await send(message)
