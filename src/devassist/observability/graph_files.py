"""Writes the execution graph of every run that ends, however it ends, to ``<trace_id>.mmd``."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devassist.core.errors import PayloadErased
from devassist.core.event_codec import decode, refs
from devassist.core.events import TERMINAL, Event, RunStarted
from devassist.core.graph import mermaid
from devassist.core.scope import SYSTEM
from devassist.core.signals import Fact
from devassist.ports.journal import Journal, Record

_CURSOR = ".cursor"


class Ended(Protocol):
    """A run as somebody still has it in memory."""

    @property
    def events(self) -> list[Event]: ...

    def text(self, ref: str) -> str | None: ...


Recent = Callable[[bytes], Ended | None]


@dataclass(frozen=True, slots=True)
class _Read:
    events: list[Event]
    texts: dict[str, str]

    def text(self, ref: str) -> str | None:
        return self.texts.get(ref)


class GraphFiles:
    """A follower. Files name their erasure domain in a comment, so that erasing it removes them."""

    def __init__(self, journal: Journal, directory: Path, recent: Recent, tip: int) -> None:
        self._journal, self._directory, self._recent = journal, directory, recent
        directory.mkdir(parents=True, exist_ok=True)
        try:
            cursor = int((directory / _CURSOR).read_text())
            self.cursor = cursor if cursor <= tip else 0  # an older journal was put in place: begin again
        except (OSError, ValueError):
            self.cursor = 0

    async def handle(self, records: Sequence[Record]) -> None:
        files: list[tuple[str, str]] = []
        for record in records:
            if record.kind in TERMINAL:
                files += await self._drawn(record.stream)
            elif record.kind == "fact":
                await asyncio.to_thread(self._forget, record.event or decode(json.loads(record.body)))
        files.append((f"{self._directory}/{_CURSOR}", str(records[-1].row)))
        # Making files can wait for the disk, so not on the event loop; the cursor goes last.
        await asyncio.to_thread(_write_all, files)

    async def _drawn(self, stream: bytes) -> list[tuple[str, str]]:
        run = self._recent(stream) or await self._read(stream)
        if run is None or not isinstance(run.events[0], RunStarted):
            return []
        head = f"%% trace {stream.hex()} domain {run.events[0].domain}\n"
        return [(f"{self._directory}/{stream.hex()}.mmd", head + mermaid(run.events, run.text))]

    async def _read(self, stream: bytes) -> _Read | None:
        records = await self._journal.read(SYSTEM, stream)
        events = [r.event or decode(json.loads(r.body)) for r in records]
        try:
            texts = await self._journal.payloads(SYSTEM, stream, list({r for e in events for r in refs(e)}))
        except PayloadErased:
            return None
        return _Read(events, texts)

    def _forget(self, event: object) -> None:
        """An erased domain's graphs hold its texts: remove them."""
        if not isinstance(event, Fact) or event.name != "domain_erased":
            return
        domain = dict(event.data).get("domain", "")
        for path in self._directory.glob("*.mmd"):
            with path.open(encoding="utf-8") as file:
                first = file.readline()
            if first.rstrip().endswith(f"domain {domain}"):
                path.unlink()


def _write_all(files: Sequence[tuple[str, str]]) -> None:
    """No fsync: all of it is derived, and what a crash tears is written again, since the cursor stands before it."""
    for path, text in files:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, text.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
