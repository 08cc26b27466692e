"""The streams of a MemoryJournal, with the indexes that turns, admission and Idempotency-Keys need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from devassist.core.states import CLOSED, State
from devassist.ports.journal import Head, HeadQuery, Record

CLOSED_STATES = frozenset(str(s) for s in CLOSED)
PARKED_STATES = frozenset({str(State.AWAIT_APPROVAL), str(State.WAIT)})


@dataclass(slots=True)
class Stream:
    """One stream: its mutable head, its events, its signal index."""

    head: Head
    records: list[Record] = field(default_factory=list[Record])
    signals: dict[str, int] = field(default_factory=dict[str, int])


class Streams:
    """Finds streams by id, by name, by conversation and by Idempotency-Key."""

    def __init__(self) -> None:
        self._all: dict[bytes, Stream] = {}
        self._open: dict[bytes, Stream] = {}
        self._turns: dict[tuple[object, ...], dict[bytes, Stream]] = {}
        self._named: dict[tuple[str, str, str | None], Stream] = {}
        self._keys: dict[tuple[object, ...], Stream] = {}

    def add(self, head: Head) -> Stream:
        stream = self._all[head.stream] = Stream(head)
        if head.kind != "run":
            self._named[head.tenant, head.kind, head.name] = stream
            return stream
        self._open[head.stream] = stream
        if head.idem is not None:
            self._keys[head.tenant, head.actor, head.idem] = stream
        if head.conversation is not None:
            self._turns.setdefault(_turn(head), {})[head.stream] = stream
        return stream

    def close(self, head: Head) -> None:
        """The run has ended: it no longer counts as open nor stands in its conversation's line."""
        self._open.pop(head.stream, None)
        self._turns.get(_turn(head), {}).pop(head.stream, None)

    def get(self, stream: bytes) -> Stream | None:
        return self._all.get(stream)

    def named(self, tenant: str, kind: str, name: str) -> Stream | None:
        return self._named.get((tenant, kind, name))

    def noted(self, kind: str) -> Iterable[Stream]:
        return (s for s in self._named.values() if s.head.kind == kind)

    def with_key(self, tenant: str, actor: bytes, idem: bytes) -> Stream | None:
        return self._keys.get((tenant, actor, idem))

    def runs(self) -> Iterable[Stream]:
        return (s for s in self._all.values() if s.head.kind == "run")

    def open_runs(self) -> list[Stream]:
        return list(self._open.values())

    def next_in_line(self, head: Head) -> Stream | None:
        """The oldest other open run of the conversation; None for a child, which belongs to its root."""
        return min(self._others(head), key=lambda s: s.head.stream, default=None)

    def has_turn(self, head: Head) -> bool:
        """One run of a conversation is driven at a time; the others follow, oldest first."""
        return head.driving or not any(s.head.driving or s.head.stream < head.stream for s in self._others(head))

    def is_due(self, head: Head, now: int) -> bool:
        """Whether a driver should take the run: its news has come, or it neither waits nor is driven."""
        if head.lease_until > now or not self.has_turn(head):
            return False
        return 0 < head.wake_at <= now or head.state not in PARKED_STATES

    def _others(self, head: Head) -> list[Stream]:
        if head.conversation is None:
            return []
        return [s for s in self._turns.get(_turn(head), {}).values() if s.head.stream != head.stream]


def _turn(head: Head) -> tuple[object, ...]:
    return (head.tenant, head.actor, head.conversation)


def fits(head: Head, query: HeadQuery) -> bool:
    return (
        (not query.states or head.state in query.states)
        and query.actor in (None, head.actor)
        and query.conversation in (None, head.conversation)
        and (query.before is None or head.stream < query.before)
        and (query.since is None or head.stream >= query.since)
        and (not query.roots_only or head.root == head.stream)
    )
