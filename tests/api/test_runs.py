"""GET /runs/{id}: where a run stands, its payloads, its graph; long ones in pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from devassist.api import routes_runs
from tests.api.client import Page
from tests.api.fakes import Fakes, call, final
from tests.api.kit import ANSWER_KEYS, POLICY, Api, Live, serving
from tests.mermaid import check

FAKES = Fakes()
NASTY = 'quotes " \' `, [brackets] {} () |, end, <b>html</b> & #59; 😀\nnew line; %% comment\nclick x "javascript:1"'
RULES: list[dict[str, Any]] = [
    {"match": "^sleep", "replies": [call("wait", seconds=0.6), final("slept")]},
    {"match": "^many", "replies": [*(call("search_docs", query=f"q{i}") for i in range(30)), final("many")]},
    {"match": "^nasty", "replies": [call("search_docs", NASTY.splitlines()[0], query=NASTY), final(NASTY)]},
    {"match": "^fail", "replies": [{"error": {"detail": NASTY}}]},
    {"match": "退休", "observations": 0, "replies": [call("get_policy", question=POLICY)]},
    {"match": "退休", "observations": 1, "replies": [final("「没有这样的条款内容在政策库里」")]},
    {"replies": [final("hello")]},
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("runs"), RULES, FAKES.tools(), max_steps="50") as made:
        yield made


async def test_a_run_under_way_and_then_ended(api: Api) -> None:
    """While it runs its status says so and its steps so far stand there; afterwards it is what the POST gave."""
    FAKES.began.clear()
    asked = asyncio.create_task(api.ask("sleep"))
    await asyncio.to_thread(FAKES.began.wait, 10)
    trace_id = (await api.get("/admin/agent-traces?limit=1")).json["traces"][0]["trace_id"]
    run = (await api.get(f"/runs/{trace_id}")).json
    assert run.keys() == ANSWER_KEYS
    assert (run["status"], run["answer"], run["steps"], run["pending"]) == ("running", None, [], [])
    answer = await asked
    assert (await api.get(f"/runs/{trace_id}")).json == answer


async def test_long_runs_are_paged(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer holds more than a page of steps; a Link header names the next, and they join to the whole (C13)."""
    whole = (await api.ask("many"))["steps"]
    assert len(whole) == 31
    trace_id = (await api.get("/admin/agent-traces?limit=1")).json["traces"][0]["trace_id"]
    monkeypatch.setattr(routes_runs, "STEPS_PAGE", 10)
    steps: list[Any] = []
    path = f"/runs/{trace_id}"
    pages = 0
    while path:
        reply = await api.get(path)
        steps += reply.json["steps"]
        pages += 1
        link = re.fullmatch(r'<(.+)>; rel="next"', reply.headers.get("Link", ""))
        path = link[1] if link else ""
    assert (pages, steps) == (4, whole)
    detail = (await api.get(f"/admin/agent-traces/{trace_id}?first_step=10")).json
    assert (detail["steps"], detail["next_step"]) == (whole[10:20], 20)
    assert (await api.get(f"/runs/{trace_id}?first_step=500")).json["steps"] == []
    for bad in ("-1", "x", "9" * 40):
        assert (await api.get(f"/runs/{trace_id}?first_step={bad}")).status == 422


async def test_payloads_are_those_that_the_run_names(api: Api) -> None:
    """Each reference of its events opens; one of another run, or none at all, is 404."""
    mine, other = await api.ask("nasty"), await api.ask("many")
    events = (await api.get(f"/admin/agent-traces/{mine['trace_id']}")).json["events"]
    refs = {v for e in events for v in e["body"].values() if isinstance(v, str) and len(v) == 43}
    assert len(refs) > 5
    texts = set()
    for ref in refs:
        reply = await api.get(f"/runs/{mine['trace_id']}/payloads/{ref}")
        assert reply.status == 200
        assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        texts.add(reply.text)
    assert {"nasty", NASTY} <= texts
    foreign = [
        e["body"]["message"] for e in (await api.get(f"/admin/agent-traces/{other['trace_id']}")).json["events"][:1]
    ]
    for ref in (*foreign, "x", "A" * 43, "%00", "..%2F.."):
        reply = await api.get(f"/runs/{mine['trace_id']}/payloads/{ref}")
        assert reply.status == 404, ref


async def test_the_graph_is_valid_whatever_its_labels_hold(api: Api, live: Live) -> None:
    """Plain text that Mermaid parses, as the API gives it and as the file of the ended run holds it."""
    graphs: list[str] = []
    for message in ("many", "nasty", "fail", "hi", "sleep"):
        trace_id = (await api.ask(message))["trace_id"]
        reply = await api.get(f"/runs/{trace_id}/graph.mmd")
        assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
        path = live.data / "graphs" / f"{trace_id}.mmd"
        async with asyncio.timeout(10):
            while not path.exists():
                await asyncio.sleep(0.02)
        full = (await api.get(f"/runs/{trace_id}/graph.mmd?full=1")).text
        graphs += [reply.text, full, path.read_text("utf-8")]
    results = check(graphs)
    assert all(result.ok for result in results), results
    assert all(result.nodes >= 3 for result in results)


async def test_a_gated_run_hides_what_it_did_not_release(live: Live, api: Api) -> None:
    """To administrators, as everybody is before keys exist, the raw reply is shown beside what was released."""
    page = Page()
    async with api.stream(POLICY, agent="policy") as response:
        connection = page.connect()
        async for chunk in response.content.iter_any():
            connection.feed(chunk)
    run = (await api.get(f"/runs/{page.meta['trace_id']}")).json
    assert run["answer"].startswith("【未核实】")
    assert run["steps"][-1]["action_raw"].startswith("Thought: t\nAction: final: 「没有")
    assert run["output"]["confidence"] == "low"
    assert run["output"]["verbatim"] is False
