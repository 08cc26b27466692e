"""kill -9 at many moments of ingestion and indexing: nothing lost, nothing double, nothing found that is gone."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest

from devassist.core.terms import query_terms
from devassist.knowledge.search import TableLibrary
from devassist.runtime.clock import SystemClock
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.testing.knowledge_kit import NOW
from tests.crash.ingestion import (
    ADMIN,
    AMENDED,
    DELETED,
    DOCUMENTS,
    REPEALED,
    ROUNDS,
    TODAY,
    document,
    look,
    started_by,
    text_of,
)
from tests.crash.nursery import process
from tests.vectors.kit import require_chroma, until

KILLS_A_ROUND = 12
LATEST = {1: 100, 2: 80, 3: 25}
"""The last moment that a process of a round may live to see: about a third of those that the round takes."""
LEAST_DEATHS = 15


def prepare(place: Path) -> None:
    """The files of both rounds; in the second some are as they were."""
    for number, editions in ((1, dict.fromkeys(range(DOCUMENTS), 1)), (2, dict.fromkeys(AMENDED, 2))):
        directory = place / f"round-{number}"
        directory.mkdir(parents=True)
        for each, edition in editions.items():
            (directory / f"{each}.md").write_text(text_of(each, edition), encoding="utf-8")


async def seen(place: Path) -> Any:
    """All that there is, without the times of day."""
    store = await SqliteKnowledge.open(place / "knowledge.db")
    keys = await store.all_keys(0, 10_000)
    documents, _ = await store.documents(ADMIN, NOW, limit=1000)
    beliefs: list[Any] = []
    for number in range(DOCUMENTS):
        for b in await store.beliefs(ADMIN, document(number)):
            made = await store.revision(ADMIN, b.rev_id)
            assert made is not None
            texts = [(clause.clause_id, clause.lineage_id, clause.text) for clause in made.clauses]
            beliefs.append((b.rev_id, b.status, b.valid_from, b.valid_to, b.recorded_to is None, texts))
    found = (
        keys, documents, beliefs, [(i.key, i.stamp) for i in await store.items(keys)],
        await store.ingested_below(ADMIN, "policies", ""), await store.quarantined(ADMIN),
        [(row.op, row.key, row.text_sha256) for row in await store.outbox(0, 10_000)],
        [(change.doc_id, change.rev_id, change.reason) for change in await store.changes(0, 10_000)],
        sorted(hit.key for hit in await store.lexical(ADMIN, query_terms("补助标准"), NOW, 1000)),
    )  # fmt: skip
    await store.close()
    db = apsw.Connection(str(place / "knowledge.db"))
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.execute("INSERT INTO fts_1(fts_1) VALUES ('integrity-check')")
    db.close()
    return found


async def once(nursery: Path, place: Path, kind: str, number: int, at: int) -> int:
    """One process; its exit code. It leaves no process behind, and says nothing."""
    argument = json.dumps({"place": str(place), "index": kind, "round": number, "at": at})
    stderr = place / "stderr"
    async with process(nursery, "ingestion:run", argument, stderr) as made:
        code = await made.wait()
        assert code in (0, -signal.SIGKILL), made.told
    await until(lambda: not started_by(place))
    return code


async def read_on(place: Path) -> int:
    """A reader beside the one that writes, until it is cancelled; how many of its searches found something."""
    store = await SqliteKnowledge.open(place / "knowledge.db")
    library, useful = TableLibrary(store, SystemClock(), today=lambda: TODAY, dense=None), 0
    try:
        while True:
            useful += await look(library, place) > 0
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        return useful
    finally:
        await store.close()


@pytest.mark.parametrize("kind", ["exact", "chroma"])
async def test_killed_at_many_moments(tmp_path: Path, nursery: Path, kind: str, in_ci: bool) -> None:
    """A process that ingests, amends, deletes and indexes is killed over and over: in the end table, record, full text
    and vectors are those of one that nobody killed; no search meanwhile found what was gone, and no process stayed."""
    if kind == "chroma":
        require_chroma(in_ci)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    prepare(whole)
    prepare(killed)
    for number in range(1, ROUNDS + 1):
        assert await once(nursery, whole, kind, number, 0) == 0
        indexed = json.loads((whole / "indexed.json").read_text())
        assert indexed["processes"] == (2 if number < ROUNDS else 1)  # a parser where files come, and the index
    chance, deaths = random.Random(20261130), 0
    reading = asyncio.create_task(read_on(killed))
    for number in range(1, ROUNDS + 1):
        for _ in range(KILLS_A_ROUND):
            code = await once(nursery, killed, kind, number, chance.randint(1, LATEST[number]))
            assert not reading.done(), reading.result()
            if code == 0:
                break
            deaths += 1
        assert await once(nursery, killed, kind, number, 0) == 0
    reading.cancel()
    assert await reading > 0
    assert deaths >= LEAST_DEATHS
    before, after = await seen(whole), await seen(killed)
    for one, other in zip(before, after, strict=True):
        assert one == other
    indexed = json.loads((killed / "indexed.json").read_text())
    assert indexed == json.loads((whole / "indexed.json").read_text())
    assert indexed["keys"] == {str(key): stamp for key, stamp in before[3]}
    assert indexed["versions"] == 1
    kept = [number for number in range(DOCUMENTS) if number not in (DELETED, REPEALED)]
    assert {hit.partition("@")[0] for hit in indexed["hits"]} == {document(number) for number in kept}
    assert len(indexed["hits"]) == 3 * len(kept)
