"""A run as read from the journal: its events in place, and their texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from devassist.core.errors import PayloadErased, RunNotFound
from devassist.core.event_codec import refs
from devassist.core.events import Event
from devassist.core.run_state import RunState
from devassist.core.scope import Scope
from devassist.core.transitions import fold
from devassist.ports.journal import Journal, Record

Placed = tuple[Event, int, int]
"""An event with its seq and its time."""


@dataclass(frozen=True, slots=True)
class RunView:
    """``texts`` lacks what was erased. ``driven``: whether a run in INIT has its turn."""

    stream: bytes
    state: RunState
    placed: list[Placed]
    texts: dict[str, str]
    driven: bool = True

    @property
    def events(self) -> list[Event]:
        return [event for event, _, _ in self.placed]

    def text(self, ref: str) -> str | None:
        return self.texts.get(ref)


def decoded(records: Iterable[Record]) -> list[Placed]:
    """Raises UnknownEventKind or JournalCorrupt."""
    return [(r.event or r.decoded(), r.seq, r.at) for r in records]


async def texts_of(journal: Journal, scope: Scope, stream: bytes, placed: Iterable[Placed]) -> dict[str, str]:
    """The texts that events name, without those whose domain was erased."""
    wanted = list({ref: None for event, _, _ in placed for ref in refs(event)})
    try:
        return await journal.payloads(scope, stream, wanted)
    except PayloadErased:
        texts: dict[str, str] = {}
        for ref in wanted:
            try:
                texts |= await journal.payloads(scope, stream, [ref])
            except PayloadErased:
                continue
        return texts


async def load(journal: Journal, scope: Scope, stream: bytes) -> RunView:
    """Raises RunNotFound for what is no run of the scope's tenant."""
    placed = decoded(await journal.read(scope, stream))
    if not placed or placed[0][0].kind != "run_started":
        raise RunNotFound(f"no run {stream.hex()}")
    state = fold(placed)
    assert state is not None, "a run has at least its INIT"
    return RunView(stream, state, placed, await texts_of(journal, scope, stream, placed))
