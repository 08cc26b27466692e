"""Restore after a rewind: no effect that must happen at most once is repeated without a person, and the lost time is
named. What the tools did is counted outside of the journal."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import DataDirInUse
from devassist.core.ids import time_of
from devassist.store.database import connect
from tests.cli.kit import run, script
from tests.e2e.test_first_five_minutes import up
from tests.rewind import ALICE, Place, a_place, ask, begin, facts, faults, reaches, state_of
from tests.runtime.world import World, call, ended, final, until

RULES: list[dict[str, Any]] = [
    {"match": f"^{name}$", "replies": [*(call(tool, name) for tool in tools), final(f"{name} done")]}
    for name, tools in {
        "ended": ("mail",), "approved": ("pay",), "later": ("look", "mail"), "queued": ("mail",),
        "under way": ("mail",), "new": ("mail",),
    }.items()
]  # fmt: skip
LOOK = call("get_policy", question="报销")
EFFECTS = Counter({"ended": 1, "approved": 1, "later": 1, "queued": 1, "under way": 1, "new": 1})


class Town(World):
    """Tools that take their time until ``open`` is called; ``effects`` counts what was done, by its text."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: Counter[str] = Counter()
        self._shut = True
        self.does = {"look": self._looks, "mail": self._acts, "pay": self._acts}

    def open(self) -> None:
        self._shut = False

    async def _looks(self, text: str, context: Any) -> Any:
        await until(lambda: not self._shut, 60)

    async def _acts(self, text: str, context: Any) -> Any:
        if text == "under way":
            await until(lambda: not self._shut, 60)
        self.effects[text] += 1
        return {"done": text}

    def all(self) -> list[Any]:
        return [
            self.tool("look", "pure", timeout_s=60), self.tool("mail", "once", timeout_s=60),
            self.tool("pay", "once", needs_approval=True),
        ]  # fmt: skip


async def waiting(s: Any, stream: bytes) -> str:
    """The digest of what the run asks a person."""
    view = await s.service.view(ALICE, stream)
    (question,) = (await s.people.questions(ALICE, view)).waiting
    return question.digest


async def an_hour(place: Place, town: Town, backup: Path) -> dict[str, bytes]:
    """Runs of every kind, a backup in the middle of them, and their end after it."""
    async with place.driving() as s:
        runs = {"ended": await ask(s, "ended"), "approved": await ask(s, "approved")}
        for name, conversation in (("later", "c"), ("queued", "c"), ("under way", "d")):
            runs[name] = await begin(s, name, conversation_id=conversation)
        await until(lambda: town.running == 2, 20)
        await place.files.take(backup)
        town.open()
        await s.people.approve(ALICE, runs["approved"], await waiting(s, runs["approved"]), "approve")
        runs["new"] = await ask(s, "new", key="k")
        for stream in runs.values():
            await reaches(s, stream, "FINAL_ANSWER")
    assert town.effects == EFFECTS
    return runs


def by_hand(place: Place, backup: Path) -> None:
    """As somebody does who copies the file back, one that bears no mark of ours."""
    db = connect(backup / "journal.db")
    db.execute("DELETE FROM meta WHERE name = 'rewind'; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    shutil.copy(backup / "journal.db", place.journal)


@pytest.mark.parametrize("how", ["restored", "by_hand"])
async def test_no_effect_happens_again_without_a_person(tmp_path: Path, how: str) -> None:
    """Effects that were approved, under way, or still to come at the backup all took place in the lost window. After
    it none of them is repeated, however the journal was put back, until somebody says so."""
    town = Town()
    place = a_place(tmp_path, RULES, town.all())
    runs = await an_hour(place, town, tmp_path / "b")
    if how == "restored":
        check_report(await place.restored(tmp_path / "b"), runs)
    else:
        by_hand(place, tmp_path / "b")
    async with place.driving() as s:
        rewind = s.hold.gate.rewind
        assert rewind is not None
        assert rewind.window_from < time_of(runs["new"]) < rewind.window_to
        for _ in range(3):
            await s.service.sweep()
        assert town.effects == EFFECTS
        assert (await place.resumed()).runs == 4
        for name in ("approved", "later", "under way"):
            assert await reaches(s, runs[name], "AWAIT_APPROVAL") == "AWAIT_APPROVAL"
        assert await state_of(s, runs["queued"]) == "INIT"
        assert town.effects == EFFECTS
        await with_a_person(s, town, runs)
        assert await faults(s) == []
        names = [name for name, _ in await facts(s, "deploy", "restores")]
        assert names == ["restored", "resumed"]


async def with_a_person(s: Any, town: Town, runs: dict[str, bytes]) -> None:
    """Each effect takes place as a person says, and no other."""
    await s.people.settle(ALICE, runs["under way"], 0, "happened")
    await s.people.approve(ALICE, runs["approved"], await waiting(s, runs["approved"]), "reject")
    await s.people.approve(ALICE, runs["later"], await waiting(s, runs["later"]), "approve")
    for name in ("under way", "approved", "later"):
        await reaches(s, runs[name], "FINAL_ANSWER")
    assert town.effects == EFFECTS + Counter(later=1)
    await reaches(s, runs["queued"], "AWAIT_APPROVAL")
    await s.people.approve(ALICE, runs["queued"], await waiting(s, runs["queued"]), "reject")
    await reaches(s, runs["queued"], "FINAL_ANSWER")
    again = await ask(s, "new", key="k")
    assert again != runs["new"], "its Idempotency-Key went with the run"
    assert town.effects == EFFECTS + Counter(later=1, new=1)


def check_report(done: Any, runs: dict[str, bytes]) -> None:
    """The report names the lost window, what of it is known, and what is gone."""
    report = done.report
    assert json.loads(done.path.read_text()) == report
    assert report["held"]
    assert report["window"]["end_known"]
    assert report["window"]["from_us"] < time_of(runs["new"]) < report["window"]["to_us"]
    found = {run["trace_id"]: run for run in report["open_runs"]}
    assert set(found) == {runs[name].hex() for name in ("approved", "later", "queued", "under way")}
    assert {run["later_state"] for run in found.values()} == {"FINAL_ANSWER"}
    made = {name: found[runs[name].hex()]["once_calls_since"] for name in ("approved", "later", "queued", "under way")}
    assert {name: [(c["tool"], c["outcome"]) for c in calls] for name, calls in made.items()} == {
        "approved": [("pay", "result")], "later": [("mail", "result")], "queued": [("mail", "result")],
        "under way": [],  # its intent is in the backup: it is in doubt by itself
    }  # fmt: skip
    (lost,) = report["lost_runs"]["runs"]
    assert (lost["trace_id"], lost["state"], report["lost_runs"]["known"]) == (runs["new"].hex(), "FINAL_ANSWER", True)
    assert lost["idempotency_key_digest"]


async def test_an_unreadable_journal_is_restored_too(tmp_path: Path) -> None:
    """What is known of the window then comes from the key directory alone; what was lost is said to be unknown."""
    town = Town()
    place = a_place(tmp_path, RULES, town.all())
    await an_hour(place, town, tmp_path / "b")
    end = place.position["at"]
    place.journal.write_bytes(b"not a database at all" * 1000)
    done = await place.restored(tmp_path / "b")
    assert done.report["window"]["to_us"] == end
    assert done.report["lost_runs"] == {"known": False, "count": None, "runs": []}
    assert (Path(done.report["replaced"]) / "journal.db").read_bytes().startswith(b"not a database")


async def test_a_lost_machine_is_restored_elsewhere(tmp_path: Path) -> None:
    """With the backup and the keys' own, older one, on a directory that never was: the window's end is not known."""
    town = Town()
    place = a_place(tmp_path / "old", RULES, town.all())
    async with place.driving() as s:
        stream = await ask(s, "approved")
    shutil.copytree(place.keys, tmp_path / "keys")
    async with place.driving() as s:
        await ask(s, "ended")
        await place.files.take(tmp_path / "b")
    other = a_place(tmp_path / "new", RULES, town.all(), keys_dir=str(tmp_path / "keys"))
    done = await other.restored(tmp_path / "b", go_on=True)
    assert (done.report["held"], done.report["replaced"]) == (False, None)
    assert not done.report["window"]["end_known"]
    async with other.driving() as s:
        assert await reaches(s, stream, "AWAIT_APPROVAL") == "AWAIT_APPROVAL"
        assert await faults(s) == []


# -- the real command ------------------------------------------------------------------------------------------


async def test_backed_up_while_fifty_runs_are_written(tmp_path: Path) -> None:
    """Beside a serving process, which is then killed. The backup restores to a journal that verifies as a whole; the
    server on it is held, says so, and goes on when a person says so beside it."""
    data, backup, steps = tmp_path / "data", tmp_path / "b", 200
    busy = script(tmp_path / "busy.json", {"chunk": 999, "delay_ms": 300, "replies": [LOOK] * steps})
    async with up(data, **busy, DEVASSIST_MAX_STEPS="1000") as (server, api):
        asking = [asyncio.create_task(api.ask(f"question {i}", "/agent")) for i in range(50)]

        async def under_way() -> bool:
            return len((await api.get("/admin/agent-traces?status=running&limit=200")).json["traces"]) == 50

        await ended(under_way, 60)
        made = await asyncio.to_thread(run, "--data-dir", str(data), "backup", "--json", str(backup))
        assert made.returncode == 0, made.stderr
        with pytest.raises(DataDirInUse):
            await a_place(tmp_path).restored(backup)
        await asyncio.to_thread(server.stop, signal.SIGKILL)
        await asyncio.gather(*asking, return_exceptions=True)
    manifest = json.loads(made.stdout)
    assert (manifest["runs"], manifest["open_runs"]) == (50, 50)

    place = a_place(tmp_path)
    report = (await place.restored(backup)).report
    assert (len(report["open_runs"]), report["lost_runs"]["count"]) == (50, 0)
    assert report["window"]["to_us"] >= report["window"]["from_us"], "nothing may have been written since the backup"
    async with place.beside() as s:
        assert await faults(s) == []

    fast = script(tmp_path / "fast.json", {"replies": [final("done")] * (steps + 1)})
    async with up(data, **fast) as (server, api):
        await held(api, report["open_runs"][0]["trace_id"])
        resumed = await asyncio.to_thread(run, "--data-dir", str(data), "restore", "--resume", "--json")
        assert json.loads(resumed.stdout)["runs"] == 50, resumed.stderr

        async def ready() -> bool:
            return (await api.get("/readyz")).status == 200

        await ended(ready, 20)
        for opened in report["open_runs"]:
            assert (await api.until(opened["trace_id"], "succeeded", "failed"))["status"] == "succeeded"
        assert await asyncio.to_thread(server.stop) == 0
    async with place.beside() as s:
        assert await faults(s) == []


async def held(api: Any, trace_id: str) -> None:
    """Readable, not driven, and a problem that says what to do."""
    for reply in (await api.get("/readyz"), await api.post("/chat", {"message": "hi"})):
        assert (reply.status, reply.json["code"]) == (503, "held")
        assert "devassist restore --resume" in reply.json["detail"]
        assert reply.headers["Content-Type"].startswith("application/problem+json")
    assert (await api.get("/livez")).status == 200
    assert (await api.get(f"/runs/{trace_id}")).json["status"] in ("running", "waiting")
    assert len((await api.get("/admin/agent-traces?limit=200")).json["traces"]) == 50
