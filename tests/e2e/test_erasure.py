"""Erasure at the store: once a person's key is destroyed, nothing on disk holds that person's words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devassist.core.scope import SYSTEM, Scope
from devassist.runtime.clock import SystemClock
from devassist.runtime.erasure import erase
from tests.api.fakes import Fakes, call, final
from tests.api.kit import Api, Live, calling, serving

ANN, BOB = "ann-of-the-marked-texts", "bob-who-stays"
MARKS = {
    "message": ("planted-message-7c1f", "被遗忘的消息甲乙"),
    "thought": ("planted-thought-7c1f", "被遗忘的思考丙丁"),
    "query": ("planted-query-7c1f", "被遗忘的参数戊己"),
    "result": ("planted-result-7c1f", "被遗忘的结果庚辛"),
    "answer": ("planted-answer-7c1f", "被遗忘的答复壬癸"),
    "raw": ("planted-raw-7c1f", "被遗忘的原文子丑"),
}
BOBS = "bobs-own-words-55aa 寅卯辰巳"
SAME = "the very same words of both 午未申酉"
SCOPE = Scope("default", "officer", frozenset({"user", "admin"}))


def mark(name: str) -> str:
    return " ".join(MARKS[name])


class Marked(Fakes):
    async def search(self, **args: Any) -> dict[str, Any]:
        return {"hits": [{"text": mark("result") if "planted" in args["query"] else BOBS}]}


RULES: list[dict[str, Any]] = [
    {"match": "planted", "chunk": 5, "replies": [
        call("search_docs", mark("thought"), query=mark("query")),
        f"{final(mark('answer'))}\nObservation: {mark('raw')}"]},
    {"match": "bobs-own", "replies": [call("search_docs", BOBS, query=BOBS), final(BOBS)]},
    {"replies": [final("as you say")]},
]  # fmt: skip


@dataclass
class Talks:
    """Runs before the erasure: Ann's two, Bob's two, one of each with the same words."""

    live: Live
    ann: list[dict[str, Any]]
    bob: list[dict[str, Any]]


@pytest.fixture
async def talks(tmp_path: Path) -> AsyncIterator[Talks]:
    with serving(tmp_path, RULES, Marked().tools()) as live:
        async with calling(live, ANN) as ann, calling(live, BOB) as bob:
            page = await ann.watch(f"{mark('message')} please", conversation_id="secret-talk")
            first = (await ann.get(f"/runs/{page.meta['trace_id']}")).json
            mine = [first, await ann.ask(SAME, conversation_id="secret-talk")]
            theirs = [await bob.ask(BOBS), await bob.ask(SAME)]
            await ann.get("/admin/decision-log?limit=1")
        graphs = [live.data / "graphs" / f"{run['trace_id']}.mmd" for run in (*mine, *theirs)]
        async with asyncio.timeout(20):
            while not all(path.exists() for path in graphs):
                await asyncio.sleep(0.05)
        yield Talks(live, mine, theirs)


def files(live: Live) -> dict[str, bytes]:
    """Everything on disk, the databases' logs and the key store included."""
    paths = [*live.data.rglob("*"), *live.data.with_name("data.keys").rglob("*")]
    return {str(p.relative_to(live.data.parent)): p.read_bytes() for p in paths if p.is_file()}


def holding(live: Live, *texts: str) -> list[tuple[str, str]]:
    """(file, text) where a text stands in any of the encodings that ``strings`` would show."""
    return [
        (name, text)
        for name, data in files(live).items()
        for text in texts
        for encoding in ("utf-8", "utf-16-le")
        if text.encode(encoding) in data
    ]


def planted() -> list[str]:
    """Every marker, and pieces of it as an index of trigrams would hold them."""
    words = [word for pair in MARKS.values() for word in pair]
    return words + [word[i : i + 6] for word in words if not word.isascii() for i in range(0, len(word) - 5, 2)]


async def forget(talks: Talks) -> None:
    """Erase Ann, and wait until every follower has acted on it."""
    live = talks.live
    services = live.services
    assert live.ask(erase(services.vault, services.journal, SystemClock(), SCOPE, "user", ANN))
    graphs = [live.data / "graphs" / f"{run['trace_id']}.mmd" for run in talks.ann]
    async with asyncio.timeout(20):
        while live.ask(services.log.lag()) or any(path.exists() for path in graphs):
            await asyncio.sleep(0.05)


async def test_the_texts_are_there_before(talks: Talks) -> None:
    """The scan finds what it looks for where it stands in plain text: otherwise it would show nothing."""
    found = {name for name, _ in holding(talks.live, *planted())}
    assert any(name.startswith("data/log.db") for name in found)
    assert any(name.startswith("data/graphs/") for name in found)
    assert not any(name.startswith("data/journal.db") for name in found), "the journal is sealed from the start"


async def test_nothing_of_it_is_left_on_disk(talks: Talks) -> None:
    """Journal, log, their WALs, graphs: none of Ann's words, nor her name; Bob's are where they were."""
    live = talks.live
    await forget(talks)
    async with asyncio.timeout(20):
        while left := holding(live, *planted(), ANN):
            await asyncio.sleep(0.1)
    assert left == []
    assert any(name.startswith("data/log.db") for name, _ in holding(live, BOBS))
    await asyncio.to_thread(live.stop)
    assert holding(live, *planted(), ANN) == []


async def test_the_evidence_holds_with_an_honest_gap(talks: Talks) -> None:
    """Ann's runs verify and count what was erased; they read as nulls, not as errors; Bob's open as before."""
    live = talks.live
    await forget(talks)
    async with calling(live) as api:
        for run in talks.ann:
            detail = await api.get(f"/admin/agent-traces/{run['trace_id']}")
            assert detail.status == 200, detail.text
            report = detail.json["verification"]
            assert report["ok"], report["faults"]
            assert report["erased"] >= 4
            await gone(api, run["trace_id"])
        for run in talks.bob:
            assert (await api.get(f"/runs/{run['trace_id']}")).json == run
            report = (await api.get(f"/admin/agent-traces/{run['trace_id']}")).json["verification"]
            assert (report["ok"], report["erased"]) == (True, 0)
        rows = {r["trace_id"]: r for r in (await api.get("/admin/agent-traces")).json["traces"]}
        for run in talks.ann:
            row = rows[run["trace_id"]]
            assert (row["erased"], row["message"], row["user"]) == (True, None, None)
        assert rows[talks.bob[1]["trace_id"]]["message"] == SAME
        found = (await api.get("/admin/agent-traces", params={"q": "same words"})).json["traces"]
        assert [row["trace_id"] for row in found] == [talks.bob[1]["trace_id"]]
    for run in talks.ann:
        replay = live.ask(live.services.auditor.replay(SYSTEM, bytes.fromhex(run["trace_id"])))
        assert replay.ok
        assert replay.skipped >= 1


async def gone(api: Api, trace_id: str) -> None:
    """A run whose texts were erased, by every way to read it."""
    run = (await api.get(f"/runs/{trace_id}")).json
    assert (run["status"], run["answer"]) == ("succeeded", None)
    assert run["steps"]
    for step in run["steps"]:
        assert [step[key] for key in ("thought", "action_raw", "observation", "observation_text")] == [None] * 4
        assert step["tool_args"] is None
    page = await api.reread(trace_id)
    assert page.end is not None
    assert (page.end["type"], page.end["answer"]) == ("done", None)
    for path in ("", "/events", "/graph.mmd", "/graph.mmd?full=1"):
        reply = await api.get(f"/runs/{trace_id}{path}")
        assert reply.status == 200, (path, reply.text)
        assert not any(text in reply.text for text in planted())
    body = (await api.get(f"/admin/agent-traces/{trace_id}")).json["events"][0]["body"]
    assert (await api.get(f"/runs/{trace_id}/payloads/{body['message']}")).status == 404


async def test_the_person_can_come_back(talks: Talks) -> None:
    """Under the same name a new domain begins, which knows nothing of the old one; erasing nobody says so."""
    live = talks.live
    await forget(talks)
    services = live.services
    assert not live.ask(erase(services.vault, services.journal, SystemClock(), SCOPE, "user", ANN))
    async with calling(live, ANN) as ann:
        assert (await ann.get("/conversations")).json == {"conversations": []}
        assert (await ann.get("/conversations/secret-talk")).status == 404
        again = await ann.ask(SAME, conversation_id="secret-talk")
        assert again["status"] == "succeeded"
        events = (await ann.get(f"/admin/agent-traces/{again['trace_id']}")).json["events"]
        assert all(not e["body"].get("history") for e in events)


async def test_a_restart_finds_nothing_either(talks: Talks, tmp_path: Path) -> None:
    """Another process, which reads everything anew, derives no text again; the log can be rebuilt."""
    live = talks.live
    await forget(talks)
    await asyncio.to_thread(live.stop)
    with serving(tmp_path, RULES, Marked().tools()) as second:
        rows = second.ask(second.services.log.rebuild())
        assert rows > 10
        async with calling(second) as api:
            for run in talks.ann:
                await gone(api, run["trace_id"])
            assert (await api.get(f"/runs/{talks.bob[1]['trace_id']}")).json == talks.bob[1]
        assert holding(second, *planted(), ANN) == []
