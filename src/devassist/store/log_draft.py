"""What becomes a row of the decision log: pure steps between journal records and log.db.

Nothing here raises on a record that this build cannot read: its row then shows the body alone, and ``verify`` names the
fault; a projection that stopped there would hide all that came after.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from devassist.core.log_rows import (
    MESSAGE_CHARS,
    OUTPUT_CHARS,
    LogRow,
    RunContext,
    current,
    log_row,
    metadata,
    started,
)
from devassist.ports.journal import Head, Record
from devassist.store.log_references import source_of

KEPT_CHARS = max(OUTPUT_CHARS, MESSAGE_CHARS)
INIT = "run_started"


@dataclass(slots=True)
class Carried:
    """A stream under way. ``texts`` maps references to the row of their text; ``id`` 0 is not stored yet."""

    id: int
    kind: str
    context: RunContext
    texts: dict[str, int] = field(default_factory=dict[str, int])


class Drafted(NamedTuple):
    """``clauses`` is the reference of the text that names the clauses which the event is about."""

    carried: Carried
    record: Record
    row: LogRow
    metadata: str
    clauses: str | None = None


@dataclass(slots=True)
class Draft:
    """A batch of rows that lacks its texts and names. ``erased``: domains whose erasure it records."""

    start: int
    end: int
    rows: list[Drafted] = field(default_factory=list["Drafted"])
    wanted: dict[bytes, list[str]] = field(default_factory=dict[bytes, list[str]])
    domains: frozenset[bytes] = frozenset()
    erased: list[bytes] = field(default_factory=list[bytes])


def body_of(record: Record) -> dict[str, Any]:
    """The event's body in this build's version; empty for what is no JSON object."""
    try:
        body: Any = orjson.loads(record.body)
        return current(body) if type(body) is dict else {}  # pyright: ignore[reportUnknownArgumentType]
    except ValueError:
        return {}


def row_of(record: Record, body: dict[str, Any], context: RunContext) -> tuple[LogRow, RunContext]:
    try:
        if body:
            return log_row(body, record.seq, context)
    except (TypeError, ValueError, LookupError):
        pass
    return LogRow(record.kind, context.step, context.state), context


def drafted(record: Record, body: dict[str, Any], carried: Carried) -> Drafted:
    """The row of a record, which the stream then stands behind."""
    row, carried.context = row_of(record, body, carried.context)
    return Drafted(carried, record, row, metadata_of(record, body, carried), source_of(body))


def metadata_of(record: Record, body: dict[str, Any], carried: Carried) -> str:
    """JSON; a row of a stream that is no run also says which stream it is."""
    extra = metadata(body)
    if carried.kind != "run":
        extra["stream"] = record.stream.hex()
    return orjson.dumps(extra).decode()  # not kept as bytes: those hold on to the serialiser's whole buffer


def carry(records: Sequence[Record], head: Head | None) -> Carried:
    """Take a stream up at its beginning; ``head`` is of a stream that is no run."""
    if records[0].kind == INIT:
        return Carried(0, "run", started(body_of(records[0])))
    if head is None:
        return Carried(0, "unknown", RunContext("", "", "", "", ""))
    return Carried(0, head.kind, RunContext(head.tenant, "", "", "", ""))


def owner_of(text: str) -> bytes | None:
    """A domain id as it stands in bodies."""
    try:
        return bytes.fromhex(text) or None
    except ValueError:
        return None


def owners(context: RunContext) -> list[bytes]:
    return [owner for text in (context.domain, context.actor) if (owner := owner_of(text)) is not None]


def erased_by(body: dict[str, Any]) -> list[bytes]:
    """The domains whose erasure a fact of the stream ``erasure`` records."""
    if body.get("k") != "fact" or body.get("name") != "domain_erased":
        return []
    pairs = [(str(pair[0]), str(pair[1])) for pair in body.get("data", ())]
    return [owner for name, value in pairs if name == "domain" and (owner := owner_of(value)) is not None]


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
