"""POST /chat: the answer object, its routing and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import STEP_KEYS
from tests.api.kit import ANSWER_KEYS, META_KEYS, POLICY, Api, Live, serving

PROBLEM_KEYS = {"type", "title", "status", "detail", "instance", "code", "request_id"}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("chat")) as made:
        yield made


async def test_every_field_of_the_answer_is_there(api: Api) -> None:
    """The answer, its steps, meta and usage have the contract's keys and types, and no others."""
    answer = await api.ask(POLICY, "/chat")
    assert answer.keys() == ANSWER_KEYS
    assert answer["meta"].keys() == META_KEYS
    assert answer["usage"].keys() == {"input_tokens", "output_tokens", "model_calls", "tool_calls", "cost"}
    assert all(step.keys() == STEP_KEYS for step in answer["steps"])
    assert (answer["status"], answer["error"], answer["pending"], answer["degraded"]) == ("succeeded", None, [], [])
    assert len(answer["trace_id"]) == 32
    assert answer["trace_id"][12] == "7", "a UUIDv7"
    assert answer["meta"]["trace_id"] == answer["trace_id"]
    assert answer["meta"]["conversation_id"] == answer["conversation_id"]
    for step in answer["steps"]:
        assert all(isinstance(step[key], int) for key in ("started_at_ms", "finished_at_ms", "latency_ms"))
        assert step["started_at_ms"] <= step["finished_at_ms"]


async def test_a_policy_question_is_quoted_with_its_source(api: Api) -> None:
    """The output of the policy agent names title, clause and dates, and the last step has no tool."""
    answer = await api.ask(POLICY, "/chat")
    source = answer["output"]["source"]
    assert source.keys() == {"policy_title", "clause", "effective_date", "revision_date"}
    assert (source["clause"], source["effective_date"]) == ("第七条", "2025-07-01")
    assert answer["output"]["answer"] == answer["answer"]
    assert (answer["output"]["confidence"], answer["output"]["verbatim"]) == ("high", True)
    assert [step["tool_name"] for step in answer["steps"]] == ["get_policy", None]
    assert answer["usage"]["tool_calls"] == 1
    assert answer["usage"]["cost"] is None


async def test_streaming_gives_the_same_answer(api: Api) -> None:
    """The end of the stream says what the POST without streaming says."""
    page = await api.watch(POLICY, "/chat")
    answer = await api.ask(POLICY, "/chat")
    assert page.end is not None
    assert page.end.keys() == {"type", "status", "answer", "output", "usage", "degraded"}
    assert page.meta.keys() == META_KEYS | {"type"}
    for key in ("status", "answer", "output", "usage", "degraded"):
        assert page.end[key] == answer[key], key
    assert [s["tool_name"] for s in page.steps.values()] == [s["tool_name"] for s in answer["steps"]]


ROUTES: list[tuple[dict[str, Any], str, str]] = [
    ({"message": POLICY}, "agent", "policy"),
    ({"message": "看看这个\n```python\nprint(1)\n```"}, "agent", "dev"),
    ({"message": "请帮我\n执行：print(1)"}, "agent", "dev"),
    ({"message": "please\nrun: print(1)"}, "agent", "dev"),
    ({"message": "写代码实现二分查找"}, "agent", "dev"),
    ({"message": "请运行代码看看"}, "agent", "dev"),
    ({"message": "explain it step by step"}, "agent", "dev"),
    ({"message": "你好"}, "chat", "chat"),
    ({"message": "How are you?"}, "chat", "chat"),
    ({"message": "你好", "use_agent": True}, "agent", "dev"),
    ({"message": "你好", "agent": "policy"}, "agent", "policy"),
    ({"message": POLICY, "agent": "dev"}, "agent", "dev"),
    ({"message": POLICY, "use_agent": False}, "chat", "chat"),
    ({"message": "写代码", "use_agent": False}, "chat", "chat"),
    ({"message": POLICY, "use_rag": False}, "agent", "policy"),
    ({"message": POLICY, "use_rag": True}, "rag", "rag"),
    ({"message": POLICY, "collection_name": "policies"}, "rag", "rag"),
    ({"message": "你好", "agent": "rag"}, "rag", "rag"),
    ({"message": "```\nx\n```", "agent": "policy"}, "agent", "policy"),
]


@pytest.mark.parametrize(("body", "route", "agent"), ROUTES)
async def test_routing_says_where_and_why(api: Api, body: dict[str, Any], route: str, agent: str) -> None:
    """Flags come before code, code before words, words before what the library knows; the reason stands in meta."""
    meta = (await api.post("/chat", body)).json["meta"]
    assert (meta["route"], meta["agent_name"]) == (route, agent), meta["route_reason"]
    assert meta["agent"] is (route == "agent")
    assert meta["rag"] is (route == "rag")
    assert len(meta["route_reason"]) > 5


@pytest.mark.parametrize("message", ["政策从哪天开始执行？", "如何验证参保身份？", "系统的运行时间是怎么规定的？"])
async def test_ordinary_policy_words_ask_for_no_doing(api: Api, message: str) -> None:
    """A bare 运行, 执行 or 验证 never leads to the agent that runs code."""
    assert (await api.ask(message, "/chat"))["meta"]["agent_name"] != "dev"


async def test_plain_chat_without_a_model_says_what_it_can_do(api: Api) -> None:
    """The built-in planner answers, names itself, and tells how to set a model."""
    answer = await api.ask("你好", "/chat")
    assert answer["meta"]["model_kind"] == "extractive"
    assert "OPENAI_BASE_URL" in answer["answer"]
    assert answer["output"] is None
    assert answer["steps"][-1]["tool_name"] is None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"collection_name": "handbook"}, 404, "collection_not_found"),
        ({"use_rag": True, "collection_name": "handbook"}, 404, "collection_not_found"),
        ({"collection_name": "agent_memory"}, 404, "collection_not_found"),
        ({"agent": "nobody"}, 404, "agent_not_found"),
        ({"agent": ""}, 404, "agent_not_found"),
        ({"tools": ["no_such_tool"]}, 404, "tool_not_found"),
        ({"replaces": "0" * 32}, 404, "run_not_found"),
    ],
)
async def test_what_is_not_there_is_404_and_begins_no_run(
    api: Api, live: Live, body: dict[str, Any], status: int, code: str
) -> None:
    """A refused request leaves nothing in the journal."""
    before = live.ask(live.services.journal.tip())
    reply = await api.post("/chat", {"message": "你好"} | body)
    assert (reply.status, reply.json["code"]) == (status, code)
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.json.keys() >= PROBLEM_KEYS
    assert reply.json["type"] == f"urn:devassist:error:{code}"
    assert live.ask(live.services.journal.tip()) == before


async def test_as_of_reaches_the_tool(api: Api) -> None:
    """Asked as of a day before the rule was in force, the answer does not quote that revision."""
    today = await api.ask(POLICY, "/chat")
    before = await api.ask(POLICY, "/chat", as_of="2019-01-01")
    assert today["output"]["source"]["effective_date"] == "2025-07-01"
    assert before["status"] == "succeeded"
    assert (before["output"]["source"] or {}).get("effective_date", "") <= "2019-01-01"


@pytest.mark.parametrize("known_at", ["2026-01-01T00:00:00Z", "2026-01-01T08:00:00+08:00", "2026-01-01T00:00:00"])
async def test_known_at_is_a_date_time(api: Api, known_at: str) -> None:
    """With an offset or without, which means UTC."""
    assert (await api.ask("你好", "/chat", known_at=known_at))["status"] == "succeeded"


async def test_a_conversation_gets_a_name(api: Api) -> None:
    """Without one a new id is made that can be sent back; a given one is kept."""
    made = (await api.ask("你好", "/chat"))["conversation_id"]
    assert (await api.ask("你好", "/chat", conversation_id=made))["conversation_id"] == made
    assert (await api.ask("你好", "/chat", conversation_id="mine_1-A"))["conversation_id"] == "mine_1-A"
    assert (await api.ask("你好", "/chat"))["conversation_id"] != made
