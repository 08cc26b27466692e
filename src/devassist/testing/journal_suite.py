"""Conformance of a store to the ports Journal, Feed and Inspector.

An adapter's test subclasses ``JournalSuite``, ``PayloadSuite`` and ``HeadsSuite`` and gives a fixture ``make`` that
yields a ``Made``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from devassist.core.chain import ZERO_HASH, link
from devassist.core.errors import (
    DevAssistError,
    RunNotFound,
    SeqMoved,
    StreamExists,
    Superseded,
    UnknownEventKind,
)
from devassist.core.scope import SYSTEM
from devassist.ports.journal import Body, Record
from devassist.testing.journal_kit import ALICE, BOB, DECIDING, STRANGER, T0, Made, body


def assert_chained(records: Sequence[Record]) -> None:
    """No gap, times never fall, and each hash covers place, body and the hash before it."""
    prev, last = ZERO_HASH, 0
    for seq, record in enumerate(records):
        assert record.seq == seq
        assert record.at >= last
        assert record.hash == link(record.stream, seq, record.at, prev, record.body)
        prev, last = record.hash, record.at


class JournalSuite:
    # -- append and read -----------------------------------------------------------------------------------------

    async def test_events_are_chained_and_read_back_byte_for_byte(self, make: Made) -> None:
        """What is appended stands in order, linked, and unchanged."""
        run = await make.begun()
        bodies = tuple(body("model_switched", model=f"模型{i}") for i in range(3))
        done = await make.append(run, 0, *bodies, at=T0 + 5)
        records = await make.journal.read(ALICE, run.stream)
        assert_chained(records)
        assert [(r.kind, r.body) for r in records] == [(b.kind, b.data) for b in (run.body, *bodies)]
        assert (done.first, done.seq, done.at, done.hash) == (1, 3, T0 + 5, records[-1].hash)
        head = await make.journal.head(ALICE, run.stream)
        assert (head.head_seq, head.head_hash, head.state) == (3, records[-1].hash, "LLM_DECIDE")

    async def test_reading_starts_after_a_seq_and_stops_at_the_limit(self, make: Made) -> None:
        """``after`` is exclusive and 0 means no limit."""
        run = await make.begun()
        await make.append(run, 0, *[body("model_switched") for _ in range(1200)])
        assert [r.seq for r in await make.journal.read(ALICE, run.stream, after=3, limit=2)] == [4, 5]
        assert len(await make.journal.read(ALICE, run.stream)) == 1201
        assert await make.journal.read(ALICE, run.stream, after=1200) == []

    async def test_time_never_runs_backwards(self, make: Made) -> None:
        """An event with an earlier time gets that of its predecessor."""
        run = await make.begun(at=T0 + 100)
        assert (await make.append(run, 0, at=T0 + 50)).at == T0 + 100
        assert (await make.append(run, 1, at=T0 + 150)).at == T0 + 150
        assert await make.journal.signal(ALICE, run.stream, "s", body("timer_fired"), T0) == 3
        assert_chained(await make.journal.read(ALICE, run.stream))

    @pytest.mark.parametrize("after", [-1, 0, 2, 7])
    async def test_another_head_is_refused(self, make: Made, after: int) -> None:
        """A duplicate and a gap raise SeqMoved, which says where the stream stands, and leave nothing behind."""
        run = await make.begun()
        await make.append(run, 0)
        with pytest.raises(SeqMoved) as refused:
            await make.append(run, after)
        assert refused.value.head_seq == 1
        assert len(await make.journal.read(ALICE, run.stream)) == 2

    async def test_another_epoch_is_superseded(self, make: Made) -> None:
        """Who lost the run to a newer epoch cannot append, whatever seq it names."""
        run = await make.begun()
        assert await make.journal.claim(ALICE, run.stream, run.lease_until, run.lease_until + 10) == 2
        for after in (0, 1):
            with pytest.raises(Superseded):
                await make.append(run, after, epoch=1)
        assert (await make.append(run, 0, epoch=2)).seq == 1

    async def test_an_unknown_kind_is_refused(self, make: Made) -> None:
        """The journal takes only kinds that this build can read back, on every way in."""
        run = await make.begun()
        strange = body("made_up")
        for attempt in (
            make.append(run, 0, body("model_switched"), strange),
            make.journal.signal(ALICE, run.stream, "s", strange, T0),
            make.journal.note(ALICE, "deploy", "d", [strange], T0),
            make.journal.begin(ALICE, await make.run(body=strange)),
        ):
            with pytest.raises(UnknownEventKind):
                await attempt
        assert await make.journal.tip() == 1

    async def test_a_closed_run_is_never_appended_to(self, make: Made) -> None:
        """Not even by its last owner."""
        run = await make.begun()
        await make.end(run)
        with pytest.raises(DevAssistError):
            await make.append(run, 1)
        assert len(await make.journal.read(ALICE, run.stream)) == 2

    async def test_a_stream_begins_once(self, make: Made) -> None:
        """A second INIT for the same id raises StreamExists."""
        run = await make.begun()
        with pytest.raises(StreamExists):
            await make.journal.begin(ALICE, run)
        assert await make.journal.tip() == 1

    async def test_a_conflict_never_fails_a_neighbour(self, make: Made) -> None:
        """Of many concurrent appends only the wrong ones are refused."""
        runs = [await make.begun() for _ in range(20)]
        appends = [make.append(run, 0 if i % 5 else 3, body("model_switched", i=i)) for i, run in enumerate(runs)]
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert [i for i, r in enumerate(results) if isinstance(r, SeqMoved)] == [0, 5, 10, 15]
        for i, run in enumerate(runs):
            records = await make.journal.read(ALICE, run.stream)
            assert_chained(records)
            assert len(records) == (2 if i % 5 else 1)

    # -- signals -------------------------------------------------------------------------------------------------

    async def test_a_signal_moves_seq_and_wakes_but_changes_no_state(self, make: Made) -> None:
        """Its owner then finds SeqMoved, folds the news and appends again."""
        run = await make.begun()
        await make.append(run, 0, head=DECIDING)
        assert await make.journal.signal(BOB, run.stream, "s1", body("cancel_requested"), T0 + 7) == 2
        head = await make.journal.head(ALICE, run.stream)
        assert (head.state, head.wake_at, head.head_seq, head.epoch) == ("LLM_DECIDE", T0 + 7, 2, 1)
        with pytest.raises(SeqMoved):
            await make.append(run, 1)
        await make.append(run, 2)
        assert (await make.journal.head(ALICE, run.stream)).wake_at == 0

    async def test_a_signal_is_known_by_its_id(self, make: Made) -> None:
        """The second one is not appended and gets the seq of the first, also among concurrent ones."""
        run = await make.begun()
        send = [make.journal.signal(ALICE, run.stream, "s1", body("cancel_requested"), T0) for _ in range(8)]
        assert set(await asyncio.gather(*send)) == {1}
        assert await make.journal.signal(ALICE, run.stream, "s2", body("cancel_requested"), T0) == 2
        assert await make.journal.raw_signals(SYSTEM, run.stream) == [("s1", 1), ("s2", 2)]

    async def test_a_signal_to_a_closed_run_is_not_appended(self, make: Made) -> None:
        """It answers None and writes nothing."""
        run = await make.begun()
        await make.end(run)
        assert await make.journal.signal(ALICE, run.stream, "s1", body("cancel_requested"), T0) is None
        assert await make.journal.tip() == 2

    async def test_a_signal_goes_to_runs_only(self, make: Made) -> None:
        """A stream of facts, and one that does not exist, is RunNotFound."""
        await make.journal.note(ALICE, "deploy", "d", [body("fact")], T0)
        (record,) = await make.journal.changes(0)
        for stream in (record.stream, bytes(16)):
            with pytest.raises(RunNotFound):
                await make.journal.signal(ALICE, stream, "s", body("timer_fired"), T0)

    # -- facts ---------------------------------------------------------------------------------------------------

    async def test_facts_open_their_stream_once(self, make: Made) -> None:
        """Notes to one (tenant, kind, name) join one chain; another tenant's is another stream."""
        many = [make.journal.note(ALICE, "deploy", "prompts", [body("fact", n=i)], T0) for i in range(6)]
        done = await asyncio.gather(*many)
        assert sorted(d.seq for d in done) == list(range(6))
        await make.journal.note(STRANGER, "deploy", "prompts", [body("fact")], T0)
        await make.journal.note(ALICE, "deploy", "agents", [body("fact"), body("fact")], T0)
        records = await make.journal.changes(0)
        streams = [[r for r in records if r.stream == s] for s in {r.stream: None for r in records}]
        assert [len(s) for s in streams] == [6, 1, 2]
        for records in streams:
            assert_chained(records)

    # -- feed ----------------------------------------------------------------------------------------------------

    async def test_the_feed_gives_all_streams_in_row_order(self, make: Made) -> None:
        """Every event once, by rising row, from any cursor on, in portions."""
        assert (await make.journal.tip(), await make.journal.changes(0)) == (0, [])
        runs = [await make.begun() for _ in range(4)]
        await asyncio.gather(*(make.append(run, 0, body("model_switched"), body("model_switched")) for run in runs))
        await make.journal.note(ALICE, "deploy", "d", [body("fact")], T0)
        rows = await make.journal.changes(0)
        assert len(rows) == 13
        assert [r.row for r in rows] == sorted({r.row for r in rows})
        assert rows[-1].row == await make.journal.tip()
        assert await make.journal.changes(rows[4].row, limit=3) == rows[5:8]
        for run in runs:
            assert [r for r in rows if r.stream == run.stream] == await make.journal.read(ALICE, run.stream)

    async def test_waiting_ends_when_something_is_appended(self, make: Made) -> None:
        """``wait`` is true at once for what stands after the cursor, false after the time, true when news comes."""
        run = await make.begun()
        assert await make.journal.wait(0, 0)
        assert not await make.journal.wait(1, 0.02)
        waiting = asyncio.create_task(make.journal.wait(1, 5))
        await asyncio.sleep(0.01)
        await make.append(run, 0)
        async with asyncio.timeout(1):
            assert await waiting

    async def test_raw_rows_are_what_is_stored(self, make: Made) -> None:
        """The inspector's rows equal what was read."""
        run = await make.begun()
        await make.append(run, 0, Body("model_switched", b'{"k":"model_switched","v":1}'))
        assert await make.journal.raw_events(SYSTEM, run.stream) == await make.journal.read(ALICE, run.stream)
