"""A run in this process, told in the same messages that a server's stream has."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from devassist.core.event_codec import refs
from devassist.core.frames import Watcher
from devassist.core.scope import SYSTEM
from devassist.runtime.service import Service
from devassist.runtime.starting import Started
from devassist.runtime.view import decoded, texts_of

Message = dict[str, Any]

_POLL_S = 1.0


async def follow(service: Service, started: Started) -> AsyncGenerator[Message]:
    """The messages of a run that was started with ``watched``, until it ends."""
    stream, texts = started.stream, dict[str, str]()
    watcher = Watcher(trace_id=stream.hex(), text=texts.get, admin=True, driven=started.driven)
    seq = version = -1
    try:
        while not watcher.ended:
            placed = decoded(await service.journal.read(SYSTEM, stream, seq))
            if any(ref not in texts for event, _, _ in placed for ref in refs(event)):
                texts.update(await texts_of(service.journal, SYSTEM, stream, placed))
            for event, seq, at in placed:
                for frame in watcher.feed(event, seq, at):
                    yield frame.data
            live = service.bus.live(stream)
            if live is not None:
                for frame in watcher.partial(live.attempt, live.text):
                    yield frame.data
            if not watcher.ended:
                version = await service.bus.changed(stream, version, _POLL_S)
    finally:
        service.bus.unwatch(stream)
