"""The journal in memory, on one event loop: for tests, and for runs that need not outlive their process.

Implements the ports Journal, Heads, Feed and Inspector. No method waits between its checks and its writes, so each is
atomic; a refusal leaves no trace.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace

from devassist.core.chain import PUBLIC_DOMAIN, ZERO_HASH, link
from devassist.core.codec import unb64
from devassist.core.errors import (
    ConversationBusy,
    Forbidden,
    IdempotencyMismatch,
    IllegalTransition,
    JournalCorrupt,
    Overloaded,
    PayloadMissing,
    RunNotFound,
    SeqMoved,
    StreamExists,
    Superseded,
    UnknownEventKind,
)
from devassist.core.events import KINDS
from devassist.core.ids import uuid7
from devassist.core.scope import Scope
from devassist.core.states import State
from devassist.ports.journal import (
    Append,
    Appended,
    Begun,
    Body,
    Head,
    HeadQuery,
    NewRun,
    Record,
    StreamKind,
)
from devassist.ports.vault import Payload, Vault
from devassist.store.memory_streams import CLOSED_STATES, Stream, Streams, fits


class MemoryJournal:
    """Belongs to the event loop that it is used on."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._streams = Streams()
        self._rows: list[Record] = []
        self._payloads: dict[bytes, Payload] = {}
        self._changed = asyncio.Event()

    async def close(self) -> None:
        """Nothing to release."""

    # -- Journal -------------------------------------------------------------------------------------------------

    async def begin(self, scope: Scope, run: NewRun) -> Begun:
        _check_kinds((run.body,))
        if run.tenant != scope.tenant and not scope.is_system:
            raise Forbidden(f"a run of tenant {run.tenant!r} cannot be begun for tenant {scope.tenant!r}")
        known = None if run.idem is None else self._streams.with_key(run.tenant, run.actor, run.idem)
        if known is not None:
            if json.loads(known.records[0].body).get("digest") != run.digest:
                raise IdempotencyMismatch("this Idempotency-Key was used with another body; use a new key")
            return Begun(known.head, created=False, claimed=False)
        if self._streams.get(run.stream) is not None:
            raise StreamExists(f"a stream {run.stream.hex()} exists")
        if run.max_open and (count := len(self._streams.open_runs())) >= run.max_open:
            raise Overloaded(f"{count} runs are open, the limit is {run.max_open}; try again later")
        conversation = run.conversation if run.conversation and run.root == run.stream else None
        head = Head(
            run.stream, run.tenant, "run", None, -1, ZERO_HASH, 0, str(State.INIT), run.actor, conversation, run.root,
            flags=run.flags, idem=run.idem,
        )  # fmt: skip
        ahead = self._streams.next_in_line(head)
        if ahead is not None and run.busy == "reject":
            raise ConversationBusy(f"conversation {conversation} has an open run {ahead.head.stream.hex()}")
        stream = self._streams.add(head)
        self._write(stream, (run.body,), run.at, run.payloads)
        claimed = run.lease_until > 0 and ahead is None
        if claimed:
            stream.head = replace(stream.head, epoch=1, driving=True, lease_until=run.lease_until)
        return Begun(stream.head, created=True, claimed=claimed)

    async def append(self, scope: Scope, append: Append) -> Appended:
        _check_kinds(append.bodies)
        stream = self._run(scope, append.stream)
        head = stream.head
        if head.epoch != append.epoch:
            raise Superseded(f"run {_name(head)} is at epoch {head.epoch}; epoch {append.epoch} no longer owns it")
        if head.head_seq != append.after:
            raise SeqMoved(f"run {_name(head)} is at seq {head.head_seq}, not {append.after}", head_seq=head.head_seq)
        if head.state in CLOSED_STATES:
            raise IllegalTransition(f"run {_name(head)} is closed; nothing is appended to it")
        first = head.head_seq + 1
        last = self._write(stream, append.bodies, append.at, append.payloads)
        fields = append.head
        if fields.state not in CLOSED_STATES:
            stream.head = replace(stream.head, state=fields.state, driving=fields.driving, wake_at=fields.wake_at)
            return Appended(first, last.seq, last.at, last.hash)
        stream.head = replace(stream.head, state=fields.state, driving=False, wake_at=0, lease_until=0)
        self._streams.close(stream.head)
        woken = self._streams.next_in_line(head) if head.driving else None
        if woken is not None:
            woken.head = replace(woken.head, wake_at=last.at)
        return Appended(first, last.seq, last.at, last.hash, woken.head.stream if woken else None)

    async def signal(
        self, scope: Scope, stream: bytes, signal_id: str, body: Body, at: int, payloads: Sequence[Payload] = ()
    ) -> int | None:
        _check_kinds((body,))
        target = self._run(scope, stream)
        if signal_id in target.signals:
            return target.signals[signal_id]
        if target.head.state in CLOSED_STATES:
            return None
        last = self._write(target, (body,), at, payloads)
        target.signals[signal_id] = last.seq
        target.head = replace(target.head, wake_at=last.at)
        return last.seq

    async def note(
        self,
        scope: Scope,
        kind: StreamKind,
        name: str,
        bodies: Sequence[Body],
        at: int,
        payloads: Sequence[Payload] = (),
    ) -> Appended:
        _check_kinds(bodies)
        if kind == "run":
            raise IllegalTransition("facts go to streams of their own; a run is begun")
        stream = self._streams.named(scope.tenant, kind, name)
        if stream is None:
            stream = self._streams.add(Head(uuid7(at, os.urandom(10)), scope.tenant, kind, name, -1, ZERO_HASH))
        first = stream.head.head_seq + 1
        last = self._write(stream, bodies, at, payloads)
        return Appended(first, last.seq, last.at, last.hash)

    async def read(self, scope: Scope, stream: bytes, after: int = -1, limit: int = 0) -> list[Record]:
        records = self._visible(scope, stream).records[max(after + 1, 0) :]
        return records[:limit] if limit > 0 else records

    async def payloads(self, scope: Scope, stream: bytes, refs: Sequence[str]) -> dict[str, str]:
        records = self._visible(scope, stream).records
        found: dict[str, Payload] = {}
        for ref in refs:
            payload = self._payloads.get(unb64(ref))
            if payload is None or not any(ref.encode() in r.body for r in records):
                raise PayloadMissing(f"no payload {ref} of stream {stream.hex()} is stored")
            found[ref] = payload
        await self._vault.load(frozenset(p.domain for p in found.values()) - {PUBLIC_DOMAIN})
        return {ref: self._vault.open(payload) for ref, payload in found.items()}

    # -- Heads ---------------------------------------------------------------------------------------------------

    async def head(self, scope: Scope, stream: bytes, owner: bytes | None = None) -> Head:
        head = self._visible(scope, stream).head
        if owner is not None and head.actor != owner:
            raise RunNotFound(f"no run {stream.hex()}")
        return head

    async def named(self, scope: Scope, kind: StreamKind, name: str) -> Head | None:
        stream = self._streams.named(scope.tenant, kind, name)
        return None if stream is None else stream.head

    async def streams(self, scope: Scope, kind: StreamKind) -> list[Head]:
        return [s.head for s in self._streams.noted(kind) if scope.is_system or s.head.tenant == scope.tenant]

    async def list(self, scope: Scope, query: HeadQuery) -> list[Head]:
        heads = (s.head for s in self._streams.runs() if scope.is_system or s.head.tenant == scope.tenant)
        return sorted((h for h in heads if fits(h, query)), key=_by_stream, reverse=True)[: query.limit]

    async def claim(
        self, scope: Scope, stream: bytes, now: int, lease_until: int, *, aside: bool = False
    ) -> int | None:
        run = self._run(scope, stream)
        head = run.head
        if aside:
            if head.state != State.INIT or head.driving or head.lease_until > now:
                return None
            run.head = replace(head, epoch=head.epoch + 1, lease_until=lease_until)
            return run.head.epoch
        if head.state in CLOSED_STATES or head.lease_until > now or not self._streams.has_turn(head):
            return None
        run.head = replace(head, epoch=head.epoch + 1, driving=True, lease_until=lease_until)
        return run.head.epoch

    async def renew(self, scope: Scope, leases: Sequence[tuple[bytes, int]], lease_until: int) -> list[bytes]:
        lost: list[bytes] = []
        for stream, epoch in leases:
            run = self._streams.get(stream)
            if run is None or run.head.epoch != epoch or run.head.lease_until == 0:
                lost.append(stream)
            else:
                run.head = replace(run.head, lease_until=lease_until)
        return lost

    async def release(self, scope: Scope, leases: Sequence[tuple[bytes, int]]) -> None:
        for stream, epoch in leases:
            run = self._streams.get(stream)
            if run is not None and run.head.epoch == epoch:
                run.head = replace(run.head, lease_until=0)

    async def due(self, scope: Scope, now: int, limit: int = 100) -> list[Head]:
        heads = (s.head for s in self._streams.open_runs() if self._streams.is_due(s.head, now))
        return sorted(heads, key=_by_stream)[:limit]

    async def reclaim(self, scope: Scope) -> int:
        held = [s for s in self._streams.open_runs() if s.head.lease_until > 0]
        for run in held:
            run.head = replace(run.head, lease_until=0)
        return len(held)

    # -- Feed ----------------------------------------------------------------------------------------------------

    async def changes(self, cursor: int, limit: int = 500) -> list[Record]:
        return self._rows[cursor : cursor + limit]

    async def tip(self) -> int:
        return len(self._rows)

    async def wait(self, cursor: int, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while len(self._rows) <= cursor:
                    await self._changed.wait()
        except TimeoutError:
            return len(self._rows) > cursor
        return True

    # -- Inspector -----------------------------------------------------------------------------------------------

    async def raw_events(self, scope: Scope, stream: bytes) -> list[Record]:
        return list(self._visible(scope, stream).records)

    async def raw_payload(self, scope: Scope, ref: str) -> Payload | None:
        try:
            found = self._payloads.get(unb64(ref))
        except JournalCorrupt:
            return None
        if found is None or scope.is_system or found.domain == PUBLIC_DOMAIN:
            return found
        name = (await self._vault.load(frozenset({found.domain})))[found.domain]
        return found if name is not None and name.tenant == scope.tenant else None

    async def raw_signals(self, scope: Scope, stream: bytes) -> list[tuple[str, int]]:
        return list(self._visible(scope, stream).signals.items())

    # ------------------------------------------------------------------------------------------------------------

    def _write(self, stream: Stream, bodies: Sequence[Body], at: int, payloads: Sequence[Payload]) -> Record:
        """Append without further checks; return the last record."""
        head = stream.head
        at = max(at, stream.records[-1].at) if stream.records else at
        seq, hash_ = head.head_seq, head.head_hash
        for body in bodies:
            seq += 1
            hash_ = link(head.stream, seq, at, hash_, body.data)
            record = Record(head.stream, seq, at, body.kind, body.data, hash_, len(self._rows) + 1)
            stream.records.append(record)
            self._rows.append(record)
        for payload in payloads:
            self._payloads.setdefault(payload.ref, payload._replace(text=None))
        stream.head = replace(head, head_seq=seq, head_hash=hash_)
        self._changed.set()
        self._changed = asyncio.Event()
        return stream.records[-1]

    def _visible(self, scope: Scope, stream: bytes) -> Stream:
        found = self._streams.get(stream)
        if found is None or not (scope.is_system or found.head.tenant == scope.tenant):
            raise RunNotFound(f"no run {stream.hex()}")
        return found

    def _run(self, scope: Scope, stream: bytes) -> Stream:
        found = self._visible(scope, stream)
        if found.head.kind != "run":
            raise RunNotFound(f"stream {stream.hex()} is no run")
        return found


def _check_kinds(bodies: Sequence[Body]) -> None:
    for body in bodies:
        if body.kind not in KINDS:
            raise UnknownEventKind(f"no such event kind: {body.kind!r}")


def _by_stream(head: Head) -> bytes:
    return head.stream


def _name(head: Head) -> str:
    return head.stream.hex()
