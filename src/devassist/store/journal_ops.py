"""The journal's write operations, run by the writer thread inside its transaction. Each checks before it writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from devassist.core.chain import ZERO_HASH, link
from devassist.core.errors import (
    ConversationBusy,
    Forbidden,
    IdempotencyMismatch,
    IllegalTransition,
    Overloaded,
    RunNotFound,
    SeqMoved,
    StreamExists,
    Superseded,
    UnknownEventKind,
)
from devassist.core.events import KINDS
from devassist.core.scope import Scope
from devassist.core.states import CLOSED, State
from devassist.ports.journal import Append, Appended, Begun, Body, Head, NewRun, Record
from devassist.ports.vault import Payload
from devassist.store.database import Database
from devassist.store.sql_files import statements

SQL = statements("journal.sql")
OPEN_SQL = " AND ".join(f"state <> '{s}'" for s in State if s in CLOSED)
_CLOSED = frozenset(str(s) for s in CLOSED)
_HEAD_AT, _DRIVING = 6, 11


def check_kinds(bodies: Sequence[Body]) -> None:
    """Raises UnknownEventKind: the journal takes only what this build can read back."""
    for body in bodies:
        if body.kind not in KINDS:
            raise UnknownEventKind(f"no such event kind: {body.kind!r}")


def head_of(row: Sequence[Any]) -> Head:
    """A Head from a row of ``SELECT * FROM heads``."""
    values = [v for i, v in enumerate(row) if i != _HEAD_AT]
    values[_DRIVING] = bool(values[_DRIVING])
    return Head(*values, head_at=row[_HEAD_AT])


class Written(NamedTuple):
    """What an operation answers, and the rows that it added."""

    value: Any
    records: list[Record]


def _insert(
    db: Database, stream: bytes, after: int, prev: bytes, at: int, bodies: Sequence[Body], records: list[Record]
) -> tuple[int, bytes]:
    seq = after
    for body in bodies:
        seq += 1
        prev = link(stream, seq, at, prev, body.data)
        db.execute(SQL["insert_event"], (stream, seq, at, body.kind, body.data, prev))
        records.append(Record(stream, seq, at, body.kind, body.data, prev, db.last_insert_rowid(), body.event))
    return seq, prev


def _insert_payloads(db: Database, payloads: Sequence[Payload]) -> None:
    if payloads:
        db.executemany(SQL["insert_payload"], [(p.ref, p.domain, p.blob) for p in payloads])


def begin(db: Database, scope: Scope, run: NewRun, payloads: Sequence[Payload]) -> Written:
    """``payloads``: those of ``run`` that may not be stored yet."""
    if run.tenant != scope.tenant and not scope.is_system:
        raise Forbidden(f"a run of tenant {run.tenant!r} cannot be begun for tenant {scope.tenant!r}")
    if run.idem is not None:
        known = db.execute(SQL["find_idem"], (run.tenant, run.actor, run.idem)).fetchone()
        if known is not None:
            if json.loads(known[1]).get("digest") != run.digest:
                raise IdempotencyMismatch("this Idempotency-Key was used with another body; use a new key")
            return Written(Begun(load_head(db, known[0]), created=False, claimed=False), [])
    if db.execute(SQL["head"], (run.stream,)).fetchone() is not None:
        raise StreamExists(f"a stream {run.stream.hex()} exists")
    if run.max_open:
        (count,) = db.execute(SQL["count_open"]).fetchone() or (0,)
        if count >= run.max_open:
            raise Overloaded(f"{count} runs are open, the limit is {run.max_open}; try again later")
    # Children belong to their root, not to a conversation.
    conversation = run.conversation if run.conversation and run.root == run.stream else None
    waiting = None
    if conversation is not None and not run.fresh:
        key = (run.tenant, run.actor, conversation, run.stream)
        waiting = db.execute(SQL["oldest_waiting"], key).fetchone()
        if waiting is not None and run.busy == "reject":
            raise ConversationBusy(f"conversation {conversation} has an open run {waiting[0].hex()}")
    claimed = run.lease_until > 0 and waiting is None
    records: list[Record] = []
    seq, hash_ = _insert(db, run.stream, -1, ZERO_HASH, run.at, (run.body,), records)
    _insert_payloads(db, payloads)
    head = Head(
        run.stream, run.tenant, "run", None, seq, hash_, int(claimed), "INIT", run.actor, conversation, run.root,
        claimed, run.lease_until if claimed else 0, 0, run.flags, run.idem,
    )  # fmt: skip
    db.execute(SQL["insert_head"], (
        head.stream, head.tenant, head.kind, None, seq, hash_, run.at, head.epoch, head.state, head.actor,
        conversation, head.root, int(claimed), head.lease_until, head.flags, head.idem,
    ))  # fmt: skip
    return Written(Begun(head, created=True, claimed=claimed), records)


def load_head(db: Database, stream: bytes) -> Head:
    row = db.execute(SQL["head"], (stream,)).fetchone()
    if row is None:
        raise RunNotFound(f"no run {stream.hex()}")
    return head_of(row)


def _place(db: Database, scope: Scope, stream: bytes) -> Any:
    row = db.execute(SQL["place"], (stream,)).fetchone()
    if row is None or row[5] is None or (row[0] != scope.tenant and not scope.is_system):
        raise RunNotFound(f"no run {stream.hex()}")
    return row


def append(db: Database, scope: Scope, a: Append, payloads: Sequence[Payload]) -> Written:
    """``payloads``: those of ``a`` that may not be stored yet."""
    tenant, seq, prev, last_at, epoch, state, actor, conversation, driving = _place(db, scope, a.stream)
    if epoch != a.epoch:
        raise Superseded(f"run {a.stream.hex()} is at epoch {epoch}; epoch {a.epoch} no longer owns it")
    if seq != a.after:
        raise SeqMoved(f"run {a.stream.hex()} stands at seq {seq}, not {a.after}", head_seq=seq)
    if state in _CLOSED:
        raise IllegalTransition(f"run {a.stream.hex()} is closed; nothing is appended to it")
    at = max(a.at, last_at)
    records: list[Record] = []
    last, hash_ = _insert(db, a.stream, seq, prev, at, a.bodies, records)
    _insert_payloads(db, payloads)
    woken = None
    if a.head.state in _CLOSED:
        db.execute(SQL["close_run"], (last, hash_, at, a.head.state, a.stream))
        if driving and conversation is not None:
            row = db.execute(SQL["oldest_waiting"], (tenant, actor, conversation, a.stream)).fetchone()
            if row is not None:
                woken = row[0]
                db.execute(SQL["wake"], (at, woken))
    else:
        head = a.head
        moved = (last, hash_, at, head.state, int(head.driving), head.wake_at, a.stream)
        db.execute(SQL["move_owner"], moved)
    return Written(Appended(seq + 1, last, at, hash_, woken), records)


def signal(
    db: Database, scope: Scope, stream: bytes, signal_id: str, body: Body, at: int, payloads: Sequence[Payload]
) -> Written:
    _tenant, seq, prev, last_at, _epoch, state, *_ = _place(db, scope, stream)
    known = db.execute(SQL["find_signal"], (stream, signal_id)).fetchone()
    if known is not None:
        return Written(int(known[0]), [])
    if state in _CLOSED:
        return Written(None, [])
    records: list[Record] = []
    at = max(at, last_at)
    last, hash_ = _insert(db, stream, seq, prev, at, (body,), records)
    _insert_payloads(db, payloads)
    db.execute(SQL["insert_signal"], (stream, signal_id, last))
    db.execute(SQL["move_signal"], (last, hash_, at, at, stream))
    return Written(last, records)


def note(
    db: Database, tenant: str, new_id: bytes, kind: str, name: str, bodies: Sequence[Body], at: int,
    payloads: Sequence[Payload],
) -> Written:  # fmt: skip
    found = db.execute(SQL["find_stream"], (tenant, kind, name)).fetchone()
    stream, seq, prev, last_at = found if found is not None else (new_id, -1, ZERO_HASH, 0)
    at = max(at, last_at)
    records: list[Record] = []
    last, hash_ = _insert(db, stream, seq, prev, at, bodies, records)
    _insert_payloads(db, payloads)
    if found is None:
        row = (stream, tenant, kind, name, last, hash_, at, 0, None, None, None, None, 0, 0, "", None)
        db.execute(SQL["insert_head"], row)
    else:
        db.execute(SQL["move_fact"], (last, hash_, at, stream))
    return Written(Appended(seq + 1, last, at, hash_), records)


def claim(db: Database, scope: Scope, stream: bytes, now: int, until: int, *, aside: bool) -> int | None:
    _place(db, scope, stream)
    values = {"stream": stream, "now": now, "until": until}
    row = db.execute(SQL["claim_aside" if aside else "claim"], values).fetchone()
    return None if row is None else int(row[0])


def renew(db: Database, leases: Sequence[tuple[bytes, int]], until: int) -> list[bytes]:
    return [stream for stream, epoch in leases if db.execute(SQL["renew"], (until, stream, epoch)).fetchone() is None]


def release(db: Database, leases: Sequence[tuple[bytes, int]]) -> None:
    db.executemany(SQL["release"], list(leases))


def reclaim(db: Database) -> int:
    return len(db.execute(SQL["reclaim"]).fetchall())
