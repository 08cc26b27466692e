"""A process that writes rows beside others that do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import apsw
import uvloop

from devassist.core.event_codec import encode
from devassist.core.scope import Scope
from devassist.core.signals import Fact
from devassist.ports.journal import Body
from tests.store.files import store

SCOPE = Scope("default", "system", frozenset({"system"}))
TOGETHER = 10
LEAST_BUSY_MS = 5000
KEYS = ("keys.db", "truncate", True)
"""A key that was destroyed leaves no copy, so its file has no log beside it."""


async def _write(place: Path, me: int, rows: int) -> None:
    """Half of them to a stream that all write to; what the connections did goes to the file ``said<me>``."""
    begins: set[str] = set()

    def watch(cursor: object, sql: str, bindings: object) -> bool:
        begins.update(line for line in sql.splitlines() if line.startswith("BEGIN"))
        return True

    async with store(place) as (journal, _):
        for connection in apsw.connections():
            connection.exec_trace = watch
        for first in range(0, rows, TOGETHER):
            facts = [Fact("row", f"{me}", (("n", str(n)),)) for n in range(first, first + TOGETHER)]
            bodies = [Body(fact.kind, encode(fact), fact) for fact in facts]
            names = ["shared" if n % 2 else f"own{me}" for n in range(TOGETHER)]
            await asyncio.gather(
                *(journal.note(SCOPE, "access", name, [body], 0) for name, body in zip(names, bodies, strict=True))
            )
        said = {"begins": sorted(begins), "pragmas": sorted(pragmas(place))}
    (place / f"said{me}").write_text(json.dumps(said))


def pragmas(place: Path) -> set[tuple[str, str, bool]]:
    """(file, journal mode, whether a lock is waited for) of every connection of this process to a file below there."""
    found: set[tuple[str, str, bool]] = set()
    for connection in apsw.connections():
        path = Path(connection.filename)
        if place in path.parents:
            waits = int(connection.pragma("busy_timeout")) >= LEAST_BUSY_MS
            found.add((path.name, str(connection.pragma("journal_mode")), waits))
    return found


def write(argument: str) -> None:
    given = json.loads(argument)
    uvloop.run(_write(Path(given["place"]), given["me"], given["rows"]))
