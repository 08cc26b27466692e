"""What must hold of the record and the world after a process died, whatever it was at."""

from __future__ import annotations

from pathlib import Path

import apsw

from devassist.core.states import State
from devassist.runtime.services import Services
from devassist.runtime.view import RunView
from tests.crash.child import USER
from tests.crash.kit import Call, acknowledged, answer, calls_of, held, quiet, successor, views
from tests.crash.world import Witness

ROUNDS = 5


async def taken_over(place: Path) -> list[RunView]:
    """The next process drives the directory: every run ends, or waits for a person, who then looks at the world. The
    runs in the end."""
    witness = Witness(place)
    async with successor(place) as services:
        await quiet(services)
        found = await views(services)
        assert acknowledged(place) <= {view.stream.hex() for view in found}
        assert {view.state.state for view in found} <= {State.FINAL_ANSWER, State.AWAIT_APPROVAL}
        for call in (call for view in found for call in calls_of(view)):
            as_witnessed(call, witness)
        await settled(services, witness)
        found = await views(services)
        for view in found:
            assert view.state.state is State.FINAL_ANSWER
            assert (await services.auditor.verify(USER, view.stream)).ok
            for call in calls_of(view):
                as_witnessed(call, witness)
                made = len(witness.of(call.key))
                assert made == 1 if call.effect == "once" else made >= 1
    projected(place, found)
    return found


def projected(place: Path, runs: list[RunView]) -> None:
    """What is derived has caught up: a row of the decision log for each event, a graph of each run."""
    data = place / "data"
    assert {path.stem for path in (data / "graphs").glob("*.mmd")} == {view.stream.hex() for view in runs}
    db = apsw.Connection(str(data / "log.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = list(db.execute("SELECT trace_id, seq FROM decision_log WHERE trace_id IS NOT NULL"))
    finally:
        db.close()
    assert sorted(rows) == sorted((view.stream.hex(), seq) for view in runs for _, seq, _ in view.placed)


def as_witnessed(call: Call, witness: Witness) -> None:
    """What happened in the world stands in the record: each effect has an intent of its own, and none that takes
    effect once happened twice. What the record says, the world knows of."""
    lines = witness.of(call.key)
    attempts = [(line.run, line.attempt, line.epoch) for line in lines]
    assert set(attempts) <= {(call.run, intent.attempt, intent.epoch) for intent in call.intents}
    assert len(set(attempts)) == len(attempts)
    assert call.results <= len(lines)
    if call.effect == "once":
        assert len(lines) <= 1
        assert len(lines) == call.results or call.doubted
    else:
        assert call.results == 1


async def settled(services: Services, witness: Witness) -> None:
    """A person looks at the world: what happened is said to have, what did not is made."""
    for _ in range(ROUNDS):
        doubts = [doubt for view in await views(services) if (doubt := held(view)) is not None]
        if not doubts:
            return
        assert {doubt.reason for doubt in doubts} == {"settlement"}
        for doubt in doubts:
            await answer(services, doubt, "happened" if witness.of(doubt.key) else "repeat")
        await services.service.sweep()
        await quiet(services)
