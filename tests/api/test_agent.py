"""POST /agent: agents, their tools, code that goes to the sandbox as it is, faults within a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import STEP_KEYS
from tests.api.fakes import Fakes, call, final
from tests.api.kit import ANSWER_KEYS, META_KEYS, Api, Live, serving

FAKES = Fakes()
RULES: list[dict[str, Any]] = [
    {"match": "^two steps", "replies": [call("search_docs", query="a"), call("search_docs", query="b"), final("done")]},
    {"match": "^fail", "replies": [{"error": {"detail": "the provider is down", "provider_status": 500}}]},
    {"match": "^bad args", "observations": 0, "replies": [call("search_docs", q=1), call("search_docs", query="ok")]},
    {"match": "^bad args", "observations": 1, "replies": [final("mended")]},
    {"match": "^never", "replies": ["Thought: hm", "Thought: hm", "Thought: hm", "Thought: hm"]},
    {"match": "^unknown tool", "replies": [call("nosuch"), final("without it")]},
    {"match": "^both", "replies": [{"calls": [
        {"id": "a", "name": "search_docs", "arguments": {"query": "x"}},
        {"id": "b", "name": "search_docs", "arguments": {"query": "y"}}]}, final("both done")]},
    {"replies": [final("hello")]},
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("agent"), RULES, FAKES.tools()) as made:
        yield made


async def test_the_answer_of_an_agent(api: Api) -> None:
    """Every field is there; each call is a step, and so is the final turn."""
    answer = await api.ask("two steps")
    assert answer.keys() == ANSWER_KEYS
    assert answer["meta"].keys() == META_KEYS
    assert (answer["status"], answer["answer"], answer["output"]) == ("succeeded", "done", None)
    assert [(s["step_index"], s["tool_name"]) for s in answer["steps"]] == [
        (0, "search_docs"), (1, "search_docs"), (2, None),
    ]  # fmt: skip
    first = answer["steps"][0]
    assert first.keys() == STEP_KEYS
    assert (first["thought"], first["tool_args"], first["observation"]) == ("t", {"query": "a"}, {"hits": []})
    assert first["observation_text"] == '{"hits":[]}'
    assert answer["usage"]["model_calls"] == 3
    assert answer["usage"]["tool_calls"] == 2
    assert (answer["meta"]["agent_name"], answer["meta"]["route"]) == ("dev", "agent")
    assert (answer["meta"]["model"], answer["meta"]["model_kind"]) == ("scripted", "scripted")


async def test_the_stream_of_an_agent(api: Api) -> None:
    """meta, then each step begun and complete, then the answer and one end, equal to the POST without streaming."""
    page = await api.watch("two steps")
    answer = await api.ask("two steps")
    kinds = [kind for kind in page.types if kind not in ("partial", "delta")]
    assert kinds == ["meta", "step_started", "step", "step_started", "step", "step", "answer", "done"]
    assert page.answer is not None
    assert page.answer.keys() == {"type", "text", "output", "ref", "verdicts"}
    assert page.end is not None
    assert (page.end["answer"], page.end["usage"]) == (answer["answer"], answer["usage"])
    started = next(m for m in page.messages if m["type"] == "step_started")
    assert started.keys() >= {"step_index", "call_index", "thought", "tool_name", "tool_args", "started_at_ms"}
    assert started["tool_args"] == {"query": "a"}


async def test_several_native_calls_are_steps_of_one_index(api: Api) -> None:
    """Two calls of one decision stand in call order under one step_index."""
    page = await api.watch("both")
    calls = [(m["step_index"], m["call_index"], m["tool_args"]["query"]) for m in page.steps.values() if m["tool_name"]]
    assert calls == [(0, 0, "x"), (0, 1, "y")]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failed_run_is_200_with_its_error(api: Api, stream: bool) -> None:
    """Once the run exists its faults stand in status and error, here and at the end of the stream."""
    if stream:
        page = await api.watch("fail")
        assert page.end is not None
        error = page.end
        assert error["type"] == "error"
    else:
        answer = await api.ask("fail")
        assert (answer["status"], answer["answer"]) == ("failed", None)
        error = answer["error"]
        assert error["type"] == "urn:devassist:error:provider_error"
    assert (error["code"], error["status"]) == ("provider_error", 502)
    assert error["title"]
    assert error["detail"]
    assert len(error["trace_id"]) == 32


async def test_faults_of_a_step_stand_in_it(api: Api) -> None:
    """Arguments that do not fit are that step's error, with the number that they would have as a request."""
    answer = await api.ask("bad args")
    assert answer["answer"] == "mended"
    error = answer["steps"][0]["error"]
    assert error.keys() == {"code", "message", "retryable", "status"}
    assert (error["code"], error["status"]) == ("tool_arguments_invalid", 400)


async def test_replies_without_a_decision_end_the_run(api: Api) -> None:
    """After the bounded corrections the run fails in plain words, and the POST is still a 200."""
    answer = await api.ask("never")
    assert answer["status"] == "failed"
    assert answer["usage"]["model_calls"] == 3, "one try and two corrections"
    assert answer["error"]["detail"]


async def test_an_unknown_tool_goes_back_to_the_model(api: Api) -> None:
    """The model is told the names that exist; nothing like it is run."""
    answer = await api.ask("unknown tool")
    step = answer["steps"][0]
    assert (step["error"]["code"], step["error"]["status"]) == ("tool_not_found", 404)
    assert "search_docs" in step["error"]["message"]
    assert answer["answer"] == "without it"


@pytest.mark.parametrize(
    ("agent", "tools", "status", "code"),
    [
        ("dev", ["nosuch"], 404, "tool_not_found"),
        ("dev", ["search_docs", "nosuch"], 404, "tool_not_found"),
        ("policy", ["search_docs"], 400, "tool_not_allowed"),
        ("chat", ["get_policy"], 400, "tool_not_allowed"),
        ("nobody", [], 404, "agent_not_found"),
    ],
)
@pytest.mark.parametrize("route", ["/agent", "/chat"])
async def test_tools_that_cannot_be_had(
    api: Api, route: str, agent: str, tools: list[str], status: int, code: str
) -> None:
    """A name the agent does not have is 400, one that does not exist 404, whatever the route."""
    reply = await api.post(route, {"message": "hi", "agent": agent, "tools": tools})
    assert (reply.status, reply.json["code"]) == (status, code)


async def test_tools_restrict_what_the_model_may_call(api: Api, live: Live) -> None:
    """A tool that was left out is unknown to the run; an empty list leaves none."""
    for tools in ([], ["wait"]):
        answer = await api.ask("two steps", tools=tools)
        assert answer["steps"][0]["error"]["code"] in ("tool_not_found", "reply_format_invalid"), tools
        assert answer["usage"]["tool_calls"] == 0
    assert (await api.ask("two steps", tools=["search_docs"]))["usage"]["tool_calls"] == 2


CODE = "def f():\n    return 'Ä😀\\n'\n\nprint(f())\t\n# ``  \n"


@pytest.mark.parametrize("message", [f"```python\n{CODE}```", f"\n```\n{CODE}```\n", f"~~~py\n{CODE}~~~"])
@pytest.mark.parametrize("route", ["/agent", "/chat"])
async def test_a_code_block_goes_to_the_sandbox_byte_for_byte(api: Api, route: str, message: str) -> None:
    """Whatever model is set, the built-in planner decides it, and meta says so."""
    FAKES.calls.clear()
    answer = await api.ask(message, route, tools=["execute_code"])
    assert answer["meta"]["model_kind"] == "extractive"
    assert [name for name, _ in FAKES.calls] == ["execute_code"]
    assert FAKES.calls[0][1]["code"] in (CODE, CODE.removesuffix("\n"))
    assert answer["status"] == "succeeded"


async def test_more_than_a_code_block_is_for_the_model(api: Api) -> None:
    """Words beside the block, or other tools, leave the decision to the model that is set."""
    two = "```\nx\n```\nand\n```\ny\n```"
    only = {"tools": ["execute_code"]}
    for body in (only | {"message": "run\n```\nx\n```"}, only | {"message": two}, {"message": "```\nx\n```"}):
        assert (await api.post("/agent", body)).json["meta"]["model_kind"] == "scripted"


async def test_the_policy_agent_without_its_tool_gives_no_grounded_answer(api: Api) -> None:
    """A grounded agent that looked nothing up releases no words of the model."""
    answer = await api.ask("hi", agent="policy", tools=[])
    assert answer["answer"] != "hello"
    assert (answer["output"]["source"], answer["output"]["verbatim"]) == (None, False)
    assert [d["code"] for d in answer["degraded"]] == ["not_consulted"]
    assert all(d["detail"] for d in answer["degraded"])


async def test_the_subject_owns_the_texts_of_a_run(api: Api, live: Live) -> None:
    """With ``subject`` the texts are that person's: another erasure domain than the caller's."""
    mine, theirs = [(await api.ask("hi", **more))["trace_id"] for more in ({}, {"subject": "citizen-7"})]
    bodies = [(await api.get(f"/admin/agent-traces/{t}")).json["events"][0]["body"] for t in (mine, theirs)]
    assert bodies[0]["domain"] == bodies[0]["actor"]
    assert bodies[1]["actor"] == bodies[0]["actor"]
    assert bodies[1]["domain"] != bodies[0]["domain"]
    found = live.ask(live.services.vault.load(frozenset({bytes.fromhex(bodies[1]["domain"])})))
    assert [(name.kind, name.name) for name in found.values()] == [("subject", "citizen-7")]
