"""Real statutes as the policy library of a running service: quotes that stand, and silence where nothing does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from devassist.core.scope import SYSTEM
from tests import kb
from tests.api.kit import POLICY, Api, Live, calling, serving
from tests.cli.kit import invoke
from tests.mermaid import check

TEN = [question.query for question in kb.TEN_QUESTIONS]
NOTHING = kb.NOTHING_QUESTIONS[:3]
NO_CLAUSE = ("政策库中没有找到与此问题相关的条款", "The policy library has no clause on this question")
LIBRARIES: dict[str, tuple[Callable[[], list[dict[str, Any]]], int]] = {
    "13 laws": (kb.statute_assets, 1331),
    "50 laws": (kb.core50_assets, 3886),
}


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(service, stored text of each clause by its id)."""
    kb.need_bundle()
    make, articles = LIBRARIES[request.param]
    assets = make()
    stored = {c["clause_id"]: (a["title"], c["label"], c["text"]) for a in assets for c in a["clauses"]}
    assert len(stored) == articles
    place = tmp_path_factory.mktemp("statutes")
    with serving(place, policy_dir=str(kb.write_policy_dir(place / "policies", assets))) as live:
        yield live, stored


def quotes(answer: dict[str, Any]) -> list[str]:
    """The quotation of an answer: from the first opening mark to the last closing one."""
    return re.findall(r"：「(.*)」", answer["answer"], re.DOTALL)


async def test_ten_lay_questions(library: tuple[Live, dict[str, Any]]) -> None:
    """At least eight are answered with a quote, and each quote is the stored text of a clause that this run retrieved,
    named with its title, label and dates."""
    live, stored = library
    answered = 0
    async with calling(live) as api:
        for question in TEN:
            answer = await api.ask(question, agent="policy")
            assert answer["status"] == "succeeded"
            retrieved = (await api.get(f"/runs/{answer['trace_id']}")).json["steps"][0]["observation"]["matches"]
            assert all(stored[m["clause_id"]] == (m["title"], m["label"], m["text"]) for m in retrieved)
            found = quotes(answer)
            answered += bool(found)
            for quote in found:
                (match,) = [m for m in retrieved if m["text"] == quote]
                source = answer["output"]["source"]
                assert (source["policy_title"], source["clause"]) == (match["title"], match["label"])
                assert source["effective_date"] == match["effective_date"]
                assert source["revision_date"] == match["revision_date"]
                for part in (match["title"], match["label"], match["effective_date"], match["revision_date"]):
                    assert part is None or part in answer["answer"]
                assert answer["output"]["verbatim"] is True
                assert answer["output"]["confidence"] in ("high", "medium")
    assert answered >= 8


async def test_three_questions_about_nothing_in_it(library: tuple[Live, dict[str, Any]]) -> None:
    """The library is said to have no such clause, in the language of the question, with no source."""
    live, _ = library
    async with calling(live) as api:
        for question in NOTHING:
            answer = await api.ask(question, agent="policy")
            assert answer["answer"].startswith(NO_CLAUSE), answer["answer"]
            assert answer["output"]["source"] is None
            assert answer["output"]["verbatim"] is False
            assert answer["steps"][0]["observation"] == {"found": False, "matches": []}
            assert answer["meta"]["agent_name"] == "policy"


async def whole_trace(api: Api, trace_id: str) -> str:
    """Checks that a trace has every event of its steps; returns its graph."""
    detail = (await api.get(f"/admin/agent-traces/{trace_id}")).json
    kinds = [event["kind"] for event in detail["events"]]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    assert kinds.count("model_intended") == kinds.count("model_replied") == detail["usage"]["model_calls"]
    assert kinds.count("tool_intended") == kinds.count("tool_returned") == detail["usage"]["tool_calls"] >= 1
    rows = (await api.get(f"/admin/decision-log?trace_id={trace_id}&oldest_first=true")).json["rows"]
    assert [row["seq"] for row in rows] == [event["seq"] for event in detail["events"]]
    assert [row["hash"] for row in rows] == [event["hash"] for event in detail["events"]]
    assert detail["verification"]["ok"]
    return detail["graph"]


async def test_every_run_has_its_evidence(library: tuple[Live, dict[str, Any]]) -> None:
    """Each trace is complete and verifies, also by the command; each graph is one that Mermaid draws; each run's
    decisions come out the same when they are derived again."""
    live, _ = library
    async with calling(live) as api:
        runs = (await api.get("/admin/agent-traces?limit=200")).json["traces"]
        if len(runs) < 3:
            runs = [{"trace_id": (await api.ask(q, agent="policy"))["trace_id"]} for q in (*TEN, *NOTHING)]
        graphs = [await whole_trace(api, run["trace_id"]) for run in runs]
    assert all(result.ok for result in check(graphs))
    for run in runs:
        report = live.ask(live.services.auditor.replay(SYSTEM, bytes.fromhex(run["trace_id"])))
        assert report.ok, report.differences
        assert report.decisions >= 2
    said = await asyncio.to_thread(invoke, "--data-dir", str(live.data), "trace", "verify", "--all")
    assert (said.exit_code, f"{len(runs)} runs, " in said.stdout) == (0, True), said.output
    again = await asyncio.to_thread(invoke, "--data-dir", str(live.data), "trace", "replay", runs[0]["trace_id"])
    assert again.exit_code == 0
    assert " same: " in again.stdout


async def test_the_samples_answer_the_first_question(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Out of the box the question of the README is routed to policy and quoted with title and date."""
    with serving(tmp_path_factory.mktemp("samples")) as live:
        async with calling(live) as api:
            answer = await api.ask(POLICY, "/chat")
            graph = await whole_trace(api, answer["trace_id"])
    assert (answer["meta"]["agent_name"], answer["meta"]["route"]) == ("policy", "agent")
    (quote,) = quotes(answer)
    assert quote in [match["text"] for match in answer["steps"][0]["observation"]["matches"]]
    assert "85%" in quote
    assert answer["output"]["source"]["policy_title"] in answer["answer"]
    assert answer["output"]["source"]["effective_date"] in answer["answer"]
    assert check([graph])[0].ok
