"""What the service says of itself: health, metrics, agents, tools, its OpenAPI document, its page; and its farewell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from tests.api.fakes import Fakes, call, final
from tests.api.kit import Api, Live, calling, serving

FAKES = Fakes()
RULES: list[dict[str, Any]] = [
    {"match": "^fail", "replies": [{"error": {"detail": "down"}}]},
    {"match": "^sleep", "replies": [call("wait", seconds=1.2), final("slept")]},
    {"match": "^tool", "replies": [call("search_docs", query="x"), final("done")]},
    {"replies": [final("hello")]},
]
PATHS = {
    "/chat", "/agent", "/runs/{trace_id}", "/runs/{trace_id}/events", "/runs/{trace_id}/cancel",
    "/runs/{trace_id}/citations",
    "/runs/{trace_id}/approvals/{digest}", "/runs/{trace_id}/steps/{step_index}/settle",
    "/runs/{trace_id}/graph.mmd", "/runs/{trace_id}/payloads/{ref}", "/admin/agent-traces",
    "/admin/agent-traces/{trace_id}", "/admin/decision-log", "/conversations", "/conversations/{conversation_id}",
    "/agents", "/tools", "/livez", "/readyz", "/health", "/metrics",
    "/knowledge/collections", "/knowledge/documents", "/knowledge/documents/{doc_id}",
    "/knowledge/documents/{doc_id}/repeal", "/knowledge/revisions/{rev_id}", "/knowledge/revisions/{rev_id}/raw",
    "/knowledge/diff", "/knowledge/clauses/{clause_id}", "/knowledge/search", "/knowledge/index",
    "/knowledge/index/rebuild", "/knowledge/quarantine", "/knowledge/affected", "/knowledge/export",
}  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("meta"), RULES, FAKES.tools()) as made:
        yield made


async def test_health(api: Api) -> None:
    """Alive is one thing, ready another, which says what it looked at; /health is the same."""
    assert (await api.get("/livez")).json == {"status": "ok"}
    ready = await api.get("/readyz")
    assert (ready.status, ready.json["status"], ready.json["journal"]) == (200, "ok", "ok")
    assert ready.json["model"] == "scripted:scripted"
    assert ready.json["draining"] is False
    assert ready.json["sandbox"].keys() == {"backend", "fault"}
    assert (await api.get("/health")).json.keys() == ready.json.keys()


async def samples(api: Api) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    reply = await api.get("/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain")
    families = list(text_string_to_metric_families(reply.text))
    assert len({family.name for family in families}) == len(families)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


async def test_metrics_count_what_was_appended(api: Api) -> None:
    """Runs by agent and by end, tools, model attempts and requests go up by what just happened, and nothing else."""
    before = await samples(api)
    await api.ask("tool")
    await api.ask("fail")
    await api.get("/runs/" + "0" * 32)
    await api.get("/no-such-path")
    expected = {
        ("devassist_runs_started_total", (("agent", "dev"),)): 2,
        ("devassist_runs_ended_total", (("status", "succeeded"),)): 1,
        ("devassist_runs_ended_total", (("status", "failed"),)): 1,
        ("devassist_run_errors_total", (("code", "provider_error"),)): 1,
        ("devassist_tool_attempts_total", (("outcome", "result"),)): 1,
        ("devassist_model_attempts_total", (("outcome", "final"),)): 1,
        ("devassist_runs_open", ()): 0,
    }
    grown: dict[Any, float] = {}
    for _ in range(100):
        after = await samples(api)
        grown = {key: after[key] - before.get(key, 0) for key in expected if key in after}
        if grown == expected:
            break
        await asyncio.sleep(0.05)
    assert grown == expected
    requests = {
        key: value for key, value in (await samples(api)).items() if key[0].endswith("_request_duration_seconds_count")
    }
    routes = {dict(labels)["http_route"] for _, labels in requests}
    assert {"/agent", "/runs/{trace_id}", "unmatched"} <= routes
    assert not any("0000" in route or "no-such" in route for route in routes)


async def test_agents_and_tools(api: Api) -> None:
    """The shipped agents with what they may use, and each tool with a valid schema and its effect class."""
    agents = {row["name"]: row for row in (await api.get("/agents")).json["agents"]}
    assert {"dev", "policy", "chat"} <= agents.keys()
    assert agents["dev"]["tools"] == "*"
    assert (agents["policy"]["tools"], agents["policy"]["release"]) == (["get_policy"], "gated")
    assert agents["dev"]["release"] == "live"
    assert all(row["description"]["zh"] and row["description"]["en"] for row in agents.values())
    tools = {row["name"]: row for row in (await api.get("/tools")).json["tools"]}
    assert {"get_policy", "search_docs", "execute_code"} <= tools.keys()
    for row in tools.values():
        Draft202012Validator.check_schema(row["parameters"])
        assert row["effect"] in ("pure", "idempotent", "once")


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


async def test_the_openapi_document(api: Api) -> None:
    """Every path is there, every reference resolves, refusals are problems, and the request body is described."""
    document = (await api.get("/openapi.json")).json
    assert document["openapi"].startswith("3.1")
    assert document["paths"].keys() == PATHS
    schemas = document["components"]["schemas"]
    found = set(references(document))
    assert found
    assert all(ref.removeprefix("#/components/schemas/") in schemas for ref in found), found
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert schemas["ChatRequest"]["additionalProperties"] is False
    assert schemas["ChatRequest"]["required"] == ["message"]
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status >= "400":
                    assert list(response["content"]) == ["application/problem+json"]
    chat = document["paths"]["/chat"]["post"]
    assert chat["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ChatRequest"}
    assert chat["responses"]["200"]["content"].keys() == {"application/json", "text/event-stream"}


async def test_answers_fit_the_document(api: Api) -> None:
    """An answer and a problem validate against the schemas that the document gives for them."""
    document = (await api.get("/openapi.json")).json
    for name, value in (
        ("Answer", await api.ask("tool")),
        ("Answer", await api.ask("fail")),
        ("Problem", (await api.post("/agent", {})).json),
    ):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        Draft202012Validator(schema).validate(value)


async def test_the_page_without_a_build_says_where_the_api_is(api: Api) -> None:
    """The root is a page in both languages, with no script and nothing from elsewhere."""
    reply = await api.get("/")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "/openapi.json" in reply.text
    assert "<script" not in reply.text
    assert "http://" not in reply.text
    assert "https://" not in reply.text


async def test_a_build_is_served_where_there_is_one(tmp_path: Path) -> None:
    """With a web directory its index is the page."""
    web = tmp_path / "web"
    web.mkdir()
    (web / "index.html").write_text("<h1>built</h1>", "utf-8")
    with serving(tmp_path, RULES, web_dir=str(web)) as live:
        async with calling(live) as api:
            assert (await api.get("/")).text == "<h1>built</h1>"


async def test_a_draining_service_takes_no_runs_and_keeps_its_promises(tmp_path: Path) -> None:
    """New requests are 503 with Retry-After; who waits for an accepted run gets a 200 that says it goes on."""
    fakes = Fakes()
    with serving(tmp_path, RULES, fakes.tools()) as live:
        async with calling(live) as api:
            asked = asyncio.create_task(api.ask("sleep"))
            await asyncio.to_thread(fakes.began.wait, 10)
            live.loop.call_soon_threadsafe(live.services.service.stop_accepting, 0.1)
            while (await api.get("/livez")).status != 200 or not live.services.service.draining:
                await asyncio.sleep(0.01)
            for path in ("/readyz", "/health"):
                ready = await api.get(path)
                assert (ready.status, ready.json["code"], ready.json["draining"]) == (503, "draining", True)
                assert ready.headers["Content-Type"] == "application/problem+json"
            refused = await api.post("/agent", {"message": "hi"})
            assert (refused.status, refused.json["code"]) == (503, "draining")
            assert refused.headers["Retry-After"]
            answer = await asked
            assert (answer["status"], answer["answer"]) == ("running", None)
            trace_id = answer["trace_id"]
            assert (await api.get(f"/runs/{trace_id}")).status == 200
            assert (await api.until(trace_id, "succeeded"))["answer"] == "slept"


async def test_admission_is_bounded(tmp_path: Path) -> None:
    """One open run more than the setting allows is 429 with Retry-After, and begins nothing."""
    fakes = Fakes()
    with serving(tmp_path, RULES, fakes.tools(), max_open_runs="1") as live:
        async with calling(live) as api:
            asked = asyncio.create_task(api.ask("sleep"))
            await asyncio.to_thread(fakes.began.wait, 10)
            refused = await api.post("/agent", {"message": "hi"})
            assert (refused.status, refused.json["code"]) == (429, "overloaded")
            assert int(refused.headers["Retry-After"]) >= 1
            assert (await asked)["status"] == "succeeded"
            assert (await api.ask("hi"))["status"] == "succeeded"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health"])
async def test_load_balancers_may_ask_with_head(api: Api, path: str) -> None:
    """The probes answer HEAD as they answer GET, without a body."""
    async with api.session.head(api.url + path) as answer:
        assert (answer.status, await answer.read()) == (200, b"")
