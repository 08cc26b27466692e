"""The held start: a journal that was put back is noticed, nothing is driven on it, and a person can go on."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import ConfigInvalid, HeldStart, Unavailable
from devassist.core.lineage import Rewind
from devassist.core.scope import SYSTEM
from devassist.ports.decision_log import LogQuery
from devassist.ports.journal import HeadQuery
from devassist.runtime.clock import SystemClock
from devassist.runtime.held import Hold
from devassist.store.position import PositionFile, SqliteLineage
from tests.rewind import ALICE, Place, a_place, ask, begin, facts, faults, reaches, state_of
from tests.runtime.world import World, call, ended, final

RULES: list[dict[str, Any]] = [
    {"match": "mail", "replies": [call("mail"), final("mailed")]},
    {"replies": [final("as you say")]},
]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def place(tmp_path: Path, world: World) -> Place:
    """``mail`` waits for a person, so runs that ask for it stay open."""
    return a_place(tmp_path, RULES, world.tools(needs_approval=True))


async def signals(s: Any, stream: bytes) -> list[dict[str, Any]]:
    bodies = [json.loads(record.body) for record in await s.journal.read(SYSTEM, stream)]
    return [body for body in bodies if body["k"] == "run_restored"]


# -- noticing --------------------------------------------------------------------------------------------------


async def test_an_ordinary_start_is_not_held(place: Place) -> None:
    """After a clean end, and after one that left an older position behind, as a kill does."""
    async with place.driving() as s:
        await ask(s, "one")
    before = (place.keys / "position.json").read_text()
    async with place.driving() as s:
        assert not s.hold.gate.shut
        await ask(s, "two")
        tip = await s.journal.tip()
    assert place.position["row"] == tip
    (place.keys / "position.json").write_text(before)
    async with place.driving() as s:
        assert not s.hold.gate.shut
        await ask(s, "three")
    assert await place.files.peek() is None


async def test_the_position_follows_while_it_drives(place: Place) -> None:
    """A second or so after an event the key directory knows of it, without anybody having stopped."""
    async with place.driving() as s:
        await ask(s, "one")
        tip = await s.journal.tip()

        async def remembered() -> bool:
            return place.position["row"] >= tip

        await ended(remembered, 15.0)


async def test_an_earlier_state_put_back_by_hand_is_held(place: Place) -> None:
    """Nothing is begun, claimed or moved; all can be read; a cancel is taken down for later."""
    async with place.driving() as s:
        waiting = await ask(s, "mail it")
    kept = place.kept()
    async with place.driving() as s:
        lost = await ask(s, "lost")
    end = place.position["at"]
    place.put_back(kept)
    async with place.driving() as s:
        rewind = s.hold.gate.rewind
        assert rewind is not None
        assert (rewind.how, rewind.window_to, rewind.known) == ("by_hand", end, True)
        with pytest.raises(HeldStart, match="restore --resume"):
            await begin(s, "new")
        before = await s.heads.head(ALICE, waiting)
        assert await s.service.cancel(ALICE, waiting)
        await s.service.sweep()
        after = await s.heads.head(ALICE, waiting)
        assert (after.epoch, after.state, after.head_seq) == (before.epoch, before.state, before.head_seq + 1)
        assert [head.stream for head in await s.heads.list(ALICE, HeadQuery())] == [waiting]
        assert (await s.log.query(ALICE, LogQuery(trace_id=waiting.hex()))).rows
        assert not (await s.log.query(ALICE, LogQuery(trace_id=lost.hex()))).rows
    async with place.driving() as s:
        assert s.hold.gate.rewind == rewind, "a stop and a start change nothing"


async def test_growing_past_the_lost_end_hides_nothing(place: Place) -> None:
    """Verbs beside no server may append more than was lost before anybody drives again."""
    async with place.driving() as s:
        streams = [await ask(s, "mail it") for _ in range(3)]
    kept = place.kept()
    async with place.driving() as s:
        await s.service.cancel(ALICE, streams[0])
        await reaches(s, streams[0], "ABORTED")
    place.put_back(kept)
    async with place.beside() as s:
        while await s.journal.tip() <= place.position["row"]:
            for stream in streams:
                await s.service.cancel(ALICE, stream)
            await s.vault.domain(ALICE, "user", "somebody")
            await s.hold.record(ALICE, Rewind("by_hand", str(await s.journal.tip()), "", 0, 0))
    async with place.driving() as s:
        assert s.hold.gate.shut


async def test_a_lost_journal_is_not_silently_begun_anew(place: Place) -> None:
    """Its keys know of it. With the right file back in place the next start is as if nothing had been."""
    async with place.driving() as s:
        stream = await ask(s, "one")
    place.journal.rename(place.data / "away.db")
    async with place.driving() as s:
        rewind = s.hold.gate.rewind
        assert rewind is not None
        assert (rewind.how, rewind.window_from) == ("replaced", 0)
        with pytest.raises(HeldStart, match="lost or replaced"):
            await begin(s, "new")
    (place.data / "away.db").replace(place.journal)
    async with place.driving() as s:
        assert not s.hold.gate.shut
        assert await state_of(s, stream) == "FINAL_ANSWER"


async def test_a_backup_put_back_by_hand_shows_by_itself(place: Place, tmp_path: Path) -> None:
    """Also where nothing is remembered: a copy carries its mark."""
    async with place.driving() as s:
        await ask(s, "one")
        await place.files.take(tmp_path / "b")
    (place.keys / "position.json").unlink()
    place.put_back(_as_kept(tmp_path))
    async with place.driving() as s:
        rewind = s.hold.gate.rewind
        assert rewind is not None
        assert (rewind.how, rewind.known) == ("by_hand", False)


def _as_kept(tmp_path: Path) -> Path:
    (tmp_path / "as" / "data").mkdir(parents=True)
    (tmp_path / "b" / "journal.db").rename(tmp_path / "as" / "data" / "journal.db")
    return tmp_path / "as"


async def test_looking_leaves_no_mark(place: Place) -> None:
    """``peek``, by which doctor looks, tells a held start beforehand and changes nothing."""
    assert await place.files.peek() is None
    assert not place.data.exists()
    async with place.driving() as s:
        await ask(s, "one")
    kept = place.kept()
    async with place.driving() as s:
        await ask(s, "two")
    place.put_back(kept)
    before = place.journal.read_bytes()
    for _ in range(2):
        rewind = await place.files.peek()
        assert (rewind.how, rewind.known) == ("by_hand", True)
    assert place.journal.read_bytes() == before


# -- going on --------------------------------------------------------------------------------------------------


async def rewound(place: Place, runs: int = 2) -> list[bytes]:
    """Open runs in a journal that was put back by hand."""
    async with place.driving() as s:
        streams = [await ask(s, "mail it") for _ in range(runs)]
        await ask(s, "done")
    kept = place.kept()
    async with place.driving() as s:
        await ask(s, "lost")
    place.put_back(kept)
    return streams


async def test_a_held_process_goes_on_when_a_person_says_so(place: Place, world: World) -> None:
    """Beside it, and within a moment: every open run is told first, the window is on record, and work goes on."""
    streams = await rewound(place)
    async with place.driving() as s:
        rewind = s.hold.gate.rewind
        assert rewind is not None
        resumed = await place.resumed()
        assert (resumed.rewind, resumed.runs) == (rewind, 2)

        async def open_again() -> bool:
            return not s.hold.gate.shut

        await ended(open_again, 15.0)
        for stream in streams:
            (told,) = await signals(s, stream)
            assert (told["window_from"], told["window_to"]) == (rewind.window_from, rewind.window_to)
        assert await state_of(s, await ask(s, "new")) == "FINAL_ANSWER"
        names = await facts(s, "deploy", "restores")
        assert [name for name, _ in names] == ["restored", "resumed"]
        assert names[0][1] == {
            "how": "by_hand", "incarnation": rewind.incarnation, "previous": rewind.previous,
            "window_from": str(rewind.window_from), "window_to": str(rewind.window_to), "window_known": "true",
        }  # fmt: skip
        assert names[1][1] == {"incarnation": rewind.incarnation, "runs": "2"}
        assert await faults(s) == []
        assert await place.resumed() is None
    async with place.driving() as s:
        assert not s.hold.gate.shut
    assert world.seen == []


async def test_without_a_server_resuming_notices_and_goes_on(place: Place) -> None:
    """No start in between is needed; what was derived of the lost time is not believed by the next one."""
    (stream,) = await rewound(place, 1)
    assert list((place.data / "graphs").glob("*.mmd"))
    assert (await place.resumed()).runs == 1
    assert not list((place.data / "graphs").glob("*.mmd"))
    async with place.driving() as s:
        assert not s.hold.gate.shut
        assert len(await signals(s, stream)) == 1
        rows = (await s.log.query(ALICE, LogQuery(kind="run_started"))).rows
        assert len(rows) == 2


async def test_after_going_on_the_time_before_is_another_journal(place: Place) -> None:
    """The file that was put back once is noticed when it is put back again."""
    await rewound(place)
    await place.resumed()
    async with place.driving() as s:
        await ask(s, "since")
    place.put_back(place.data.parent / "kept")
    async with place.driving() as s:
        assert s.hold.gate.rewind is not None
        assert s.hold.gate.rewind.how == "replaced"


class Cut(Exception):
    """The process ends here."""


class Cutting:
    """Stands before a port's adapter and ends the process at the ``left``-th change that goes through it."""

    def __init__(self, inner: Any, count: list[int], *names: str) -> None:
        self._inner, self._count, self._names = inner, count, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found

        async def cut(*args: Any) -> Any:
            if self._count[0] == 0:
                raise Cut
            self._count[0] -= 1
            return await found(*args)

        return cut


async def cut_off(place: Place, changes: int) -> bool:
    """Resume, in a process that ends before its change number ``changes``; whether it came to its end."""
    left, lineage = [changes], SqliteLineage(place.journal)
    async with place.beside() as s:
        journal = Cutting(s.journal, left, "note", "signal")
        where = Cutting(PositionFile(place.keys), left, "write")
        hold = Hold(Cutting(lineage, left, "mark", "clear"), where, journal, s.heads, s.vault, SystemClock())
        try:
            await hold.resume(ALICE)
        except Cut:
            return False
        finally:
            lineage.close()
    return True


async def test_going_on_can_be_cut_off_anywhere(place: Place) -> None:
    """Whatever was done of it, the start stays held, and saying it again ends with each run told once."""
    streams = await rewound(place)
    before, changes = place.kept("before"), 0
    while not await cut_off(place, changes):
        assert await place.files.peek() is not None
        assert await cut_off(place, 100)
        assert await place.files.peek() is None
        async with place.beside() as s:
            assert [len(await signals(s, stream)) for stream in streams] == [1, 1]
            names = [name for name, _ in await facts(s, "deploy", "restores")]
            assert names[0] == "restored"
            assert set(names[1:]) == {"resumed"}
            assert await faults(s) == []
        place.put_back(before)
        shutil.copy(before / place.keys.name / "position.json", place.keys)
        changes += 1
    assert changes == 7, "the mark, restored, two signals, resumed, the position, and the mark's removal"


# -- the start itself ------------------------------------------------------------------------------------------


async def test_a_start_that_fails_lets_go_of_the_directory(place: Place, tmp_path: Path) -> None:
    """Whatever it fails at, the next one can have the lock, in the same process too."""
    broken = tmp_path / "agents"
    broken.mkdir()
    (broken / "x.yaml").write_text("name: [")
    bad = a_place(tmp_path, RULES, agents_dir=str(broken))
    for _ in range(2):
        with pytest.raises(ConfigInvalid):
            async with bad.driving():
                pass
    async with place.driving() as s:
        await ask(s, "one")
    (place.keys / "position.json").write_text("{")
    with pytest.raises(Unavailable, match=r"position\.json"):
        async with place.driving():
            pass
    (place.keys / "position.json").unlink()
    async with place.driving() as s:
        assert not s.hold.gate.shut


async def test_missing_keys_are_not_made_anew(place: Place) -> None:
    """Neither a server nor a verb beside it makes an empty key store next to texts that were sealed by another."""
    async with place.driving() as s:
        stream = await ask(s, "one")
    away = place.keys.rename(place.keys.with_name("away"))
    for opened in (place.driving, place.beside):
        with pytest.raises(Unavailable, match=str(place.keys)):
            async with opened():
                pass
        assert not place.keys.exists()
    away.rename(place.keys)
    async with place.driving() as s:
        assert (await s.service.view(ALICE, stream)).text


async def test_many_who_look_at_once_leave_one_mark(place: Place) -> None:
    """The first rewind on record stays, whoever comes second."""
    await rewound(place)
    async with place.beside() as one, place.beside() as two:
        found = await asyncio.gather(one.hold.notice(), two.hold.notice())
        again = await one.hold.notice()
    assert again is not None
    assert {*found, again} == {again}
