"""Verification: what was appended verifies, and a single changed byte is found and named."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from devassist.audit.verify import Verifier
from devassist.core.chain import ZERO_HASH, link
from devassist.core.codec import canonical
from devassist.core.errors import RunNotFound
from devassist.core.event_codec import encode
from devassist.core.events import RunAborted
from devassist.core.signals import CancelRequested, Fact
from devassist.ports.audit import Report
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from tests.audit.hand_made import USER, HandMade, grounded


@dataclass
class Stored:
    """A directory with one finished run, closed cleanly."""

    path: Path
    vault: FileVault
    stream: bytes
    domain: bytes
    refs: tuple[str, ...]


async def stored(path: Path, vault: FileVault) -> Stored:
    journal = await SqliteJournal.open(path / "journal.db", vault)
    run = await grounded(HandMade(journal, vault))
    await journal.close()
    return Stored(path, vault, run.stream, run.domain, tuple(run.texts))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    path = tmp_path_factory.mktemp("original")
    vault = FileVault(path / "keys")
    yield asyncio.run(stored(path, vault))
    asyncio.run(vault.close())


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where that exists: hundreds of copies are made, and none needs to survive anything."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path_factory.mktemp("arena")
        return
    with TemporaryDirectory(dir=memory, prefix="devassist-") as directory:
        yield Path(directory)


def tampered(original: Stored, arena: Path, change: Callable[[apsw.Connection], object]) -> Report:
    """Verify a copy of the store after ``change``, which may do what the triggers forbid."""
    for old in arena.iterdir():
        old.unlink()
    shutil.copy(original.path / "journal.db", arena)
    db = apsw.Connection(str(arena / "journal.db"))
    db.execute("PRAGMA synchronous = OFF")
    names = [n for (n,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()]
    for name in names:
        db.execute(f"DROP TRIGGER {name}")
    db.execute("PRAGMA ignore_check_constraints = ON")
    change(db)
    db.close()

    async def verified() -> Report:
        journal = await SqliteJournal.open(arena / "journal.db", original.vault)
        try:
            return await Verifier(journal, journal, original.vault).verify(USER, original.stream)
        finally:
            await journal.close()

    return asyncio.run(verified())


def test_an_untouched_run_verifies(original: Stored, arena: Path) -> None:
    """Every event and every payload is counted, and nothing is at fault."""
    report = tampered(original, arena, lambda db: None)
    assert report.faults == ()
    assert (report.ok, report.events, report.payloads, report.erased) == (True, 12, len(original.refs), 0)
    assert len(report.checks) == 5


# -- any byte --------------------------------------------------------------------------------------------------------

EVENTS = ("stream", "seq", "at", "kind", "body", "hash")
HEADS = (
    "tenant", "kind", "head_seq", "head_hash", "head_at", "state", "actor", "conversation", "root", "driving",
    "wake_at", "idem",
)  # fmt: skip
PAYLOADS = ("ref", "domain", "blob")


def flipped(value: Any, at: int, mask: int) -> tuple[str, Any]:
    """SQL and binding for ``value`` with one byte changed, of the same type."""
    if isinstance(value, int):
        changed = value ^ (mask << 8 * (at % 8))
        return "?", changed - 2**64 if changed >= 2**63 else changed
    data = bytearray(value.encode() if isinstance(value, str) else value)
    data[at % len(data)] ^= mask
    return ("CAST(? AS TEXT)" if isinstance(value, str) else "?"), bytes(data)


def flip(table: str, column: str, key: str, row: int, at: int, mask: int, found: dict[str, Any]) -> Any:
    def change(db: apsw.Connection) -> None:
        keys = [k for (k,) in db.execute(f"SELECT {key} FROM {table} ORDER BY {key}").fetchall()]
        found["key"] = keys[row % len(keys)]
        (value,) = db.execute(f"SELECT {column} FROM {table} WHERE {key} = ?", (found["key"],)).fetchone()
        assume(value is not None)
        sql, changed = flipped(value, at, mask)
        try:
            db.execute(f"UPDATE {table} SET {column} = {sql} WHERE {key} = ?", (changed, found["key"]))
        except apsw.ConstraintError:
            assume(False)

    return change


MASKS = st.integers(1, 255)
PLACES = st.integers(0, 5000)


@given(st.sampled_from(EVENTS), PLACES, PLACES, MASKS)
def test_any_changed_byte_of_an_event_is_found(
    original: Stored, arena: Path, column: str, row: int, at: int, mask: int
) -> None:
    """Whatever column and byte: the report names the row, or that it is missing."""
    found: dict[str, Any] = {}
    report = tampered(original, arena, flip("events", column, "seq", row, at, mask, found))
    assert not report.ok
    assert any(f.row.startswith(f"events(stream={original.stream.hex()}, seq={found['key']})") for f in report.faults)


@given(st.sampled_from(HEADS), PLACES, MASKS)
def test_any_changed_byte_of_a_head_is_found(original: Stored, arena: Path, column: str, at: int, mask: int) -> None:
    """The run's columns are recomputed from its events; those that are hidden from the tenant need the system scope."""
    change = flip("heads", column, "stream", 0, at, mask, {})
    try:
        report = tampered(original, arena, change)
    except RunNotFound:
        assert column == "tenant"
        return
    assert not report.ok
    assert all(original.stream.hex() in f.row for f in report.faults)
    assert any(f.row.startswith("heads(") or f.row.endswith("seq=12)") or column == "head_seq" for f in report.faults)


@given(st.sampled_from(PAYLOADS), PLACES, PLACES, MASKS)
def test_any_changed_byte_of_a_payload_is_found(
    original: Stored, arena: Path, column: str, row: int, at: int, mask: int
) -> None:
    """Reference, domain or sealed bytes: the fault names the reference that an event holds."""
    report = tampered(original, arena, flip("payloads", column, "id", row, at, mask, {}))
    assert not report.ok
    named = {f.row.removeprefix("payloads(ref=").partition(")")[0] for f in report.faults}
    assert named <= set(original.refs)
    assert len(named) == 1


# -- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", range(12))
def test_a_missing_event_is_found(original: Stored, arena: Path, seq: int) -> None:
    """Also the first and the last."""
    report = tampered(original, arena, lambda db: db.execute("DELETE FROM events WHERE seq = ?", (seq,)))
    assert f"events(stream={original.stream.hex()}, seq={seq})" in {f.row for f in report.faults}


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("DELETE FROM heads", "heads(stream=*)"),
        ("DELETE FROM events", "events(stream=*, seq=0)"),
        ("DELETE FROM signals", "signals(stream=*, signal_id=a1, seq=6)"),
        ("UPDATE signals SET seq = 5", "signals(stream=*, signal_id=a1, seq=6)"),
        ("UPDATE signals SET seq = 'six'", "signals(stream=*, signal_id=a1, seq=6)"),
        ("UPDATE signals SET signal_id = CAST(x'61ff' AS TEXT)", "signals(stream=*, signal_id=a\\xff, seq=6)"),
        ("UPDATE events SET kind = CAST(x'ff' AS TEXT) WHERE seq = 3", "events(stream=*, seq=3).kind"),
        ("UPDATE events SET body = NULL WHERE seq = 3", "events(stream=*, seq=3).body"),
        ("UPDATE events SET body = 'text' WHERE seq = 3", "events(stream=*, seq=3).body"),
        ("UPDATE events SET body = 7 WHERE seq = 3", "events(stream=*, seq=3).body"),
        ("UPDATE events SET body = x'' WHERE seq = 3", "events(stream=*, seq=3).body"),
        ("UPDATE events SET at = 9e99 WHERE seq = 3", "events(stream=*, seq=3).at"),
        ("UPDATE events SET at = 'now' WHERE seq = 3", "events(stream=*, seq=3).at"),
        ("UPDATE events SET at = -1 WHERE seq = 0", "events(stream=*, seq=0).at"),
        ("UPDATE events SET seq = 'x' WHERE seq = 3", "events(stream=*, seq=3)"),
        ("UPDATE events SET seq = -9223372036854775808 WHERE seq = 3", "events(stream=*, seq=3)"),
        ("UPDATE events SET hash = 'h' WHERE seq = 3", "events(stream=*, seq=3).hash"),
        ("UPDATE heads SET state = CAST(x'ff' AS TEXT)", "heads(stream=*)"),
        ("UPDATE heads SET flags = 'x'", "heads(stream=*).flags"),
        ("UPDATE heads SET driving = 1", "heads(stream=*).driving"),
        ("UPDATE heads SET epoch = 0", "heads(stream=*).epoch"),
        ("UPDATE heads SET wake_at = 5", "heads(stream=*).wake_at"),
        ("UPDATE heads SET head_seq = 'x'", "heads(stream=*).head_seq"),
        ("UPDATE heads SET head_hash = 7", "heads(stream=*).head_hash"),
        ("UPDATE payloads SET blob = 7 WHERE id = 2", "payloads(*).blob"),
        ("UPDATE payloads SET domain = NULL WHERE id = 2", "payloads(*).domain"),
        ("UPDATE payloads SET blob = x'' WHERE id = 1", "payloads(*).blob"),
        ("DELETE FROM payloads WHERE id = 2", "payloads(*)"),
    ],
)
def test_whatever_stands_in_a_row_is_a_fault_and_no_error(original: Stored, arena: Path, sql: str, row: str) -> None:
    """Missing rows, NULLs, other types, bytes that are no UTF-8: the report names the row."""

    def change(db: apsw.Connection) -> None:
        # NOT NULL is part of the table's text: the attacker edits that, too.
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'")
        db.execute("PRAGMA writable_schema = RESET")
        db.execute(sql)

    report = tampered(original, arena, change)
    rows = {f.row if "payloads(" not in f.row else f"payloads(*){f.row.partition(')')[2]}" for f in report.faults}
    assert row.replace("stream=*", f"stream={original.stream.hex()}") in rows


@given(st.sampled_from(("at", "kind", "body", "hash")), PLACES, PLACES, MASKS)
def test_one_wrong_byte_does_not_accuse_its_neighbours(
    original: Stored, arena: Path, column: str, row: int, at: int, mask: int
) -> None:
    """It is the fault of its own row, not of every row that follows."""
    found: dict[str, Any] = {}
    report = tampered(original, arena, flip("events", column, "seq", row, at, mask, found))
    where = f"events(stream={original.stream.hex()}, seq={found['key']})"
    assert {f.row.partition(".")[0] for f in report.faults if f.row.startswith("events")} == {where}


# -- whole chains that were linked again -------------------------------------------------------------------------------


def relinked(db: apsw.Connection, stream: bytes, seq: int, kind: str, body: bytes, *, cut: bool = False) -> None:
    """Put a body in and make every later link, and the head, fit: what only meaning can find."""
    db.execute("UPDATE events SET kind = ?, body = ? WHERE seq = ?", (kind, body, seq))
    if cut:
        db.execute("DELETE FROM events WHERE seq > ?", (seq,))
    prev, last = ZERO_HASH, -1
    for number, at, data in db.execute("SELECT seq, at, body FROM events ORDER BY seq").fetchall():
        prev, last = link(stream, number, at, prev, data), number
        db.execute("UPDATE events SET hash = ? WHERE seq = ?", (prev, number))
    db.execute("UPDATE heads SET head_seq = ?, head_hash = ?", (last, prev))


LIES: dict[str, tuple[int, Any]] = {
    "an illegal transition": (11, CancelRequested("c", "00" * 16)),
    "an event of no run": (11, Fact("x", "00" * 16)),
    "no object": (11, [1, 2]),
    "an unknown kind": (11, {"k": "run_flown", "v": 1}),
    "a version of the future": (11, {"k": "run_aborted", "v": 7, "reason": "x"}),
    "an unknown field": (11, {"k": "run_aborted", "v": 1, "reason": "x", "why": "y"}),
    "a field of the wrong type": (11, {"k": "run_aborted", "v": 1, "reason": 7}),
    "a list where a number belongs": (2, {"k": "model_failed", "v": 1, "of": [], "code": "", "status": 0,
                                          "retryable": True, "took": 0}),
    "an object in a list": (1, {"k": "model_intended", "v": 1, "step": 0, "attempt": 1, "model": "", "model_kind": "",
                                "epoch": 1, "add": [{}], "tokens": 1}),
    "no reference where one belongs": (11, {"k": "run_failed", "v": 1, "code": "c", "status": 1, "message": "ü"}),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_that_is_linked_rightly_is_found_by_its_meaning(original: Stored, arena: Path, name: str) -> None:
    """Chain and head agree; the event itself cannot be."""
    seq, event = LIES[name]
    body = canonical(event) if isinstance(event, dict | list) else encode(event)
    kind = event.kind if not isinstance(event, dict | list) else event["k"] if isinstance(event, dict) else ""
    report = tampered(original, arena, lambda db: relinked(db, original.stream, seq, kind, body, cut=True))
    assert report.faults
    assert not any(f.row.endswith((".hash", ".head_hash", ".seq")) for f in report.faults)


def test_a_state_that_the_events_do_not_give_is_found(original: Stored, arena: Path) -> None:
    """The run was made to end otherwise; the head still says how it ended."""
    body = encode(RunAborted("x"))
    report = tampered(original, arena, lambda db: relinked(db, original.stream, 11, "run_aborted", body))
    assert [f.row for f in report.faults] == [f"heads(stream={original.stream.hex()}).state"]
