"""Whose runs and conversations are whose: case G09, on every route that names one by its id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devassist.ports.journal import HeadQuery
from tests.api.fakes import Fakes, call, final
from tests.api.kit import OPERATOR, POLICY, Api, Live, Reply, calling, serving
from tests.api.probes import CONVERSATION, Probe, probes

CASE = next(
    case
    for case in map(json.loads, (Path(__file__).parents[1] / "cases" / "group_g.jsonl").read_text("utf-8").splitlines())
    if case["id"] == "G09"
)
RULES: list[dict[str, Any]] = [
    {"match": "^pay", "replies": [call("pay", amount=7), final("paid")]},
    {"match": "^wait", "replies": [call("wait", seconds=60), final("waited")]},
    {"replies": [final("the secret is 2468")]},
]
VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NOTHING = {"trace_id": "0" * 32, CONVERSATION: "no-c"}


@dataclass
class Scene:
    """A service with keys: Ann's and Bob's, an administrator's, and runs of Ann's in every state."""

    live: Live
    keys: dict[str, str]
    ids: dict[str, str]
    runs: dict[str, str]
    document: dict[str, Any]

    def probes(self) -> list[Probe]:
        return probes(self.document)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with serving(tmp_path_factory.mktemp("owned"), RULES, Fakes().tools()) as live:
        keys = {name: live.key(name) for name in ("ann", "bob")} | {"root": live.key("root", "admin")}
        scene = asyncio.run(_prepared(live, keys))
        yield scene
        live.ask(live.services.service.cancel(OPERATOR, bytes.fromhex(scene.runs["open"])))


async def _prepared(live: Live, keys: dict[str, str]) -> Scene:
    async with calling(live, key=keys["ann"]) as ann:
        done = await ann.ask("tell", conversation_id="anns")
        held = await ann.ask("pay")
        runs = {"done": done["trace_id"], "held": held["trace_id"], "open": await _open(ann)}
        document = (await ann.get("/openapi.json")).json
    async with calling(live, key=keys["bob"]) as bob:
        await bob.ask("tell")
    async with calling(live, key=keys["root"]) as root:
        events = (await root.get(f"/admin/agent-traces/{runs['done']}")).json["events"]
        digest = (await root.get(f"/runs/{runs['held']}")).json["pending"][0]["digest"]
    ids = {"ref": events[0]["body"]["message"], "digest": digest, "step_index": "0", CONVERSATION: "anns"}
    return Scene(live, keys, ids, runs, document)


async def _open(ann: Api) -> str:
    """A run that goes on: its tool waits for a minute."""
    async with ann.stream("wait") as response:
        async for line in response.content:
            if b'"meta"' in line:
                return json.loads(line.removeprefix(b"data: "))["trace_id"]
    raise AssertionError("no meta")


async def state(live: Live) -> list[tuple[bytes, int]]:
    """Where all runs stand."""

    async def read() -> list[tuple[bytes, int]]:
        heads = await live.services.heads.list(OPERATOR, HeadQuery(limit=1000))
        return sorted((head.stream, head.head_seq) for head in heads)

    return live.ask(read())


def told(reply: Reply, ids: dict[str, str]) -> tuple[int, Any, str]:
    """All that a reply tells, the names aside that were asked for; those have one length."""
    text = reply.text
    for name in (ids["trace_id"], ids[CONVERSATION]):
        text = text.replace(name, "*")
    headers = sorted((name, value) for name, value in reply.headers.items() if name != "Date")
    return reply.status, headers, text


async def send(api: Api, probe: Probe, verb: str, ids: dict[str, str]) -> Reply:
    return await api.send(verb, probe.to(**ids), json=probe.body, headers={"X-Request-Id": "r"})


async def test_the_probes_cover_the_document(scene: Scene) -> None:
    """Trace, events, cancel, graph, payload, approval, settlement and conversation are among them."""
    paths = {probe.path for probe in scene.probes()}
    for wanted in ("{trace_id}", "/events", "/cancel", "/graph.mmd", "/payloads/", "/approvals/", "/settle", "/conv"):
        assert any(wanted in path for path in paths), wanted
    assert "generate the list from OpenAPI" in CASE["why"]


@pytest.mark.parametrize("run", ["done", "held", "open"])
async def test_a_foreign_id_is_one_that_does_not_exist(scene: Scene, run: str) -> None:
    """On every route and verb, with every id of another user's run: the answer is that for an id that nothing has, to
    the letter, and nothing of it is changed."""
    before = await state(scene.live)
    foreign = scene.ids | {"trace_id": scene.runs[run]}
    absent = foreign | NOTHING
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        for probe in scene.probes():
            for verb in VERBS:
                reply = await send(bob, probe, verb, foreign)
                assert told(reply, foreign) == told(await send(bob, probe, verb, absent), absent), (verb, probe.path)
                assert reply.status in ((404,) if verb == probe.verb else (404, 405))
                assert reply.headers["Content-Type"] == "application/problem+json"
                assert "2468" not in reply.text
    assert await state(scene.live) == before


@pytest.mark.parametrize("who", ["ann", "root"])
async def test_the_owner_and_administrators_are_served(scene: Scene, who: str) -> None:
    """What the probes ask for is there: its owner reads it, and so does an administrator. Conversations are by name."""
    async with calling(scene.live, key=scene.keys[who]) as api:
        for probe in scene.probes():
            if probe.verb != "GET" or probe.about == CONVERSATION:
                continue
            reply = await send(api, probe, "GET", scene.ids | {"trace_id": scene.runs["done"]})
            assert reply.status in (200, 204), probe.path
            assert probe.path.endswith(("graph.mmd", "/{ref}", "/citations")) or "2468" in reply.text
        assert (await api.get("/conversations/anns")).status == (200 if who == "ann" else 404)
        mine = (await api.get("/conversations")).json["conversations"]
        assert any(row["conversation_id"] == "anns" for row in mine) == (who == "ann")


async def test_a_foreign_conversation_id_makes_ones_own(scene: Scene) -> None:
    """The same name under another user is another conversation: nothing is appended to the first, or read from it."""
    before = dict(await state(scene.live))
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        answer = await bob.ask("tell", conversation_id="anns")
        assert answer["conversation_id"] == "anns"
        messages = (await bob.get("/conversations/anns")).json["messages"]
        assert {message["trace_id"] for message in messages} == {answer["trace_id"]}
    async with calling(scene.live, key=scene.keys["ann"]) as ann:
        messages = (await ann.get("/conversations/anns")).json["messages"]
        assert {message["trace_id"] for message in messages} == {scene.runs["done"]}
    after = dict(await state(scene.live))
    assert {stream: after[stream] for stream in before} == before
    assert after.keys() - before.keys() == {bytes.fromhex(answer["trace_id"])}
    (history,) = [e for e in await _events(scene, answer["trace_id"]) if e["kind"] == "model_intended"]
    assert not history["body"].get("history")


async def _events(scene: Scene, trace_id: str) -> list[dict[str, Any]]:
    async with calling(scene.live, key=scene.keys["root"]) as root:
        return (await root.get(f"/admin/agent-traces/{trace_id}")).json["events"]


@pytest.mark.parametrize("who", ["bob", "root"])
async def test_only_an_own_run_can_be_replaced(scene: Scene, who: str) -> None:
    """A foreign one is as good as none, for administrators too: it would end up in another's conversation."""
    before = await state(scene.live)
    async with calling(scene.live, key=scene.keys[who]) as api:
        tales: list[Any] = []
        for ids in (scene.ids | {"trace_id": scene.runs["done"]}, NOTHING):
            body = {"message": "tell", "replaces": ids["trace_id"]}
            tales.append(told(await api.post("/agent", body, headers={"X-Request-Id": "r"}), ids))
    assert tales[0] == tales[1]
    assert tales[0][0] == 404
    assert await state(scene.live) == before


@pytest.mark.parametrize("field", ["conversation_id", "replaces"])
@pytest.mark.parametrize("value", [{"$gt": ""}, ["x"], 0, "x" * 10_000, True], ids=repr)
async def test_an_id_that_is_no_text_is_422(scene: Scene, field: str, value: object) -> None:
    """Objects, lists, numbers and endless texts are refused before anything is looked up."""
    before = await state(scene.live)
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        reply = await bob.post("/chat", {"message": "tell", field: value})
    assert (reply.status, reply.json["code"]) == (422, "invalid_request")
    assert await state(scene.live) == before


@pytest.mark.parametrize("name", ["{%22$gt%22:%22%22}", "[%22x%22]", "0", "x" * 6000, "%00", "..%2f..", "*", "%25"])
async def test_a_strange_id_in_a_path_is_404(scene: Scene, name: str) -> None:
    """Operators, lists, endless names: nothing answers to them."""
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        for probe in scene.probes():
            ids = scene.ids | {"trace_id": name, CONVERSATION: name}
            reply = await send(bob, probe, probe.verb, ids)
            assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json"), probe.path


async def test_a_key_of_idempotency_is_ones_own(scene: Scene) -> None:
    """Another user's Idempotency-Key joins no run of theirs and betrays none."""
    headers = {"Idempotency-Key": "shared"}
    seen: list[Reply] = []
    for who in ("ann", "bob"):
        async with calling(scene.live, key=scene.keys[who]) as api:
            seen.append(await api.post("/agent", {"message": f"tell {who}"}, headers=headers))
    assert [reply.status for reply in seen] == [200, 200]
    assert "Idempotent-Replay" not in seen[1].headers
    assert seen[0].json["trace_id"] != seen[1].json["trace_id"]


async def test_before_keys_ownership_goes_by_name_and_nothing_is_hidden(tmp_path: Path) -> None:
    """Everybody is an administrator then, so runs are open to all, and conversations are by name."""
    with serving(tmp_path) as live:
        async with calling(live, "ann") as ann, calling(live, "bob") as bob:
            answer = await ann.ask(POLICY, conversation_id="anns")
            assert (await bob.get(f"/runs/{answer['trace_id']}")).status == 200
            assert (await bob.get("/conversations/anns")).status == 404
