"""Server-sent events of a run, written by plain ASGI ``send``: the journal first, then what is live.

A message's ``id`` is its journal position. Following the journal alone shows the same page, so a reader who was cut off
anywhere goes on from the last id it saw.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from starlette.types import Receive, Scope, Send

from devassist.core.errors import DevAssistError
from devassist.core.event_codec import refs
from devassist.core.events import ModelIntended
from devassist.core.frames import RESYNC, Frame, Watcher
from devassist.core.scope import SYSTEM
from devassist.runtime.service import Service
from devassist.runtime.view import Placed, decoded, texts_of

log = logging.getLogger("devassist.api")

HEARTBEAT_S = 10.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_POLL_S = 1.0
_BATCH = 64
_CHUNK_BYTES = 64 * 1024
_KEEP_CHARS = 1_000_000


class RunStream:
    """An ASGI response that follows a run. ``after`` is the position that the reader has already; ``watching``: the
    run's topic on the bus is already counted for this reader. ``driven``: whether a run in INIT has its turn.
    ``admitted``: whether the reader may still read; asked every second.

    A reader costs no more than a batch of events and one chunk, however long the run and however slow the reader:
    nothing is read or made until what came before is sent.
    """

    def __init__(
        self, service: Service, stream: bytes, *, after: int = -1, admin: bool = False, watching: bool = False,
        driven: bool = True, resync: bool = False, headers: tuple[tuple[bytes, bytes], ...] = (),
        admitted: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._service, self._stream = service, stream
        self._admitted, self._asked = admitted, monotonic()
        self._resync, self._headers = resync, headers
        self._texts: dict[str, str] = {}
        self._init: frozenset[str] = frozenset()
        self._watcher = Watcher(text=self._texts.get, admin=admin, after=after, trace_id=stream.hex(), driven=driven)
        self._seq = -1
        self._attempt = -1
        self._had = 0
        self._gone = False
        self._written = monotonic()
        if not watching:
            service.bus.watch(stream)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listener: asyncio.Task[None] | None = None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *self._headers]})
            listener = asyncio.create_task(self._listen(receive))
            if self._resync:
                await self._write(send, RESYNC.encode())
            await self._follow(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if listener is not None:
                listener.cancel()
            self._service.bus.unwatch(self._stream)

    async def _listen(self, receive: Receive) -> None:
        """A reader that left costs nothing more; its run goes on."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._service.bus.touch(self._stream)

    async def _follow(self, send: Send) -> None:
        version, first = -1, True
        while not self._gone:
            try:
                await self._journal(send)
            except DevAssistError:
                log.exception("the stream of run %s stopped", self._stream.hex())
                await self._write(send, b": a fault of the service; its log has the reason\n\n")
                return
            live = self._live(first)
            first = False
            if live:
                await self._write(send, b"".join(frame.encode() for frame in live))
            if self._watcher.ended or self._is_shut_out():
                return
            if self._service.draining:
                await self._write(send, b": the server is restarting, reconnect from the last id\n\n")
                return
            version = await self._service.bus.changed(self._stream, version, min(_POLL_S, HEARTBEAT_S))
            if monotonic() - self._written >= HEARTBEAT_S:
                await self._write(send, b": \n\n")

    def _is_shut_out(self) -> bool:
        now = monotonic()
        if now - self._asked < _POLL_S:
            return False
        self._asked = now
        return not self._admitted()

    async def _journal(self, send: Send) -> None:
        """Send the messages of what the journal has beyond what was read before."""
        while not self._gone:
            placed = decoded(await self._service.journal.read(SYSTEM, self._stream, self._seq, _BATCH))
            if not placed:
                return
            await self._load(placed)
            out = bytearray()
            for event, seq, at in placed:
                for frame in self._watcher.feed(event, seq, at):
                    out += frame.encode()
                self._seq = seq
                if len(out) >= _CHUNK_BYTES:
                    await self._write(send, bytes(out))
                    out.clear()
                    await asyncio.sleep(0)  # sending waits for a slow reader only: others have their turn here
            if out:
                await self._write(send, bytes(out))
            self._drop(placed)
            if len(placed) < _BATCH or self._service.draining:
                return

    async def _load(self, placed: list[Placed]) -> None:
        if self._seq < 0:
            self._init = frozenset(_named(placed[:1]))
        if any(ref not in self._texts for ref in _named(placed)):
            self._texts.update(await texts_of(self._service.journal, SYSTEM, self._stream, placed))

    def _drop(self, placed: list[Placed]) -> None:
        """A long run's texts are not kept: INIT's, and those of the turn under way, are all that is needed again."""
        starts = [i for i, (event, _, _) in enumerate(placed) if isinstance(event, ModelIntended)]
        if not starts or sum(map(len, self._texts.values())) < _KEEP_CHARS:
            return
        for ref in self._texts.keys() - self._init - set(_named(placed[starts[-1] :])):
            del self._texts[ref]

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

    async def _write(self, send: Send, body: bytes) -> None:
        message: dict[str, Any] = {"type": "http.response.body", "body": body, "more_body": True}
        await send(message)
        self._written = monotonic()


def _named(placed: Iterable[Placed]) -> Iterable[str]:
    return (ref for event, _, _ in placed for ref in refs(event))
