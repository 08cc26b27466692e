"""Writes the execution graph of every run that ends, however it ends, to ``<trace_id>.mmd``."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devassist.core.errors import PayloadErased
from devassist.core.event_codec import refs
from devassist.core.events import TERMINAL, Event, RunStarted
from devassist.core.graph import mermaid
from devassist.core.scope import SYSTEM
from devassist.core.signals import Fact
from devassist.ports.journal import Journal, Record

_CURSOR = ".cursor"
_AHEAD = 1000
"""Graphs that wait in memory for their file; of more runs that end at once the oldest are read back."""


class Ended(Protocol):
    """A run as somebody still has it in memory."""

    @property
    def stream(self) -> bytes: ...

    @property
    def events(self) -> list[Event]: ...

    def text(self, ref: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _Read:
    stream: bytes
    events: list[Event]
    texts: dict[str, str]

    def text(self, ref: str) -> str | None:
        return self.texts.get(ref)


class GraphFiles:
    """A follower. Files name their erasure domain in a comment, so that erasing it removes them."""

    def __init__(self, journal: Journal, directory: Path, tip: int) -> None:
        self._journal, self._directory = journal, directory
        self._ahead: OrderedDict[bytes, str] = OrderedDict()
        self._erased: set[str] = set()
        directory.mkdir(parents=True, exist_ok=True)
        try:
            cursor = int((directory / _CURSOR).read_text())
            self.cursor = cursor if cursor <= tip else 0  # an older journal was put in place: begin again
        except (OSError, ValueError):
            self.cursor = 0

    def draw(self, run: Ended) -> None:
        """A run ended in this process: drawn now, it need not be read back when its end comes by. Of an erased domain
        the texts that are still in memory are not drawn."""
        started = run.events[0]
        if isinstance(started, RunStarted) and started.domain not in self._erased:
            self._ahead[run.stream] = _drawn(run)
        if len(self._ahead) > _AHEAD:
            self._ahead.popitem(last=False)

    async def handle(self, records: Sequence[Record]) -> None:
        files: list[tuple[str, str]] = []
        for record in records:
            if record.kind in TERMINAL:
                text = self._ahead.pop(record.stream, "") or await self._read(record.stream)
                if text:
                    files.append((f"{self._directory}/{record.stream.hex()}.mmd", text))
            elif record.kind == "fact" and (domain := _erased_by(record.decoded())):
                self._erased.add(domain)
                files = [(path, text) for path, text in files if not _is_of(text, domain)]
                for stream in [stream for stream, text in self._ahead.items() if _is_of(text, domain)]:
                    del self._ahead[stream]
                await asyncio.to_thread(self._forget, domain)
        files.append((f"{self._directory}/{_CURSOR}", str(records[-1].row)))
        # Making files can wait for the disk, so not on the event loop; the cursor goes last.
        await asyncio.to_thread(_write_all, files)

    async def _read(self, stream: bytes) -> str:
        records = await self._journal.read(SYSTEM, stream)
        events = [record.decoded() for record in records]
        try:
            texts = await self._journal.payloads(SYSTEM, stream, list({r for e in events for r in refs(e)}))
        except PayloadErased:
            return ""
        return _drawn(_Read(stream, events, texts))

    def _forget(self, domain: str) -> None:
        """An erased domain's graphs hold its texts: remove them."""
        for path in self._directory.glob("*.mmd"):
            with path.open(encoding="utf-8") as file:
                first = file.readline()
            if _is_of(first, domain):
                path.unlink()


def _erased_by(event: object) -> str:
    """The domain whose erasure ``event`` records; empty for any other."""
    if not isinstance(event, Fact) or event.name != "domain_erased":
        return ""
    return dict(event.data).get("domain", "")


def _is_of(text: str, domain: str) -> bool:
    """Whether a graph's first line names ``domain`` as its own."""
    return text.partition("\n")[0].rstrip().endswith(f" domain {domain}")


def _drawn(run: Ended) -> str:
    """The file's text; empty for what does not begin as a run."""
    started = run.events[0]
    if not isinstance(started, RunStarted):
        return ""
    return f"%% trace {run.stream.hex()} domain {started.domain}\n{mermaid(run.events, run.text)}"


def _write_all(files: Sequence[tuple[str, str]]) -> None:
    """No fsync: all of it is derived, and what a crash tears is written again, since the cursor stands before it."""
    for path, text in files:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, text.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
