"""Conversations: their past, their turns one at a time, replaced messages, other users, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.fakes import Fakes, call, final
from tests.api.kit import Api, Live, calling, serving
from tests.llm.client import chat
from tests.llm.stub import Stub, provider, whole

FAKES = Fakes()
RULES: list[dict[str, Any]] = [
    {"match": "^sleep", "replies": [call("wait", seconds=0.4), final("slept")]},
    {"match": "^long", "replies": [call("wait", seconds=60), final("slept")]},
    {"match": "^one", "replies": [final("first answer")]},
    {"match": "^two", "replies": [final("second answer")]},
    {"match": "^edited", "replies": [final("edited answer")]},
    {"match": "^fail", "replies": [{"error": {"detail": "down"}}]},
    {"replies": [final("hello")]},
]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("talk"), RULES, FAKES.tools()) as made:
        yield made


async def said(api: Api, conversation: str) -> list[tuple[str, str]]:
    found = (await api.get(f"/conversations/{conversation}")).json["messages"]
    return [(message["role"], message["content"]) for message in found]


async def past(api: Api, trace_id: str) -> list[tuple[str, str]]:
    """What of the conversation's past went to the model of this run."""
    events = (await api.get(f"/admin/agent-traces/{trace_id}")).json["events"]
    rows = next(e["body"].get("history", []) for e in events if e["kind"] == "model_intended")
    return [(role, (await api.get(f"/runs/{trace_id}/payloads/{ref}")).text) for role, ref in rows]


async def test_earlier_turns_go_to_the_model(api: Api) -> None:
    """Questions and the answers that were released, oldest first; failed runs left none."""
    for message in ("one", "fail", "two"):
        last = await api.ask(message, conversation_id="talk")
    expected = [("user", "one"), ("assistant", "first answer")]
    assert await past(api, last["trace_id"]) == expected
    assert await said(api, "talk") == [*expected, ("user", "fail"), ("user", "two"), ("assistant", "second answer")]


async def test_a_history_of_the_callers_counts_only_without_a_conversation(api: Api) -> None:
    """With a conversation_id the record is the past; without one the given messages are."""
    history = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "您好"}]
    given = await api.ask("hi", history=history)
    assert await past(api, given["trace_id"]) == [("user", "你好"), ("assistant", "您好")]
    ignored = await api.ask("hi", history=history, conversation_id="own-past")
    assert await past(api, ignored["trace_id"]) == []


async def test_a_second_message_waits_for_its_turn(api: Api) -> None:
    """By default it gets its run and its meta at once, is ``waiting`` for a turn, and reads the first one's answer."""
    first = asyncio.create_task(api.watch("sleep", conversation_id="queue"))
    await asyncio.to_thread(FAKES.began.wait, 10)
    async with api.stream("hi", conversation_id="queue") as response:
        seen = b""
        while b'"status"' not in seen:
            seen += await response.content.readany()
    assert seen.index(b'"type":"meta"') < seen.index(b'"type":"status"')
    assert b'"status":"waiting"' in seen
    second = await api.ask("two", conversation_id="queue")
    page = await first
    assert page.end is not None
    assert second["status"] == "succeeded"
    assert await past(api, second["trace_id"]) == [
        ("user", "sleep"), ("assistant", "slept"), ("user", "hi"), ("assistant", "hello"),
    ]  # fmt: skip


async def test_pending_says_what_a_queued_run_waits_for(api: Api) -> None:
    """GET tells status waiting and a pending turn; the POST keeps its request open until the answer."""
    FAKES.began.clear()
    first = asyncio.create_task(api.ask("sleep", conversation_id="turn"))
    await asyncio.to_thread(FAKES.began.wait, 10)
    second = asyncio.create_task(api.ask("hi", conversation_id="turn"))
    rows: list[Any] = []
    while len(rows) < 2:
        rows = (await api.get("/admin/agent-traces?conversation_id=turn")).json["traces"]
    run = (await api.get(f"/runs/{rows[0]['trace_id']}")).json
    assert (run["status"], [p["kind"] for p in run["pending"]]) == ("waiting", ["turn"])
    assert run["pending"][0].keys() == {
        "kind", "step_index", "call_index", "tool_name", "tool_args", "digest", "since_ms", "wake_at_ms",
    }  # fmt: skip
    assert not second.done()
    assert [(await task)["answer"] for task in (first, second)] == ["slept", "hello"]


async def test_busy_can_be_refused(tmp_path: Path) -> None:
    """With the setting ``reject`` the second message is 409 and begins nothing; another conversation is free."""
    fakes = Fakes()
    with serving(tmp_path, RULES, fakes.tools(), conversation_busy="reject") as live:
        async with calling(live) as api:
            first = asyncio.create_task(api.ask("sleep", conversation_id="busy"))
            await asyncio.to_thread(fakes.began.wait, 10)
            refused = await api.post("/agent", {"message": "hi", "conversation_id": "busy"})
            assert (refused.status, refused.json["code"]) == (409, "conversation_busy")
            assert (await api.ask("hi", conversation_id="free"))["status"] == "succeeded"
            assert (await first)["status"] == "succeeded"
            assert (await api.ask("hi", conversation_id="busy"))["status"] == "succeeded"


async def test_a_message_can_take_anothers_place(api: Api) -> None:
    """The new run stands in the conversation of the one it replaces, which stays reachable and is no past of it."""
    first = await api.ask("one", conversation_id="edit")
    new = await api.ask("edited", replaces=first["trace_id"])
    assert new["conversation_id"] == "edit"
    assert await past(api, new["trace_id"]) == []
    assert await said(api, "edit") == [("user", "edited"), ("assistant", "edited answer")]
    assert (await api.get(f"/runs/{first['trace_id']}")).json["answer"] == "first answer"
    again = await api.ask("two", replaces=new["trace_id"], conversation_id="edit")
    assert await said(api, "edit") == [("user", "two"), ("assistant", "second answer")]
    after = await api.ask("hi", conversation_id="edit")
    assert await past(api, after["trace_id"]) == [("user", "two"), ("assistant", "second answer")]
    assert again["trace_id"] != after["trace_id"]


async def test_only_an_own_ended_run_can_be_replaced(api: Api, bob: Api) -> None:
    """Another user's run is as if it did not exist; an open one, or one of another conversation, is refused."""
    first = await api.ask("one", conversation_id="mine")
    body = {"message": "edited", "replaces": first["trace_id"]}
    foreign = await bob.post("/agent", body)
    absent = await bob.post("/agent", body | {"replaces": "01a22d094d7977aea5e078af6114ed49"})
    assert (foreign.status, foreign.json["code"]) == (absent.status, absent.json["code"]) == (404, "run_not_found")
    assert foreign.json["detail"].replace(first["trace_id"], "") == absent.json["detail"].replace(
        "01a22d094d7977aea5e078af6114ed49", ""
    )
    other = await api.post("/agent", body | {"conversation_id": "another"})
    assert (other.status, other.json["code"]) == (404, "conversation_not_found")
    async with api.stream("long", conversation_id="open") as response:
        await response.content.readany()
        rows = (await api.get("/admin/agent-traces?conversation_id=open")).json["traces"]
        open_run = await api.post("/agent", body | {"replaces": rows[0]["trace_id"]})
        assert (open_run.status, open_run.json["code"]) == (422, "invalid_request")
        await api.post(f"/runs/{rows[0]['trace_id']}/cancel")


async def test_the_same_name_under_another_user_is_another_conversation(api: Api, bob: Api) -> None:
    """Nothing tells that somebody else has one of this name, and nothing of it is read."""
    await api.ask("one", conversation_id="shared-name")
    assert (await bob.get("/conversations/shared-name")).status == 404
    mine = await bob.ask("two", conversation_id="shared-name")
    assert await past(bob, mine["trace_id"]) == []
    assert await said(bob, "shared-name") == [("user", "two"), ("assistant", "second answer")]
    assert await said(api, "shared-name") == [("user", "one"), ("assistant", "first answer")]
    listed = (await bob.get("/conversations")).json["conversations"]
    assert [(row["conversation_id"], row["title"]) for row in listed] == [("shared-name", "two")]


async def test_the_list_is_newest_first_with_titles(live: Live) -> None:
    """Each conversation stands once, by its newest run, under its first message."""
    async with calling(live, "lister") as api:
        for message, name in (("one", "a"), ("two", "b"), ("hi", "a")):
            last = await api.ask(message, conversation_id=name)
        rows = (await api.get("/conversations")).json["conversations"]
        assert [(row["conversation_id"], row["title"], row["runs"]) for row in rows] == [
            ("a", "one", 2),
            ("b", "two", 1),
        ]
        assert rows[0]["last_trace_id"] == last["trace_id"]
        assert len((await api.get("/conversations?limit=1")).json["conversations"]) == 1
    async with calling(live, "nobody") as stranger:
        assert (await stranger.get("/conversations")).json == {"conversations": []}


async def test_a_conversation_survives_a_restart(tmp_path: Path) -> None:
    """Another process on the same data reads its messages and goes on where it was."""
    with serving(tmp_path, RULES) as live:
        async with calling(live) as api:
            await api.ask("one", conversation_id="kept")
    with serving(tmp_path, RULES) as live:
        async with calling(live) as api:
            assert await said(api, "kept") == [("user", "one"), ("assistant", "first answer")]
            second = await api.ask("two", conversation_id="kept")
            assert await past(api, second["trace_id"]) == [("user", "one"), ("assistant", "first answer")]


async def test_a_real_provider_is_sent_the_whole_conversation(tmp_path: Path) -> None:
    """Over HTTP the endpoint gets system, past and question in order; the policy that is quoted is not invented."""
    async with provider(*(whole(chat(text)) for text in ("Hello Ann", "You are Ann"))) as stub:
        assert isinstance(stub, Stub)
        flags = {"openai_base_url": stub.base_url, "openai_model": "m", "openai_api_key": "sk-test"}
        with serving(tmp_path, **flags) as live:
            async with calling(live) as api:
                first = await api.ask("I am Ann", "/chat", conversation_id="real")
                second = await api.ask("Who am I?", "/chat", conversation_id="real")
            await asyncio.to_thread(live.stop)
        sent = [(m["role"], m["content"]) for m in stub.bodies[1]["messages"]]
    assert (first["answer"], second["answer"]) == ("Hello Ann", "You are Ann")
    assert sent[0][0] == "system"
    assert sent[1:] == [("user", "I am Ann"), ("assistant", "Hello Ann"), ("user", "Who am I?")]
    assert second["meta"]["model_kind"] == "openai"
