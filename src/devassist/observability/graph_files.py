"""Writes the execution graph of every run that ends, however it ends, to ``<trace_id>.mmd``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from devassist.core.errors import PayloadErased
from devassist.core.event_codec import decode, refs
from devassist.core.events import TERMINAL, Fact, RunStarted
from devassist.core.graph import mermaid
from devassist.core.scope import SYSTEM
from devassist.ports.journal import Journal, Record

_CURSOR = ".cursor"


class GraphFiles:
    """A follower. Files name their erasure domain in a comment, so that erasing it removes them."""

    def __init__(self, journal: Journal, directory: Path) -> None:
        self._journal, self._directory = journal, directory
        directory.mkdir(parents=True, exist_ok=True)
        try:
            self.cursor = int((directory / _CURSOR).read_text())
        except (OSError, ValueError):
            self.cursor = 0

    async def handle(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.kind in TERMINAL:
                await self._write(record.stream)
            elif record.kind == "fact":
                self._forget(decode(json.loads(record.body)))
        _replace(self._directory / _CURSOR, str(records[-1].row))

    async def _write(self, stream: bytes) -> None:
        placed = [(decode(json.loads(r.body)), r.seq, r.at) for r in await self._journal.read(SYSTEM, stream)]
        started = placed[0][0]
        if not isinstance(started, RunStarted):
            return
        try:
            texts = await self._journal.payloads(SYSTEM, stream, list({r for e, _, _ in placed for r in refs(e)}))
        except PayloadErased:
            return
        head = f"%% trace {stream.hex()} domain {started.domain}\n"
        _replace(self._directory / f"{stream.hex()}.mmd", head + mermaid([event for event, _, _ in placed], texts.get))

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


def _replace(path: Path, text: str) -> None:
    """Whole or not at all; no fsync: it is derived."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
