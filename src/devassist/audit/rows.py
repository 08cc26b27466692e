"""The raw rows of one stream, recomputed one by one: place, time, form, link, meaning.

Nothing of a row is trusted and nothing is raised: whatever contradicts the record is a fault that names its row. One
wrong byte gives the fault of its own row, not one for every row that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from devassist.audit.shapes import misfit
from devassist.core.chain import ZERO_HASH, link
from devassist.core.codec import parse_canonical
from devassist.core.errors import IllegalTransition, JournalCorrupt
from devassist.core.event_codec import decode
from devassist.core.events import Event, RunStarted
from devassist.core.run_state import RunState
from devassist.core.transitions import apply
from devassist.ports.journal import Fault, Record

_MAX_AT = 2**63


class Walk:
    """Takes the rows of ``stream`` in order; afterwards holds what they amount to.

    ``state`` is the fold as far as it is legal, ``whole`` whether that is all of it. ``tips`` are the hashes that the
    head may name: the last row's, and what that row's should be.
    """

    def __init__(self, stream: bytes, *, run: bool) -> None:
        self.stream = stream
        self.events: list[tuple[int, Event]] = []
        self.faults: list[Fault] = []
        self.state: RunState | None = None
        self.whole = True
        self.last: Record | None = None
        self.tips: tuple[bytes, ...] = ()
        self._run = run
        self._expected = 0
        self._at = 0
        self._before: tuple[bytes, ...] | None = (ZERO_HASH,)

    @property
    def is_run(self) -> bool:
        return self._run

    def row(self, seq: object, column: str = "") -> str:
        return f"events(stream={self.stream.hex()}, seq={seq}){column and '.'}{column}"

    def take(self, rows: Sequence[Record]) -> None:
        for record in rows:
            self._place(record)
            self._time(record, linked=self._link(record))
            event = self._read(record)
            if event is None:
                self.whole = False
            else:
                self._fold(record, event)
                self.events.append((record.seq, event))
            self.last = record

    def _fault(self, seq: object, column: str, problem: str) -> None:
        self.faults.append(Fault(self.row(seq, column), problem))

    def _place(self, record: Record) -> None:
        seq = cast("object", record.seq)
        if record.stream != self.stream:
            self._fault(seq, "stream", f"is {record.stream!r}")
        if type(seq) is not int or seq < self._expected:
            self._fault(seq, "seq", f"cannot stand where seq {self._expected} belongs")
            self._before, self.whole = None, False
            return
        if seq > self._expected:
            upto = "" if seq == self._expected + 1 else f", and all up to {seq - 1}"
            self._fault(self._expected, "", f"is missing{upto}")
            self._before, self.whole = None, False
        self._expected = seq + 1

    def _time(self, record: Record, *, linked: bool) -> None:
        at = cast("object", record.at)
        if type(at) is not int or not 0 <= at < _MAX_AT:
            self._fault(record.seq, "at", f"{at!r} is no time")
        elif at < self._at:
            self._fault(record.seq, "at", f"{at} is before {self._at}, the time of the event before it")
        elif linked:
            self._at = at

    def _link(self, record: Record) -> bool:
        """Compare with the link to the row before, both as that row's hash is stored and as it should be. False for a
        row that is not linked rightly: its time then says nothing of the rows that follow."""
        stored = cast("object", record.hash)
        computed = tuple(h for before in self._before or () if (h := _hash(self.stream, record, before)))
        linked = True
        if type(stored) is not bytes or len(stored) != len(ZERO_HASH):
            self._fault(record.seq, "hash", "is not 32 bytes")
            self._before, linked = computed or None, False
        elif self._before is None:
            # The row before is missing or out of place: this link has no other end to check.
            self._before = (stored,)
        elif stored in computed:
            self._before = (stored,)
        else:
            self._fault(record.seq, "hash", "is not the hash of this body at this place after the event before it")
            self._before, linked = (stored, *computed), False
        self.tips = self._before or ()
        return linked

    def _read(self, record: Record) -> Event | None:
        data = cast("object", record.body)
        if type(data) is not bytes:
            self._fault(record.seq, "body", "is no blob")
            return None
        try:
            body: Any = parse_canonical(data)
            if not isinstance(body, dict):
                raise JournalCorrupt("body is no object")
            kind = cast("dict[str, Any]", body).get("k")
            if record.kind != kind:
                self._fault(record.seq, "kind", f"is {record.kind!r}, the body says {kind!r}")
            event = decode(cast("dict[str, Any]", body))
        except JournalCorrupt as error:
            self._fault(record.seq, "body", error.detail)
            return None
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            self._fault(record.seq, "body", f"cannot be read: {error}")
            return None
        problem = misfit(event)
        if problem is not None:
            self._fault(record.seq, "body", problem)
            return None
        return event

    def _fold(self, record: Record, event: Event) -> None:
        if not self.events and isinstance(event, RunStarted):
            self._run = True
        if not self._run or not self.whole:
            return
        try:
            self.state = apply(self.state, event, record.seq, self._at)
        except IllegalTransition as error:
            self._fault(record.seq, "", error.detail)
            self.whole = False


def _hash(stream: bytes, record: Record, before: bytes) -> bytes:
    """The hash that the row should have; empty where its columns are not of the kind that is hashed."""
    seq, at, body = cast("tuple[object, object, object]", (record.seq, record.at, record.body))
    if type(seq) is not int or type(at) is not int or type(body) is not bytes:
        return b""
    if not (0 <= seq < _MAX_AT and 0 <= at < _MAX_AT and len(stream) == len(ZERO_HASH) // 2):
        return b""
    return link(stream, seq, at, before, body)
