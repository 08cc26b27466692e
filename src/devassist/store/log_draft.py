"""What becomes a row of the decision log: pure steps between journal records and log.db.

Nothing here raises on a record that this build cannot read: its row then shows the body alone, and ``verify`` names the
fault; a projection that stopped there would hide all that came after.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from devassist.core.errors import JournalCorrupt
from devassist.core.event_codec import decode
from devassist.core.events import Event, Fact, RunStarted
from devassist.core.log_rows import MESSAGE_CHARS, OUTPUT_CHARS, LogRow, RunContext, log_row, started
from devassist.ports.journal import Head, Record

KEPT_CHARS = max(OUTPUT_CHARS, MESSAGE_CHARS)
INIT = "run_started"


@dataclass(slots=True)
class Carried:
    """A stream under way. ``texts`` maps short references to the row of their text; ``id`` 0 is not stored yet."""

    id: int
    kind: str
    context: RunContext
    texts: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class Draft:
    """A batch of rows that lacks its texts and names. ``erased``: domains whose erasure it records."""

    start: int
    end: int
    rows: list[tuple[Carried, Record, LogRow]] = field(default_factory=list[tuple[Carried, Record, LogRow]])
    wanted: dict[bytes, list[str]] = field(default_factory=dict[bytes, list[str]])
    domains: frozenset[bytes] = frozenset()
    erased: list[bytes] = field(default_factory=list[bytes])


def event_of(record: Record) -> Event | None:
    """None for what this build cannot read."""
    try:
        return decode(orjson.loads(record.body))
    except (JournalCorrupt, ValueError, TypeError, AttributeError):
        return None


def row_of(record: Record, event: Event | None, context: RunContext) -> tuple[LogRow, RunContext]:
    if event is None:
        return LogRow(record.kind, context.step, context.state), context
    return log_row(event, record.seq, context)


def carry(records: Sequence[Record], head: Head | None) -> Carried:
    """Take a stream up at its beginning; ``head`` is of a stream that is no run."""
    first = event_of(records[0])
    if isinstance(first, RunStarted):
        return Carried(0, "run", started(first))
    kind = head.kind if head is not None else "run" if records[0].kind == INIT else "unknown"
    return Carried(0, kind, RunContext(head.tenant if head is not None else "", "", "", "", ""))


def owner_of(text: str) -> bytes | None:
    """A domain id as it stands in bodies."""
    try:
        return bytes.fromhex(text) or None
    except ValueError:
        return None


def owners(context: RunContext) -> list[bytes]:
    return [owner for text in (context.domain, context.actor) if (owner := owner_of(text)) is not None]


def erased_by(fact: Fact) -> list[bytes]:
    """The domains whose erasure a fact of the stream ``erasure`` records."""
    if fact.name != "domain_erased":
        return []
    return [owner for name, value in fact.data if name == "domain" and (owner := owner_of(value)) is not None]


def short(ref: str) -> int:
    """The first 8 bytes of a reference: enough to tell the texts of one run apart."""
    try:
        data = urlsafe_b64decode(ref[:12])
    except ValueError:
        data = ref.encode("utf-8", "replace")
    return int.from_bytes(data[:8], signed=True)


def cut(text: str) -> str:
    """What the longest column shows. SQLite's functions end a text at NUL, so that stands as its symbol."""
    text = text[:KEPT_CHARS]
    return text.replace("\0", "\u2400") if "\0" in text else text
