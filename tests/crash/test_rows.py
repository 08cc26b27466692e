"""C11: many processes write to one file, and somebody reads for a long time."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path

import apsw

from devassist.store.sqlite_journal import MINIMUM_SQLITE
from tests.crash.kit import successor
from tests.crash.nursery import process
from tests.crash.rows import KEYS, SCOPE, pragmas
from tests.store.files import store

WRITERS, ROWS = 5, 200


async def test_five_writers_beside_a_long_reader(tmp_path: Path, nursery: Path) -> None:
    """Nobody sees an error, no row is missing or twice, and the reader's view does not move while it reads."""
    async with store(tmp_path):
        pass
    reader = apsw.Connection(str(tmp_path / "journal.db"))
    reader.execute("BEGIN")
    reading = reader.execute("SELECT id FROM events UNION ALL SELECT 1 UNION ALL SELECT 2")
    assert next(reading) == (1,)
    async with AsyncExitStack() as stack:
        writers = [
            await stack.enter_async_context(
                process(nursery, "rows:write", json.dumps({"place": str(tmp_path), "me": me, "rows": ROWS}),
                        tmp_path / f"stderr{me}")
            )
            for me in range(WRITERS)
        ]  # fmt: skip
        ends = [(await writer.wait(), writer.told) for writer in writers]
    assert ends == [(0, "")] * WRITERS
    assert [*reading] == [(2,)]
    assert reader.execute("SELECT count(*) FROM events").fetchone() == (0,)
    reader.execute("COMMIT")
    assert reader.execute("SELECT count(*), count(DISTINCT body) FROM events").fetchone() == (WRITERS * ROWS,) * 2
    reader.close()
    for me in range(WRITERS):
        said = json.loads((tmp_path / f"said{me}").read_text())
        assert said["begins"] == ["BEGIN IMMEDIATE"]
        assert {tuple(each) for each in said["pragmas"]} == {KEYS, ("journal.db", "wal", True)}
    async with store(tmp_path) as (journal, _):
        for head in await journal.streams(SCOPE, "access"):
            seqs = [record.seq for record in await journal.read(SCOPE, head.stream)]
            assert seqs == list(range(ROWS * WRITERS // 2 if head.name == "shared" else ROWS // 2))


async def test_every_connection_of_the_service_waits_for_a_lock(tmp_path: Path) -> None:
    """Whichever file it is of, and whatever it is for: write-ahead logging, and seconds of patience."""
    async with successor(tmp_path):
        found = {KEYS, *((name, "wal", True) for name in ("journal.db", "knowledge.db", "log.db"))}
        assert pragmas(tmp_path) == found
    assert tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) >= MINIMUM_SQLITE
