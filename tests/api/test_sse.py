"""The event stream of a run: its messages, ids, headers, and where a reconnect goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from tests.api.client import ENDS, MOST_BYTES, WITHOUT_ID, Page
from tests.api.fakes import Fakes, call, final
from tests.api.kit import POLICY, Api, Live, read_all, serving

FAKES = Fakes()
LOOK_ALIKE = "a\n\nevent: done\ndata: {}\n\nb\rc d\u2028e\x85f\nid: 99\n: x"
RULES: list[dict[str, Any]] = [
    {"match": "^three", "chunk": 2,
     "replies": [*(call("search_docs", query=q) for q in "abc"), final("答案 is 😀 three")]},
    {"match": "^look", "chunk": 1, "replies": [final(LOOK_ALIKE)]},
    {"match": "^huge", "replies": [call("big", size=40_000), final("y" * 100_000)]},
    {"match": "^fail", "replies": [call("search_docs", query="x"), {"error": {"detail": "down"}}]},
    {"match": "退休", "replies": [call("get_policy", question=POLICY), final("「退休人员门诊慢特病的报销比例为85%」")]},
    {"match": "^slow", "chunk": 4, "delay_ms": 15,
     "replies": [call("search_docs", query="x"), final("0123456789" * 8)]},
    {"replies": [final("hello")]},
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("sse"), RULES, FAKES.tools()) as made:
        yield made


QUESTIONS = ["three", "look", "huge", "fail", POLICY, "slow", "hi"]


def shape(page: Page) -> list[Any]:
    """Messages without the pieces, whose sizes are chance, and without an id's place."""
    return [m for m in page.messages if m["type"] not in ("delta", "partial", "reset")]


@pytest.mark.parametrize("message", QUESTIONS)
async def test_the_rules_of_a_stream_hold(api: Api, message: str) -> None:
    """The client, which asserts every rule, reads each kind of run; live and replayed streams say the same."""
    body = {"agent": "policy"} if message == POLICY else {}
    page = await api.watch(message, **body)
    assert page.types[0] == "meta"
    assert page.types[-1] in ENDS
    assert page.types.count("partial") == 1
    again = await api.reread(page.meta["trace_id"])
    assert shape(again) == shape(page)
    assert again.ids == page.ids
    assert again.text == page.text
    run = (await api.get(f"/runs/{page.meta['trace_id']}")).json
    assert page.text == (run["answer"] or "")
    assert {k: v for k, v in page.meta.items() if k != "type"} == run["meta"]
    assert [{k: v for k, v in s.items() if k != "type"} for s in page.steps.values()] == run["steps"]


async def test_ids_are_journal_positions(api: Api) -> None:
    """An id stands on the last message made from its event only, and the last one is the journal's end."""
    page = await api.watch("three")
    events = (await api.get(f"/admin/agent-traces/{page.meta['trace_id']}")).json["events"]
    kinds = {e["seq"]: e["kind"] for e in events}
    assert page.ids[-1] == max(kinds)
    assert [kinds[i] for i in page.ids] == [
        "run_started", *["tool_intended", "tool_returned"] * 3, "run_finished",
    ]  # fmt: skip


async def test_an_answer_cannot_forge_messages(api: Api) -> None:
    """Text with SSE look-alikes and every kind of line end arrives as it is (F12)."""
    page = await api.watch("look")
    assert page.text == LOOK_ALIKE
    assert page.types.count("done") == 1
    async with api.follow(page.meta["trace_id"]) as response:
        wire = await response.read()
    assert b"event:" not in wire.replace(b"\\nevent:", b"")
    assert not [line for line in wire.split(b"\n") if line and not line.startswith((b"data: {", b"id: "))]


async def test_large_values_are_cut_and_named(api: Api) -> None:
    """No message exceeds 64 KiB; what was cut is whole under its payload, and the deltas hold the whole text (C13)."""
    page = await api.watch("huge")
    trace_id = page.meta["trace_id"]
    assert page.text == "y" * 100_000
    assert page.answer is not None
    assert len(page.answer["text"]) < 100_000
    assert [c["path"] for c in page.answer["truncated"]] == ["/text"]
    step = page.steps[0, 0]
    cuts = {cut["path"]: cut for cut in step["truncated"]}
    assert "/observation/text" in cuts or "/observation" in cuts
    for cut in (*cuts.values(), *page.answer["truncated"]):
        whole = await api.get(f"/runs/{trace_id}/payloads/{cut['ref']}")
        assert whole.status == 200
        assert len(whole.text) >= cut["characters"]
    assert max(len(json.dumps(m, ensure_ascii=False).encode()) for m in page.messages) <= MOST_BYTES


@pytest.mark.parametrize("way", ["post", "get"])
async def test_headers_keep_proxies_from_buffering(api: Api, live: Live, way: str) -> None:
    """No cache, no buffering, no compression even where the client asks for it (F10)."""
    headers = {"Accept-Encoding": "gzip, br, zstd"}
    trace_id = (await api.ask("three"))["trace_id"]
    url = f"{live.url}/runs/{trace_id}/events"
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        opened = (
            session.get(url, headers=headers)
            if way == "get"
            else session.post(f"{live.url}/agent?stream=true", json={"message": "hi"}, headers=headers)
        )
        async with opened as response:
            assert response.content_type == "text/event-stream"
            assert "no-cache" in response.headers["Cache-Control"]
            assert response.headers["X-Accel-Buffering"] == "no"
            assert "Content-Encoding" not in response.headers
            assert b"data: " in await response.read()


@pytest.mark.parametrize("how", ["header", "query"])
async def test_a_reconnect_gets_what_follows_at_every_position(api: Api, how: str) -> None:
    """From each id a reader gets the rest once and in order, and at the end nothing: 204 (C06, C08)."""
    whole = await api.watch("three")
    trace_id = whole.meta["trace_id"]
    for position in range(-1, whole.ids[-1]):
        page = Page()
        if how == "header":
            page.last_id = str(position)
            await api.reread(trace_id, page)
        else:
            await api.reread(trace_id, page, f"?after={position}")
        repeated = 1 if page.types[0] == "status" else 0
        assert repeated == (position == 0), "who knows only that the run began is told again that it runs"
        assert page.ids[repeated:] == [i for i in whole.ids if i > position]
        assert page.text == whole.text
        assert page.types.count("partial") == 1
        assert shape(page)[repeated:] == [m for m, i in placed(whole) if i > position]
    async with api.follow(trace_id, whole) as response:
        assert response.status == 204
        assert await response.read() == b""


def placed(page: Page) -> list[tuple[Any, int]]:
    """Journal messages with the id of their event: that of the next message which has one."""
    found, ids = [], iter(page.ids)
    current = next(ids)
    lasts = {"meta", "step_started", "done", "error"}
    for message in shape(page):
        found.append((message, current))
        if message["type"] in lasts or (message["type"] == "step" and message["tool_name"]):
            current = next(ids, -1)
    return found


async def test_the_header_counts_where_both_are_given(api: Api) -> None:
    """A browser that reconnects sends the header to the address that it was first given."""
    whole = await api.watch("three")
    page = Page()
    page.last_id = str(whole.ids[2])
    await api.reread(whole.meta["trace_id"], page, "?after=-1")
    assert page.ids == whole.ids[3:]


@pytest.mark.parametrize("position", ["999999", "99999999999999999999999", "abc", "1.5", "-7", "²", "٣", "0x1", "1 "])
@pytest.mark.parametrize("how", ["header", "query"])
async def test_an_unreadable_position_is_a_resync_and_a_full_replay(api: Api, how: str, position: str) -> None:
    """Never silence and never a 500: the client is told and gets all (C08)."""
    whole = await api.watch("three")
    trace_id = whole.meta["trace_id"]
    page = Page()
    if how == "header":
        raw = position.encode("utf-8").decode("latin-1") if not position.isascii() else position
        async with api.session.get(f"{api.url}/runs/{trace_id}/events", headers={"Last-Event-ID": raw}) as response:
            if position == "1 ":  # white space around a header's value is none of it
                return
            await read_all(response, page)
    else:
        async with api.session.get(f"{api.url}/runs/{trace_id}/events", params={"after": position}) as response:
            await read_all(response, page)
    assert page.types[0] == "resync"
    assert page.ids == whole.ids
    assert page.text == whole.text


async def test_a_position_of_another_run_brings_nothing_of_it(api: Api) -> None:
    """Positions are a run's own: the stream holds this run's messages only (C08)."""
    other = await api.watch("three")
    short = await api.watch("hi")
    page = Page()
    page.last_id = other.last_id
    await api.reread(short.meta["trace_id"], page)
    assert page.types[0] == "resync"
    assert {m["trace_id"] for m in page.messages if "trace_id" in m} == {short.meta["trace_id"]}
    assert page.text == short.text


async def test_an_empty_position_is_none(api: Api) -> None:
    """``?after=`` without a value is what a client sends that has no position yet."""
    whole = await api.watch("hi")
    page = await api.reread(whole.meta["trace_id"], None, "?after=")
    assert page.types[0] == "meta"


async def test_a_reconnect_in_mid_run_has_no_gap_and_no_repeat(api: Api) -> None:
    """Cut while the model writes: the rest follows once, and the text is whole (C06)."""
    page = Page()
    async with api.stream("slow") as response:
        connection = page.connect()
        while len(page.text) < 20:
            connection.feed(await response.content.readany())
    before = list(page.ids)
    assert 0 < len(page.text) < 80
    async with api.follow(page.meta["trace_id"], page) as response:
        connection = page.connect()
        chunks: list[str] = []
        async for chunk in response.content.iter_any():
            connection.feed(chunk)
            chunks = page.deltas
    assert page.ids[: len(before)] == before
    assert page.text == "0123456789" * 8
    assert connection.types[0] == "partial", "what is written so far comes from the performing process"
    partial = next(m for m in page.messages[::-1] if m["type"] == "partial")
    assert len(partial["text"]) >= 20
    assert len(chunks) > 3, "and the rest as it is written"
    assert all(a < b for a, b in pairwise(page.ids))


async def test_two_readers_see_the_same(api: Api) -> None:
    """A reader that comes in the middle ends with the text of the one that was there from the start."""
    first = Page()
    async with api.stream("slow") as response:
        connection = first.connect()
        while len(first.text) < 12:
            connection.feed(await response.content.readany())
        second = asyncio.create_task(api.reread(first.meta["trace_id"]))
        async for chunk in response.content.iter_any():
            connection.feed(chunk)
    late = await second
    assert late.text == first.text
    assert shape(late) == shape(first)


def test_the_list_of_messages_without_an_id_is_the_contracts() -> None:
    """Deltas, partials and resets have none, nor has a resync, which is made from no event."""
    assert {"delta", "partial", "reset", "resync"} == WITHOUT_ID
