"""Ports to the journal: append, lease, follow. A store speaks of streams, events and heads; it never looks into a body.

Places are fixed by the store under the head's lock: ``seq`` without gaps, ``at = max(given, previous at)``, ``hash``
chained over the body's bytes. The journal is strict: a gap, a duplicate, an unknown kind, a broken link or a broken
commitment raises. Every method takes a Scope; without the right ``system`` nothing of another tenant is visible.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from devassist.core.errors import JournalCorrupt
from devassist.core.event_codec import decode, encode
from devassist.core.events import Event
from devassist.core.heads import HeadFields
from devassist.core.scope import Scope
from devassist.ports.vault import Payload

StreamKind = Literal["run", "access", "deploy", "knowledge", "erasure", "endpoint", "conversation", "notes"]


class Body(NamedTuple):
    """One event to append: its kind and its canonical bytes, encoded once by the appender, who may hand the event
    along for followers in the same process."""

    kind: str
    data: bytes
    event: Event | None = None

    @staticmethod
    def of(event: Event) -> Body:
        """Raises NotCanonical."""
        return Body(event.kind, encode(event), event)


class Record(NamedTuple):
    """One stored event. ``row`` is the store's own cursor position, meaningful to that store only; ``event`` is the
    decoded body where the store still has it."""

    stream: bytes
    seq: int
    at: int
    kind: str
    body: bytes
    hash: bytes
    row: int = 0
    event: Event | None = None

    def decoded(self) -> Event:
        """Raises UnknownEventKind, and JournalCorrupt naming the row."""
        if self.event is not None:
            return self.event
        try:
            body = json.loads(self.body)
        except ValueError:
            row = f"events(stream={self.stream.hex()}, seq={self.seq})"
            raise JournalCorrupt(f"{row}.body is no JSON") from None
        return decode(body)


@dataclass(frozen=True, slots=True)
class Head:
    """The mutable row of a stream. Fields from ``epoch`` on are a run's; ``actor`` is the caller's domain id."""

    stream: bytes
    tenant: str
    kind: str
    name: str | None
    head_seq: int
    head_hash: bytes
    epoch: int = 0
    state: str | None = None
    actor: bytes | None = None
    conversation: str | None = None
    root: bytes | None = None
    driving: bool = False
    lease_until: int = 0
    wake_at: int = 0
    flags: str = ""
    idem: bytes | None = None
    head_at: int = -1
    """The time of the newest event, -1 where a store keeps none beside its events."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """The INIT of a run. ``lease_until`` > 0 asks that the run be claimed in the same transaction if its turn has come
    (epoch 1); ``busy='reject'`` raises ConversationBusy when its conversation has an open run. ``fresh``: its
    conversation begins with it, so a store need not look for one."""

    stream: bytes
    tenant: str
    actor: bytes
    conversation: str
    root: bytes
    body: Body
    at: int
    payloads: tuple[Payload, ...] = ()
    flags: str = ""
    idem: bytes | None = None
    digest: str | None = None
    lease_until: int = 0
    busy: Literal["queue", "reject"] = "queue"
    max_open: int = 0  # admission: refuse with Overloaded when so many runs are open; 0 = no bound
    fresh: bool = False


class Append(NamedTuple):
    """Events of the owner at ``after`` (the seq it has folded up to), under its ``epoch``."""

    stream: bytes
    after: int
    epoch: int
    at: int
    bodies: tuple[Body, ...]
    head: HeadFields
    payloads: tuple[Payload, ...] = ()


class Appended(NamedTuple):
    """Where an append came to stand: ``first`` .. ``seq``, all at ``at``. ``woken``: the run whose turn it became."""

    first: int
    seq: int
    at: int
    hash: bytes
    woken: bytes | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """``created`` is false when an Idempotency-Key joined an existing run. ``claimed``: epoch 1 is the caller's."""

    head: Head
    created: bool
    claimed: bool


@dataclass(frozen=True, slots=True)
class HeadQuery:
    """Filters over runs, newest first; ``before`` is the stream id to continue after (keyset)."""

    states: tuple[str, ...] = ()
    actor: bytes | None = None
    conversation: str | None = None
    before: bytes | None = None
    since: bytes | None = None
    limit: int = 50
    roots_only: bool = False


class Journal(Protocol):
    """Append and read. All appends are durable when the call returns."""

    async def begin(self, scope: Scope, run: NewRun) -> Begun:
        """Append INIT. Raises StreamExists, ConversationBusy, Overloaded, IdempotencyMismatch (other ``digest``)."""
        ...

    async def append(self, scope: Scope, append: Append) -> Appended:
        """Append as owner. Raises SeqMoved when ``after`` is not the head (fold the news, decide again) and Superseded
        when the head's epoch is newer. The event that ends a run clears ``driving`` and wakes the oldest waiting run
        of its conversation, in the same transaction."""
        ...

    async def signal(
        self, scope: Scope, stream: bytes, signal_id: str, body: Body, at: int, payloads: Sequence[Payload] = ()
    ) -> int | None:
        """Append a signal to an open run and wake it; return its seq, the earlier one when ``signal_id`` is known, or
        None when the run is closed. Raises RunNotFound."""
        ...

    async def note(
        self,
        scope: Scope,
        kind: StreamKind,
        name: str,
        bodies: Sequence[Body],
        at: int,
        payloads: Sequence[Payload] = (),
    ) -> Appended:
        """Append facts to the stream (tenant, kind, name), which is opened when it is new."""
        ...

    async def read(self, scope: Scope, stream: bytes, after: int = -1, limit: int = 0) -> list[Record]:
        """Events with seq > ``after`` in order; at most ``limit`` when it is > 0. Raises RunNotFound."""
        ...

    async def payloads(self, scope: Scope, stream: bytes, refs: Sequence[str]) -> dict[str, str]:
        """The texts that events of ``stream`` name. Raises PayloadErased, PayloadMissing, JournalCorrupt."""
        ...


class Heads(Protocol):
    """The mutable side: list view, lease, timer wheel."""

    async def head(self, scope: Scope, stream: bytes, owner: bytes | None = None) -> Head:
        """Raises RunNotFound, also when the stream is another tenant's, and with ``owner`` when it is no run of that
        actor: in the same words and with the same work as for one that does not exist."""
        ...

    async def named(self, scope: Scope, kind: StreamKind, name: str) -> Head | None:
        """The scope's tenant's stream of facts of this name, None where nothing was noted yet."""
        ...

    async def streams(self, scope: Scope, kind: StreamKind) -> list[Head]:
        """The streams of facts of one kind that the scope sees."""
        ...

    async def list(self, scope: Scope, query: HeadQuery) -> list[Head]: ...

    async def claim(
        self, scope: Scope, stream: bytes, now: int, lease_until: int, *, aside: bool = False
    ) -> int | None:
        """Become the owner: one conditional update that raises the epoch and sets ``driving``. None when the run is
        closed, its lease is held, or its conversation's turn belongs to another. ``aside``: a run that waits for its
        turn is claimed where it stands, without the turn, to be ended before it began."""
        ...

    async def renew(self, scope: Scope, leases: Sequence[tuple[bytes, int]], lease_until: int) -> list[bytes]:
        """Extend the leases that (stream, epoch) still hold; return the streams that were lost."""
        ...

    async def release(self, scope: Scope, leases: Sequence[tuple[bytes, int]]) -> None:
        """Give leases up (parked or draining), so that others need not wait for them to pass."""
        ...

    async def due(self, scope: Scope, now: int, limit: int = 100) -> list[Head]:
        """Open runs without a live lease that a driver should take: driven ones whose lease has passed, those whose
        ``wake_at`` has come, and waiting ones whose turn is free."""
        ...

    async def reclaim(self, scope: Scope) -> int:
        """Void all leases: for the holder of the directory's lock, which proves that every old driver is dead."""
        ...


class Feed(Protocol):
    """The one mechanism that projections follow: at least once, in row order."""

    async def changes(self, cursor: int, limit: int = 500) -> list[Record]:
        """Events of all streams after ``cursor`` (0 = from the beginning), by rising ``row``."""
        ...

    async def tip(self) -> int:
        """The row of the newest event, 0 when there is none."""
        ...

    async def wait(self, cursor: int, timeout_s: float) -> bool:
        """Return true as soon as something stands after ``cursor``, also when another process wrote it; false after
        ``timeout_s``."""
        ...


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that verification found wrong: the row (table and key) and what contradicts what."""

    row: str
    problem: str


@dataclass(slots=True)
class Inspection:
    """What a store's own check of one stream found; ``erased`` counts payloads whose key was destroyed."""

    events: int = 0
    payloads: int = 0
    erased: int = 0
    faults: list[Fault] = field(default_factory=list[Fault])


class Inspector(Protocol):
    """Raw rows for verification: what is stored, without trusting any of it. Columns may hold values of the wrong type;
    text that is not UTF-8 comes with its bytes escaped."""

    async def raw_events(self, scope: Scope, stream: bytes) -> list[Record]:
        """All rows of the stream as they stand, no check made."""
        ...

    async def raw_payload(self, scope: Scope, ref: str) -> Payload | None:
        """The stored row of a payload: its domain and its bytes as stored, unopened."""
        ...

    async def raw_signals(self, scope: Scope, stream: bytes) -> list[tuple[str, int]]:
        """(signal_id, seq) pairs of the stream's signal index."""
        ...
