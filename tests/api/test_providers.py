"""Providers that throttle and fail, seen through the whole service: what clients are told, and what is on record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from devassist.core.breaker import FAILURES
from tests.api.kit import Api, calling, serving
from tests.provider.fake import Answer, FakeProvider, refusal, throttled
from tests.provider.threaded import listening
from tests.runtime.world import final


class World:
    """A service with its own model and a fallback, each a provider of its own."""

    def __init__(self, own: FakeProvider, spare: FakeProvider) -> None:
        self.own, self.spare = own, spare

    def set(self, own: Answer, spare: Answer | None = None) -> None:
        """What both answer from now on."""
        self.own.then(own)
        self.spare.then(spare or Answer(final("From the fallback.")))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with listening([Answer()]) as own, listening([Answer()]) as spare:
        yield World(own, spare)


@pytest.fixture(scope="module")
def live(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    fallback = json.dumps([{"base_url": world.spare.base_url, "model": "m-2"}])
    flags = {"openai_base_url": world.own.base_url, "openai_model": "m-1", "fallback_models": fallback}
    with serving(tmp_path_factory.mktemp("providers"), **flags) as made:
        yield made


@pytest.fixture
async def api(live: Any) -> AsyncIterator[Api]:
    async with calling(live) as made:
        yield made


async def degraded(api: Api, query: str = "degraded=1") -> list[dict[str, Any]]:
    reply = await api.get(f"/admin/decision-log?{query}")
    assert reply.status == 200, reply.text
    return reply.json["rows"]


async def test_b12_a_page_drops_what_a_cut_stream_had_shown(api: Api, world: World) -> None:
    """A reset comes before the next attempt streams, the wait says why, and deltas join to the answer alone."""
    world.own.then(Answer(final("The limit is 10 and more"), cut=44), Answer(final("The limit is 100 000.")))
    page = await api.watch("what is the limit?")
    assert page.end is not None
    assert (page.end["type"], page.end["answer"]) == ("done", "The limit is 100 000.")
    types = page.types
    reset = types.index("reset")
    assert "delta" in types[:reset]
    assert "delta" in types[reset:]
    assert page.messages[reset]["attempt"] == 1
    assert {m["attempt"] for m in page.messages[reset:] if m["type"] == "delta"} == {2}
    waiting = next(m for m in page.messages if m["type"] == "status" and m["status"] == "waiting")
    assert [each["code"] for each in waiting["degraded"]] == ["stream_interrupted"]
    assert [each["kind"] for each in waiting["pending"]] == ["timer"]
    assert page.end["degraded"] == []
    again = await api.reread(page.meta["trace_id"])
    assert (again.text, "reset" in again.types) == ("The limit is 100 000.", False)


async def test_a_throttled_service_goes_to_its_fallback_and_comes_back(api: Api, world: World) -> None:
    """Journey 6: answers of the fallback say so, those after it do not, and one query lists the former."""
    world.set(throttled("30"))
    requests, marked = world.own.count, list[str]()
    for question, words in (("is it slow?", "fallback model m-2"), ("现在慢吗？", "备用模型 m-2")):
        reply = await api.ask(question)
        assert (reply["status"], reply["answer"]) == ("succeeded", "From the fallback.")
        (told,) = reply["degraded"]
        assert told["code"] == "model_switched"
        assert words in told["detail"]
        marked.append(reply["trace_id"])
    page = await api.watch("and in a stream?")
    statuses = [m for m in page.messages if m["type"] == "status"]
    assert [[each["code"] for each in m["degraded"]] for m in statuses][-1] == ["model_switched"]
    assert page.end is not None
    assert [each["code"] for each in page.end["degraded"]] == ["model_switched"]
    marked.append(page.meta["trace_id"])
    assert world.own.count - requests == 3, "one request each, and no wait"
    world.set(Answer(final("From its own.")))
    reply = await api.ask("is it fine again?")
    assert (reply["answer"], reply["degraded"]) == ("From its own.", [])
    rows = await degraded(api)
    assert [row["trace_id"] for row in rows] == marked[::-1]
    assert {row["degraded"] for row in rows} == {"model_switched"}
    assert [row["trace_id"] for row in await degraded(api, "degraded=model_switched")] == marked[::-1]
    assert await degraded(api, "degraded=unstructured") == []
    assert [row["trace_id"] for row in await degraded(api, "degraded=1&text=fallback")] == marked[::-1]


async def test_the_list_of_traces_filters_by_it(api: Api, world: World) -> None:
    """By the mark alone, with words, and in pages; each row names its codes."""
    world.set(throttled("30"))
    one = (await api.ask("whether apples are crimson"))["trace_id"]
    two = (await api.ask("whether pears are crimson"))["trace_id"]
    world.set(Answer(final("Yes.")))
    three = (await api.ask("whether cherries are crimson"))["trace_id"]

    async def listed(query: str) -> list[str]:
        found: list[str] = []
        before = ""
        while True:
            reply = (await api.get(f"/admin/agent-traces?limit=1&{query}{before}")).json
            found += [row["trace_id"] for row in reply["traces"]]
            assert all(row["degraded"] == ["model_switched"] for row in reply["traces"])
            if reply["next"] is None:
                return found
            before = f"&before={reply['next']}"

    assert (await listed("degraded=1"))[:2] == [two, one]
    assert await listed("degraded=model_switched&q=crimson") == [two, one]
    assert await listed("degraded=1&q=pears") == [two]
    assert await listed("degraded=1&status=failed") == []
    assert await listed("degraded=unstructured&q=crimson") == []
    every = (await api.get("/admin/agent-traces?limit=1")).json["traces"]
    assert [(row["trace_id"], row["degraded"]) for row in every] == [(three, [])]
    for path in ("agent-traces", "decision-log"):
        wrong = await api.get(f"/admin/{path}?degraded=Nonsense")
        assert (wrong.status, wrong.json["errors"][0]["path"]) == (422, "/query/degraded")


async def test_breakers_stand_in_the_metrics(api: Api, world: World) -> None:
    """How each endpoint stands now; what failed and where runs went is counted. An open one is not asked."""
    world.set(refusal(503))
    before = world.own.count
    while world.own.count - before < FAILURES:
        reply = await api.ask("does it work?")
        assert reply["status"] == "succeeded"
    stopped = world.own.count
    reply = await api.ask("and now?")
    assert (world.own.count, reply["answer"]) == (stopped, "From the fallback.")
    switched, lines = 'devassist_model_switches_total{reason="provider_circuit_open"}', dict[str, str]()
    async with asyncio.timeout(10):
        while switched not in lines:  # counted from the journal, a moment after
            text = (await api.get("/metrics")).text
            lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("devassist_"))
    assert lines[f'devassist_breaker_state{{endpoint="m-1@{world.own.base_url}"}}'] == "2.0"
    assert lines[f'devassist_breaker_state{{endpoint="m-2@{world.spare.base_url}"}}'] == "0.0"
    assert float(lines['devassist_model_failures_total{code="provider_error"}']) >= FAILURES
    assert float(lines[switched]) >= 1
    assert float(lines['devassist_answers_degraded_total{code="model_switched"}']) >= 1
    trace = (await api.get(f"/admin/agent-traces/{reply['trace_id']}")).json
    seen = next(event for event in trace["events"] if event["kind"] == "breaker_seen")
    assert seen["body"]["choice"] == 0
    assert trace["verification"]["ok"]


async def test_fallbacks_are_settings(tmp_path: Path) -> None:
    """Without them a failing provider is the run's failure, named for what it is; the request itself is accepted."""
    with (
        listening([refusal(401, "invalid api key")]) as fake,
        serving(tmp_path, openai_base_url=fake.base_url, openai_model="m-1") as live,
    ):
        async with calling(live) as api:
            reply = await api.ask("hello?")
    problem = reply["error"]
    assert (reply["status"], problem["code"], problem["status"]) == ("failed", "provider_auth_failed", 502)
    assert "invalid api key" in problem["detail"]
    assert fake.count == 1
