"""A process that commits to knowledge.db, and dies before a given statement of its transaction."""

from __future__ import annotations

import json
import os
import signal
from itertools import count
from pathlib import Path

import apsw
import uvloop

from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.testing.knowledge_kit import ALICE, T0, amendment, deletion, first, revision

V1 = revision("rules", "2024-01-01", *(f"alpha {n}" for n in range(4)))
V2 = revision("rules", "2025-01-01", "alpha 0", "beta one", "beta two")
OTHER = revision("other", "2024-01-01", "alpha other")


async def begin(place: Path) -> None:
    """The state before."""
    store = await SqliteKnowledge.open(place / "knowledge.db")
    await store.commit(ALICE, [first(V1), first(OTHER)], T0)
    await store.close()


async def _commit(place: Path, at: int) -> None:
    """An amendment and a delete in one commit; SIGKILL before its statement ``at`` (0: never), how many it had goes to
    the file ``statements``."""
    store = await SqliteKnowledge.open(place / "knowledge.db")
    plans = [await amendment(store, V2), await deletion(store, OTHER.doc_id)]
    reached = 0

    def watch(cursor: object, sql: str, bindings: object) -> bool:
        nonlocal reached
        reached += reached > 0 or sql.startswith("BEGIN IMMEDIATE")
        if reached == at > 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    for connection in apsw.connections():
        connection.exec_trace = watch
    await store.commit(ALICE, plans, T0 + 1)
    (place / "statements").write_text(str(reached))
    await store.close()


def commit(argument: str) -> None:
    given = json.loads(argument)
    uvloop.run(_commit(Path(given["place"]), given["at"]))


async def _commit_on(place: Path) -> None:
    """One document after the other for ever; each is acknowledged in the file of that name once it is committed."""
    store = await SqliteKnowledge.open(place / "knowledge.db")
    with (place / "acknowledged").open("a", buffering=1) as acknowledged:
        for number in count():
            doc_id = f"doc-{number}"
            await store.commit(ALICE, [first(revision(doc_id, "2024-01-01", *["word"] * 5))], T0)
            acknowledged.write(f"{doc_id}\n")


def commit_on(argument: str) -> None:
    uvloop.run(_commit_on(Path(json.loads(argument)["place"])))
