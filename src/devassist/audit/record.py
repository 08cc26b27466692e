"""A run as its journal has it: events in place and the texts that can still be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from devassist.core.codec import parse_canonical
from devassist.core.errors import JournalCorrupt, PayloadErased, RunNotFound
from devassist.core.event_codec import decode, refs
from devassist.core.events import Event, RunStarted
from devassist.core.scope import Scope
from devassist.ports.journal import Journal, Record

Placed = tuple[Event, int, int]
"""An event with its seq and its time."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """``texts`` lacks what was erased."""

    stream: bytes
    started: RunStarted
    placed: Sequence[Placed]
    texts: dict[str, str]


def placed(records: Iterable[Record]) -> list[Placed]:
    """Raises JournalCorrupt."""
    return [(decode(parse_canonical(r.body)), r.seq, r.at) for r in records]


def init_of(events: Sequence[Placed]) -> RunStarted | None:
    """What the run began with; None where the events are not those of a run."""
    first = events[0][0] if events else None
    return first if isinstance(first, RunStarted) else None


async def recorded(journal: Journal, scope: Scope, stream: bytes) -> Recorded:
    """Raises RunNotFound for what is no run of the scope's tenant, JournalCorrupt where a row or text is damaged."""
    events = placed(await journal.read(scope, stream))
    started = init_of(events)
    if started is None:
        raise RunNotFound(f"no run {stream.hex()}")
    named = list(dict.fromkeys(ref for event, _, _ in events for ref in refs(event)))
    return Recorded(stream, started, events, await _texts(journal, scope, stream, named))


async def _texts(journal: Journal, scope: Scope, stream: bytes, named: Sequence[str]) -> dict[str, str]:
    try:
        return await journal.payloads(scope, stream, named)
    except PayloadErased:
        found: dict[str, str] = {}
        for ref in named:
            try:
                found |= await journal.payloads(scope, stream, [ref])
            except PayloadErased:
                continue
        return found


def definition_text(run: Recorded) -> str:
    """The definition is nobody's text: it is never erased. Raises JournalCorrupt where it is missing."""
    text = run.texts.get(run.started.definition)
    if text is None:
        raise JournalCorrupt(f"payload {run.started.definition}, the definition of the run, cannot be read")
    return text
