"""The bus within one process.

A follower asks for what it has not had, so deltas coalesce by themselves and a slow reader costs no memory.
"""

from __future__ import annotations

import asyncio

from devassist.ports.bus import Live


class _Topic:
    __slots__ = ("attempt", "event", "parts", "performing", "version", "watchers")

    def __init__(self) -> None:
        self.version = 0
        self.attempt = 0
        self.parts: list[str] = []
        self.watchers = 0
        self.performing = False
        self.event: asyncio.Event | None = None

    def bump(self) -> None:
        self.version += 1
        if self.event is not None:
            self.event.set()
            self.event = None


class LocalBus:
    """Implements ports.bus.Bus. A topic lives while somebody follows it, and while an attempt that somebody followed
    at its beginning is performed here: who comes back finds its text so far."""

    def __init__(self) -> None:
        self._topics: dict[bytes, _Topic] = {}

    def _topic(self, stream: bytes) -> _Topic:
        topic = self._topics.get(stream)
        if topic is None:
            topic = self._topics[stream] = _Topic()
        return topic

    def begin(self, stream: bytes, attempt: int) -> None:
        topic = self._topics.get(stream)
        if topic is not None:
            topic.attempt, topic.parts, topic.performing = attempt, [], True
            topic.bump()

    def add(self, stream: bytes, text: str) -> None:
        topic = self._topics.get(stream)
        if topic is not None and text:
            topic.parts.append(text)
            topic.bump()

    def watched(self, stream: bytes) -> bool:
        return stream in self._topics

    def watch(self, stream: bytes) -> None:
        self._topic(stream).watchers += 1

    def unwatch(self, stream: bytes) -> None:
        topic = self._topics.get(stream)
        if topic is not None:
            topic.watchers -= 1
            self._drop_idle(stream, topic)

    def touch(self, stream: bytes) -> None:
        topic = self._topics.get(stream)
        if topic is not None:
            topic.bump()

    def touch_all(self) -> None:
        for topic in self._topics.values():
            topic.bump()

    def end(self, stream: bytes) -> None:
        topic = self._topics.get(stream)
        if topic is not None:
            topic.performing = False
            self._drop_idle(stream, topic)

    def _drop_idle(self, stream: bytes, topic: _Topic) -> None:
        if topic.watchers <= 0 and not topic.performing:
            del self._topics[stream]

    def live(self, stream: bytes) -> Live | None:
        topic = self._topics.get(stream)
        if topic is None or topic.attempt == 0:
            return None
        if len(topic.parts) > 1:
            topic.parts = ["".join(topic.parts)]
        return Live(topic.attempt, topic.parts[0] if topic.parts else "")

    async def changed(self, stream: bytes, seen: int, timeout_s: float) -> int:
        topic = self._topics.get(stream)
        if topic is None:
            await asyncio.sleep(min(timeout_s, 0.05))
            return seen
        if topic.version == seen:
            if topic.event is None:
                topic.event = asyncio.Event()
            event = topic.event
            try:
                async with asyncio.timeout(timeout_s):
                    await event.wait()
            except TimeoutError:
                pass
        return topic.version
