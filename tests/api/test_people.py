"""People answer runs over HTTP: approvals (ask a human first), settlements (the outcome is unknown), and who may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devassist.core.scope import Scope
from devassist.core.tooling import ToolSpec
from devassist.runtime.intake import Submission
from devassist.tools.registry import Tool
from tests.api.client import Page
from tests.api.fakes import Fakes, call, final, schema
from tests.api.kit import Api, Live, Reply, calling, read_all, serving

FAKES = Fakes()
RULES: list[dict[str, Any]] = [
    {"match": "^pay", "replies": [call("pay", "it is due", amount=70), final("paid")]},
    {"match": "^mail", "replies": [call("mail", to="a"), final("sent")]},
    {"match": "^two", "replies": [{"calls": [
        {"id": "a", "name": "pay", "arguments": {"amount": 1}}, {"id": "b", "name": "pay", "arguments": {"amount": 2}},
    ]}, final("both")]},
    {"match": "^search", "replies": [call("search_docs", query="x"), final("found")]},
    {"match": "^wipe", "replies": [call("wipe"), final("wiped")]},
    {"replies": [final("hello")]},
]  # fmt: skip
AGENT = """name: {name}
description: {{zh: 述, en: says}}
prompt: {{zh: 示, en: told}}
tools: [{tools}]
{more}
"""
SENT: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def tools() -> list[Tool]:
    async def mail(to: str) -> dict[str, Any]:
        FAKES.calls.append(("mail", {"to": to}))
        await asyncio.sleep(60)
        return {"id": 0}

    async def wipe() -> str:
        FAKES.calls.append(("wipe", {}))
        return "wiped"

    sends = ToolSpec("mail", "Sends.", schema("to", to={"type": "string"}), SENT, "once", timeout_s=0.05)
    wipes = ToolSpec("wipe", "Wipes.", schema(), None, "once", permission="admin")
    return [*FAKES.tools(), Tool(sends, mail), Tool(wipes, wipe)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    place = tmp_path_factory.mktemp("people")
    agents = place / "agents"
    agents.mkdir()
    declared = {"asker": ("search_docs, pay", "approval: [search_docs]"), "teller": ("mail", "on_unknown: tell")}
    for name, (names, more) in declared.items():
        (agents / f"{name}.yaml").write_text(AGENT.format(name=name, tools=names, more=more), "utf-8")
    with serving(place, RULES, tools(), agents_dir=str(agents)) as made:
        yield made


@pytest.fixture(autouse=True)
def no_calls() -> None:
    FAKES.calls.clear()


async def approve(api: Api, run: dict[str, Any], decision: str = "approve", **body: Any) -> Reply:
    digest = run["pending"][0]["digest"]
    return await api.post(f"/runs/{run['trace_id']}/approvals/{digest}", {"decision": decision, **body})


async def settle(api: Api, run: dict[str, Any], outcome: str, step: int = 0, **body: Any) -> Reply:
    return await api.post(f"/runs/{run['trace_id']}/steps/{step}/settle", {"outcome": outcome, **body})


async def over(api: Api, reply: Reply) -> dict[str, Any]:
    assert reply.status == 200, reply.text
    return await api.until(reply.json["trace_id"], "succeeded", "failed", "cancelled")


def problem(reply: Reply) -> tuple[int, str]:
    assert reply.headers["content-type"] == "application/problem+json"
    return reply.status, reply.json["code"]


async def test_ask_a_human_first(api: Api, bob: Api) -> None:
    """The exact arguments are shown, the amount is changed, the run goes on, and the record names both digests."""
    run = await api.ask("pay")
    (pending,) = run["pending"]
    assert (run["status"], pending["kind"], pending["tool_args"]) == ("awaiting_approval", "approval", {"amount": 70})
    page, reading = Page(), asyncio.Event()

    async def follow() -> None:
        async with api.follow(run["trace_id"]) as response:
            reading.set()
            await read_all(response, page)

    following = asyncio.create_task(follow())
    await reading.wait()
    reply = await approve(bob, run, tool_args={"amount": 50}, note="too much")
    assert (reply.json["status"], reply.json["pending"]) == ("running", [])
    run = await over(api, reply)
    await following
    assert (run["answer"], FAKES.calls) == ("paid", [("pay", {"amount": 50})])
    assert run["steps"][0]["tool_args"] == {"amount": 50}
    assert page.end is not None
    assert page.end["status"] == "succeeded"
    detail = (await api.get(f"/admin/agent-traces/{run['trace_id']}")).json
    (said,) = [event for event in detail["events"] if event["kind"] == "approval_given"]
    assert (said["actor_name"], said["body"]["digest"]) == ("bob", pending["digest"])
    assert said["body"]["new_digest"] not in (None, pending["digest"])
    texts = [(await api.get(f"/runs/{run['trace_id']}/payloads/{said['body'][key]}")).text for key in ("args", "note")]
    assert texts == ['{"amount":50}', "too much"]
    assert detail["verification"]["ok"]


async def test_a_rejection_is_an_answer_of_the_run(api: Api) -> None:
    """The call is not made, its step says who refused it, and the model goes on."""
    run = await over(api, await approve(api, await api.ask("pay"), "reject"))
    assert (run["status"], FAKES.calls) == ("succeeded", [])
    assert (run["steps"][0]["error"]["code"], run["steps"][0]["error"]["status"]) == ("approval_rejected", 403)


async def test_an_answer_counts_once(api: Api, bob: Api) -> None:
    """The same again is 200 and changes nothing, another is 409 with what was said; an unknown digest is 404."""
    run = await api.ask("pay")
    ended = await over(api, await approve(api, run))
    again = await approve(bob, run)
    assert (again.status, again.json) == (200, ended)
    reply = await approve(bob, run, "reject")
    assert problem(reply) == (409, "already_decided")
    assert "approved by local" in reply.json["detail"]
    assert problem(await approve(bob, run, tool_args={"amount": 1})) == (409, "already_decided")
    path = f"/runs/{run['trace_id']}/approvals/"
    assert problem(await api.post(path + "f" * 64, {"decision": "approve"})) == (404, "approval_not_found")
    assert problem(await api.post(path + "nonsense", {"decision": "approve"})) == (404, "approval_not_found")
    assert FAKES.calls == [("pay", {"amount": 70})]


async def test_two_calls_of_one_decision_are_answered_apart(api: Api) -> None:
    """One after the other, each under its own digest and call_index."""
    first = await api.ask("two")
    assert [p["call_index"] for p in first["pending"]] == [0]
    await approve(api, first, "reject")
    async with asyncio.timeout(10):
        while (second := (await api.get(f"/runs/{first['trace_id']}")).json)["pending"] in ([], first["pending"]):
            await asyncio.sleep(0.01)
    assert [(p["call_index"], p["tool_args"]) for p in second["pending"]] == [(1, {"amount": 2})]
    run = await over(api, await approve(api, second))
    assert [step["error"] and step["error"]["code"] for step in run["steps"][:2]] == ["approval_rejected", None]
    assert FAKES.calls == [("pay", {"amount": 2})]


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, {"/decision"}),
        ({"decision": "maybe"}, {"/decision"}),
        ({"decision": "approve", "more": 1}, {"/more"}),
        ({"decision": "approve", "note": "n" * 4001}, {"/note"}),
        ({"decision": "approve", "tool_args": [1]}, {"/tool_args"}),
        ({"decision": "approve", "tool_args": {"amount": "secret-7"}}, {"/tool_args/amount"}),
        ({"decision": "approve", "tool_args": {}}, {"/tool_args"}),
        ({"decision": "reject", "tool_args": {"amount": 1}}, {"/tool_args"}),
    ],
)
async def test_a_body_that_does_not_fit_is_refused(api: Api, body: dict[str, Any], paths: set[str]) -> None:
    """With each wrong place named and nothing echoed; the run waits on."""
    run = await api.ask("pay")
    reply = await api.post(f"/runs/{run['trace_id']}/approvals/{run['pending'][0]['digest']}", body)
    assert problem(reply) == (422, "invalid_request")
    assert {error["path"] for error in reply.json["errors"]} == paths
    assert "secret-7" not in reply.text
    assert (await api.get(f"/runs/{run['trace_id']}")).json == run


async def test_an_agent_may_ask_for_approval_of_a_tool_that_does_not(api: Api) -> None:
    """Declared in its file; another agent calls the same tool freely."""
    asked = await api.ask("search", agent="asker")
    assert (asked["status"], asked["pending"][0]["tool_name"]) == ("awaiting_approval", "search_docs")
    assert (await over(api, await approve(api, asked)))["answer"] == "found"
    assert (await api.ask("search"))["status"] == "succeeded"
    agents = {row["name"]: row["approval"] for row in (await api.get("/agents")).json["agents"]}
    assert (agents["asker"], agents["dev"]) == (["search_docs"], [])
    assert {t["name"] for t in (await api.get("/tools")).json["tools"] if t["needs_approval"]} == {"pay"}


# -- settlements -----------------------------------------------------------------------------------------------------


async def test_it_happened(api: Api, bob: Api) -> None:
    """The result must be one that the tool could give; it becomes the call's, and the answer says who settled it."""
    run = await api.ask("mail")
    (pending,) = run["pending"]
    assert (run["status"], pending["kind"], pending["tool_name"]) == ("awaiting_approval", "settlement", "mail")
    reply = await settle(api, run, "happened", result={"id": "secret-7"})
    assert problem(reply) == (422, "invalid_request")
    assert [error["path"] for error in reply.json["errors"]] == ["/result/id"]
    assert "secret-7" not in reply.text
    ended = await over(api, await settle(bob, run, "happened", result={"id": 7}, note="in the log"))
    assert (ended["answer"], len(FAKES.calls)) == ("sent", 1)
    assert (ended["steps"][0]["observation"], ended["steps"][0]["in_doubt"]) == ({"id": 7}, False)
    assert (await settle(api, run, "happened", result={"id": 7})).json == ended
    reply = await settle(api, run, "abandon")
    assert problem(reply) == (409, "already_decided")
    assert "by bob" in reply.json["detail"]
    events = (await api.get(f"/admin/agent-traces/{run['trace_id']}")).json["events"]
    assert [e["actor_name"] for e in events if e["kind"] == "settlement_given"] == ["bob"]


async def test_it_is_repeated_or_given_up(api: Api) -> None:
    """Repeated it is asked about again, since its outcome is unknown again; given up the run fails."""
    run = await api.ask("mail")
    digest = run["pending"][0]["digest"]
    assert (await settle(api, run, "repeat", digest=digest)).status == 200
    async with asyncio.timeout(10):
        while (second := (await api.get(f"/runs/{run['trace_id']}")).json)["pending"] in ([], run["pending"]):
            await asyncio.sleep(0.01)
    assert (second["pending"][0]["digest"] != digest, len(FAKES.calls)) == (True, 2)
    assert (await settle(api, run, "repeat", digest=digest)).status == 200
    assert len(FAKES.calls) == 2
    ended = await over(api, await settle(api, second, "abandon"))
    assert (ended["status"], ended["error"]["code"], ended["steps"][0]["in_doubt"]) == (
        "failed", "outcome_unknown", True
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"outcome": "done"}, "/outcome"),
        ({"outcome": "repeat", "result": None}, "/result"),
        ({"outcome": "happened", "call_index": -1}, "/call_index"),
        ({"outcome": "happened", "digest": "abc"}, "/digest"),
    ],
)
async def test_a_settlement_that_does_not_fit_is_refused(api: Api, body: dict[str, Any], path: str) -> None:
    """The wrong place is named, and the call stays in doubt."""
    run = await api.ask("mail")
    reply = await api.post(f"/runs/{run['trace_id']}/steps/0/settle", body)
    assert problem(reply) == (422, "invalid_request")
    assert [error["path"] for error in reply.json["errors"]] == [path]
    assert (await api.get(f"/runs/{run['trace_id']}")).json == run


async def test_what_is_not_in_doubt_cannot_be_settled(api: Api) -> None:
    """A step that was never in doubt is 404, one that does not exist too, a number that is none 422."""
    run = await api.ask("mail")
    for step in (1, 10**9):
        assert problem(await settle(api, run, "happened", step)) == (404, "doubt_not_found")
    assert problem(await settle(api, run, "happened", call_index=1)) == (404, "doubt_not_found")
    assert problem(await settle(api, run, "happened", -1)) == (422, "invalid_request")
    reply = await approve(api, run)
    assert problem(reply) == (409, "not_waiting")


async def test_a_told_doubt_needs_a_person_before_the_next_call(api: Api) -> None:
    """Across the conversation; settled after the run's end it is a note of the run, and the tool is free again."""
    first = await api.ask("mail", agent="teller", conversation_id="told")
    assert (first["status"], first["steps"][0]["in_doubt"]) == ("succeeded", True)
    second = await api.ask("mail", agent="teller", conversation_id="told")
    assert (second["status"], second["pending"][0]["kind"]) == ("awaiting_approval", "approval")
    await over(api, await approve(api, second, "reject"))
    assert problem(await settle(api, first, "repeat")) == (409, "not_waiting")
    assert (await settle(api, first, "abandon", note="asked them")).json == first
    assert problem(await settle(api, first, "happened")) == (409, "already_decided")
    (note,) = (await api.get(f"/admin/agent-traces/{first['trace_id']}")).json["notes"]
    assert (note["name"], note["actor_name"], note["data"]["outcome"]) == ("doubt_settled", "local", "abandon")
    third = await api.ask("mail", agent="teller", conversation_id="told")
    assert (third["status"], len(FAKES.calls)) == ("succeeded", 2)


# -- who may ---------------------------------------------------------------------------------------------------------


async def test_a_tool_that_needs_a_right_is_not_there_for_others(live: Live) -> None:
    """A run of somebody without it does not have the tool; naming it is 403 before a run exists."""
    user, admin = Scope("default", "eve"), Scope("default", "root", frozenset({"user", "admin"}))

    def prepared(scope: Scope, *names: str) -> list[str]:
        asked = Submission("wipe", agent="dev", tools=names or None)
        return [t.name for t in live.ask(live.services.intake.prepare(scope, "agent", asked)).definition.tools]

    assert "wipe" in prepared(admin)
    assert "wipe" not in prepared(user)
    assert prepared(admin, "wipe") == ["wipe"]
    async with calling(live) as api:
        assert (await api.ask("wipe"))["answer"] == "wiped"


async def test_owner_and_administrators_may_answer(tmp_path: Path) -> None:
    """With keys: others find no run, and neither route tells whether there is one; the forbidden tool is 403."""
    with serving(tmp_path, RULES, tools()) as live:
        keys = {"ann": live.key("ann"), "eve": live.key("eve"), "root": live.key("root", "admin")}
        async with calling(live, key=keys["ann"]) as ann, calling(live, key=keys["eve"]) as eve:
            mine, doubt = await ann.ask("pay"), await ann.ask("mail")
            for reply in (await approve(eve, mine), await settle(eve, doubt, "abandon")):
                assert problem(reply) == (404, "run_not_found")
            assert (await over(ann, await approve(ann, mine)))["status"] == "succeeded"
            async with calling(live, key=keys["root"]) as root:
                assert (await over(root, await settle(root, doubt, "happened", result={"id": 1})))["answer"] == "sent"
            named = await ann.post("/agent", {"message": "wipe", "tools": ["wipe"]})
            assert problem(named) == (403, "tool_forbidden")
            run = await ann.ask("wipe")
            assert (run["steps"][0]["error"]["code"], [name for name, _ in FAKES.calls].count("wipe")) == (
                "tool_not_found", 0
            )  # fmt: skip
