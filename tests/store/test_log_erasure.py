"""Erasure reaches the decision log: its columns, its index, and the bytes of its files."""

from __future__ import annotations

from devassist.core.scope import Scope
from devassist.ports.decision_log import LogQuery
from devassist.store.database import connect
from devassist.store.log_query import COLUMNS
from tests.store.log_bench import ADMIN, BOB, Bench, a_few_runs


async def test_erasure_is_followed(bench: Bench) -> None:
    """The fact in the stream ``erasure`` blanks texts and name of that domain, and nothing else."""
    await a_few_runs(bench)
    log = await bench.log()
    await log.catch_up()
    kept = [r for r in bench.rows() if r[6] == "alice"]
    await bench.erase(BOB)
    await log.catch_up()
    rows = bench.rows()
    assert [r for r in rows if r[6] == "alice"] == kept
    theirs = [dict(zip(COLUMNS, r, strict=True)) for r in rows if r[0] and r[6] is None]
    assert len(theirs) == 4 + 12
    assert not [t for t in theirs if t["input_text"] or t["output_text"] or t["error_message"]]
    assert (await log.query(ADMIN, LogQuery(text="second"))).rows == []
    assert (await log.query(ADMIN, LogQuery(user_id="bob"))).rows == []


async def test_erased_texts_leave_no_bytes(bench: Bench) -> None:
    """After many erasures in turn no file holds a name or text of the erased, and the index no trigram of theirs."""
    users = [Scope("default", f"user-{n:03}") for n in range(40)]
    log = await bench.log()
    for round_ in range(6):
        for number, user in enumerate(users):
            words = f"secret{number:03}of{round_}"
            await bench.pen(user).whole(words + " 机密" * (number * 7 % 50), words + "x" * (number * 31 % 900))
        await log.catch_up()
        await log._index()
    live = set(range(40))
    for first in (0, 13, 27):
        for number in range(first, first + 10):
            await bench.erase(users[number])
            live.discard(number)
        await log.catch_up()
        data = b"".join(p.read_bytes() for p in sorted(bench.path.parent.iterdir()))
        for number in range(40):
            assert (f"secret{number:03}".encode() in data) == (number in live)
            assert (f"user-{number:03}".encode() in data) == (number in live)
    assert {f"secret{n:03}" in str(bench.rows()) for n in range(13, 23)} == {False}
    assert {number for number in range(40) if f"{number:03}" in _trigrams(bench)} == live


def _trigrams(bench: Bench) -> set[str]:
    """What the full-text index holds."""
    db = connect(bench.path)
    try:
        db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, texts_fts, row)")
        return {row[0] for row in db.execute("SELECT term FROM temp.terms")}
    finally:
        db.close()


async def test_erasing_directly_is_the_same(bench: Bench) -> None:
    """``erase`` is idempotent and needs no fact."""
    await a_few_runs(bench)
    log = await bench.log()
    await log.catch_up()
    domain = await bench.vault.find(BOB, "user", "bob")
    assert domain is not None
    for _ in range(2):
        await log.erase(domain)
    assert b"second answer" not in bench.path.read_bytes()
    assert bench.rows("SELECT count(*) FROM decision_log WHERE user_id = 'bob'") == [(0,)]
