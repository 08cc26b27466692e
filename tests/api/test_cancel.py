"""POST /runs/{id}/cancel reaches what the run is doing, leaves nothing running, and is a no-op afterwards (C10)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import Page
from tests.api.fakes import Fakes, call, final
from tests.api.kit import Api, Live, read_all, serving

FAKES = Fakes()
RULES: list[dict[str, Any]] = [
    {"match": "^write", "chunk": 4, "delay_ms": 20, "replies": [final("word " * 2000)]},
    {"match": "^sleep", "replies": [call("wait", seconds=600), final("slept")]},
    {"match": "^both", "replies": [{"calls": [
        {"id": "a", "name": "wait", "arguments": {"seconds": 600}},
        {"id": "b", "name": "search_docs", "arguments": {"query": "y"}}]}, final("done")]},
    {"match": "^nap", "replies": [call("nap"), final("napped")]},
    {"match": "^dig", "replies": [call("dig", query="x"), final("dug")]},
    {"match": "^pay", "replies": [call("pay", "it is due", amount=7), final("paid")]},
    {"replies": [final("hello")]},
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("cancel"), RULES, FAKES.tools()) as made:
        yield made


async def begin(api: Api, message: str, until: str) -> tuple[Page, asyncio.Task[None]]:
    """A streamed run that has shown a message of type ``until``, and the task that reads its rest."""
    page, reached = Page(), asyncio.Event()

    async def read() -> None:
        async with api.stream(message) as response:
            connection = page.connect()
            async for chunk in response.content.iter_any():
                connection.feed(chunk)
                if until in page.types:
                    reached.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(reached.wait(), 10)
    return page, task


async def cancel(api: Api, trace_id: str) -> dict[str, Any]:
    """The run as the answer has it: one that is cancelled there had ended within the seconds that it waits for that."""
    reply = await api.post(f"/runs/{trace_id}/cancel")
    assert reply.status == 200, reply.text
    return reply.json


def tasks_of(live: Live, trace_id: str) -> list[str]:
    async def names() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks()]

    return [name for name in live.ask(names()) if trace_id in name]


async def test_while_the_model_writes(api: Api, live: Live) -> None:
    """The answer is cut off: no more deltas, status cancelled, and the stream ends with done."""
    page, reading = await begin(api, "write", "delta")
    trace_id = page.meta["trace_id"]
    run = await cancel(api, trace_id)
    await reading
    assert (run["status"], run["answer"], run["error"]) == ("cancelled", None, None)
    assert page.end is not None
    assert (page.end["type"], page.end["status"], page.end["answer"]) == ("done", "cancelled", None)
    assert tasks_of(live, trace_id) == []
    assert run["usage"]["model_calls"] == 1


async def test_while_a_tool_sleeps(api: Api, live: Live) -> None:
    """The handler is stopped, its call is shown as in doubt where it may have had an effect, and every call ends."""
    page, reading = await begin(api, "sleep", "step_started")
    await asyncio.to_thread(FAKES.began.wait, 10)
    assert FAKES.sleeping == 1
    run = await cancel(api, page.meta["trace_id"])
    await reading
    assert run["status"] == "cancelled"
    assert FAKES.sleeping == 0
    assert tasks_of(live, page.meta["trace_id"]) == []
    step = run["steps"][0]
    assert (step["tool_name"], step["in_doubt"]) == ("wait", True)
    assert step["error"]["code"] in ("cancelled", "outcome_unknown")
    assert page.steps[0, 0]["error"] == step["error"]


async def test_while_a_tool_blocks_a_thread(api: Api, live: Live) -> None:
    """A handler that cannot be interrupted does not hold the run up, and what it returns later goes nowhere."""
    page, reading = await begin(api, "nap", "step_started")
    run = await cancel(api, page.meta["trace_id"])
    await reading
    assert (run["status"], run["usage"]["model_calls"], FAKES.woke.is_set()) == ("cancelled", 1, False)
    FAKES.awake.set()
    assert await asyncio.to_thread(FAKES.woke.wait, 10)
    assert (await api.get(f"/runs/{run['trace_id']}")).json == run
    assert tasks_of(live, run["trace_id"]) == []


async def test_while_a_search_runs_in_a_thread_pool(api: Api, live: Live) -> None:
    """The thread ends too, the stream ends with done, and a second cancel changes nothing (C10)."""
    page, reading = await begin(api, "dig", "step_started")
    assert await asyncio.to_thread(FAKES.digging.wait, 10)
    run = await cancel(api, page.meta["trace_id"])
    await reading
    assert page.end is not None
    assert (page.end["type"], page.end["status"], run["status"]) == ("done", "cancelled", "cancelled")
    assert (run["usage"]["model_calls"], tasks_of(live, run["trace_id"])) == (1, [])
    async with asyncio.timeout(5):
        while FAKES.digging.is_set():
            await asyncio.sleep(0.01)
    dug = FAKES.dug
    again = await cancel(api, run["trace_id"])
    await asyncio.sleep(0.05)
    assert (again, FAKES.dug) == (run, dug)


async def test_a_call_that_had_not_begun_is_no_doubt(api: Api) -> None:
    """Of two calls the second was never made, and says so."""
    page, reading = await begin(api, "both", "step_started")
    run = await cancel(api, page.meta["trace_id"])
    await reading
    assert [(s["tool_name"], s["in_doubt"]) for s in run["steps"]] == [("wait", True), ("search_docs", False)]
    assert all(step["error"] for step in run["steps"])


async def test_the_record_says_who_asked_and_verifies(api: Api) -> None:
    """The cancel is an event of the run, the run closes once, and its evidence holds."""
    page, reading = await begin(api, "sleep", "step_started")
    await cancel(api, page.meta["trace_id"])
    await reading
    detail = (await api.get(f"/admin/agent-traces/{page.meta['trace_id']}")).json
    kinds = [event["kind"] for event in detail["events"]]
    assert kinds.count("cancel_requested") == 1
    assert kinds[-1] == "run_aborted"
    asked = next(e["body"] for e in detail["events"] if e["kind"] == "cancel_requested")
    assert asked["actor"] == detail["events"][0]["body"]["actor"]
    assert detail["verification"]["ok"]


async def test_a_second_cancel_changes_nothing(api: Api) -> None:
    """On a closed run it is a no-op with the same answer; two at once are one."""
    page, reading = await begin(api, "sleep", "step_started")
    trace_id = page.meta["trace_id"]
    first, second = await asyncio.gather(cancel(api, trace_id), cancel(api, trace_id))
    await reading
    assert first == second
    events = (await api.get(f"/admin/agent-traces/{trace_id}")).json["events"]
    third = await cancel(api, trace_id)
    assert third == first
    assert (await api.get(f"/admin/agent-traces/{trace_id}")).json["events"] == events
    assert [event["kind"] for event in events].count("cancel_requested") == 1


async def test_a_run_that_ended_keeps_its_answer(api: Api) -> None:
    """Cancelling too late leaves success a success."""
    answer = await api.ask("hi")
    run = await cancel(api, answer["trace_id"])
    assert run == answer


async def test_a_waiting_message_can_be_withdrawn(api: Api) -> None:
    """A run that waits for its turn is cancelled at once, without its turn; the one before it goes on."""
    FAKES.began.clear()
    first = asyncio.create_task(api.watch("sleep", conversation_id="queue"))
    await asyncio.to_thread(FAKES.began.wait, 10)
    second = asyncio.create_task(api.ask("hi", conversation_id="queue"))
    rows: list[Any] = []
    while len(rows) < 2:
        rows = (await api.get("/admin/agent-traces?conversation_id=queue")).json["traces"]
    run = await cancel(api, rows[0]["trace_id"])
    assert (run["status"], run["usage"]["model_calls"]) == ("cancelled", 0)
    assert await second == run
    assert (await api.get(f"/runs/{rows[1]['trace_id']}")).json["status"] == "running"
    await cancel(api, rows[1]["trace_id"])
    page = await first
    assert page.end is not None
    assert page.end["status"] == "cancelled"


async def test_while_it_waits_for_a_person(api: Api, live: Live) -> None:
    """A call that needs approval holds no request open and says what is asked for; cancelled, it was never made."""
    answer = await api.ask("pay")
    assert (answer["status"], answer["answer"]) == ("awaiting_approval", None)
    (pending,) = answer["pending"]
    assert (pending["kind"], pending["tool_name"], pending["tool_args"]) == ("approval", "pay", {"amount": 7})
    assert pending["digest"]
    assert (pending["step_index"], pending["call_index"]) == (0, 0)
    assert pending["since_ms"] > 0
    assert tasks_of(live, answer["trace_id"]) == []
    page, reading = Page(), asyncio.Event()

    async def follow() -> None:
        async with api.follow(answer["trace_id"]) as response:
            reading.set()
            await read_all(response, page)

    following = asyncio.create_task(follow())
    await reading.wait()
    run = await cancel(api, answer["trace_id"])
    await following
    assert (run["status"], run["pending"]) == ("cancelled", [])
    assert ("pay", {"amount": 7}) not in FAKES.calls
    assert page.status is not None
    assert page.end is not None
    assert (page.end["type"], page.end["status"]) == ("done", "cancelled")
    shown = next(m for m in page.messages if m["type"] == "status" and m["pending"])
    assert (shown["status"], shown["pending"]) == ("awaiting_approval", answer["pending"])


async def test_the_conversation_is_free_afterwards(api: Api) -> None:
    """A cancelled run gives its turn away, and the next message does not see it as an answer."""
    FAKES.began.clear()
    page = Page()
    async with api.stream("sleep", conversation_id="free") as response:
        connection = page.connect()
        while "step_started" not in page.types:
            connection.feed(await response.content.readany())
        await cancel(api, page.meta["trace_id"])
        await read_all(response, Page())
    assert (await api.ask("hi", conversation_id="free"))["answer"] == "hello"
