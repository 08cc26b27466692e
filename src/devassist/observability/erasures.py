"""Drops what this process has cached of an erased domain, also when another process erased it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from devassist.core.signals import Fact
from devassist.ports.journal import Record


class Erasures:
    """A follower; ``forget`` are the caches to tell."""

    def __init__(self, cursor: int, forget: Sequence[Callable[[bytes], None]]) -> None:
        self.cursor = cursor
        self._forget = forget

    async def handle(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.kind != "fact":
                continue
            event = record.decoded()
            if isinstance(event, Fact) and event.name == "domain_erased":
                domain = bytes.fromhex(dict(event.data)["domain"])
                for forget in self._forget:
                    forget(domain)
