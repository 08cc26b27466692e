"""The columns that a head keeps beside a stream, against what the stream's events say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from devassist.audit.rows import Walk
from devassist.core.codec import unb64
from devassist.core.errors import JournalCorrupt
from devassist.core.heads import head_fields
from devassist.core.run_state import RunState
from devassist.core.states import State
from devassist.ports.journal import Fault, Head, Record

_NOT_KEPT = -1
"""``head_at`` of a store that keeps none."""


def run_columns(stream: bytes, state: RunState) -> dict[str, Any]:
    """What the columns of a run's head must hold, from its events alone. ``driving`` of a run in INIT, ``wake_at``,
    ``epoch`` and the lease are not fixed by them."""
    started, fields = state.started, head_fields(state)
    is_root = started.root is None
    columns: dict[str, Any] = {
        "tenant": started.tenant, "kind": "run", "name": None, "state": fields.state, "actor": unhex(started.actor),
        "conversation": (started.conversation or None) if is_root else None,
        "root": stream if started.root is None else unhex(started.root), "flags": ",".join(started.flags),
        "idem": None if started.idem is None else _unb64(started.idem),
    }  # fmt: skip
    if state.state is not State.INIT:
        columns["driving"] = fields.driving
    return columns


def head_faults(head: Head, walk: Walk) -> Iterator[Fault]:
    """Every column that contradicts the rows walked. Where the fold is not whole, only the head's place is compared."""
    where = f"heads(stream={walk.stream.hex()})"
    last = walk.last
    if last is None:
        yield Fault(walk.row(0), f"is missing, the head stands at seq {head.head_seq}")
        return
    yield from _place(head, walk, last, where)
    if not walk.is_run:
        columns: dict[str, Any] = dict.fromkeys(("state", "actor", "conversation", "root", "idem"))
    elif walk.state is None or not walk.whole:
        return
    else:
        columns = run_columns(walk.stream, walk.state)
        yield from _bounds(head, walk.state, where)
    for name, due in columns.items():
        value = getattr(head, name)
        if value != due:
            yield Fault(f"{where}.{name}", f"is {_said(value)}, the events give {_said(due)}")


def _place(head: Head, walk: Walk, last: Record, where: str) -> Iterator[Fault]:
    seq, last_seq = cast("tuple[object, object]", (head.head_seq, last.seq))
    if type(seq) is int and type(last_seq) is int and seq > last_seq:
        yield Fault(walk.row(last_seq + 1), f"is missing, the head stands at seq {seq}")
        return
    if seq != last_seq:
        yield Fault(f"{where}.head_seq", f"is {seq!r}, the last event is seq {last_seq}")
    elif head.head_hash not in walk.tips:
        yield Fault(f"{where}.head_hash", f"is not the hash of seq {last_seq}")
    if head.head_at not in (_NOT_KEPT, last.at):
        yield Fault(f"{where}.head_at", f"is {head.head_at!r}, the last event's time is {last.at}")


def _bounds(head: Head, state: RunState, where: str) -> Iterator[Fault]:
    """Columns that events bound but do not fix."""
    epoch, wake_at = cast("tuple[object, object]", (head.epoch, head.wake_at))
    if type(epoch) is not int or epoch < state.epoch:
        yield Fault(f"{where}.epoch", f"is {epoch!r}, the events record {state.epoch}")
    if state.state is State.INIT:
        if epoch == 0 and head.driving:
            yield Fault(f"{where}.driving", "is set, and nobody has claimed the run")
    elif wake_at not in (0, head_fields(state).wake_at):
        yield Fault(f"{where}.wake_at", f"is {wake_at!r}, the events give {head_fields(state).wake_at}")


def unhex(text: str) -> bytes | None:
    """The bytes of an id in a body; None where it is none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _unb64(text: str) -> bytes | None:
    try:
        return unb64(text)
    except JournalCorrupt:
        return None


def _said(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)
