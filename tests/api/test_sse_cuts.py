"""A reader that is cut off at any byte and comes back from its last id ends with the text of the answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Page
from tests.api.fakes import Fakes, call, final
from tests.api.kit import POLICY, Api, Live, calling, serving
from tests.llm.client import DONE, event
from tests.llm.stub import provider, sse

ANSWER = "甲乙丙丁 😀\n\ndata: {}\n\nthe quick brown fox, \\u0041 and “quotes”"
RULES: list[dict[str, Any]] = [
    {"match": "^tools", "chunk": 2, "delay_ms": 1,
     "replies": [call("search_docs", "looking", query="x"), call("search_docs", query="y"), final(ANSWER)]},
    {"match": "^again", "replies": [{"errors": [{"detail": "down", "retryable": True}], "then": final(ANSWER)}]},
    {"match": "退休", "replies": [call("get_policy", question=POLICY), final("「退休人员门诊慢特病的报销比例为85%」")]},
    {"match": "^fail", "replies": [call("search_docs", query="x"), {"error": {"detail": "down"}}]},
    {"match": "^long", "chunk": 3, "delay_ms": 4, "replies": [call("search_docs", query="x"), final(ANSWER * 3)]},
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("cuts"), RULES, Fakes().tools()) as made:
        yield made


@pytest.mark.parametrize("message", ["tools", "again", POLICY, "fail"])
async def test_a_cut_at_every_byte(api: Api, message: str) -> None:
    """Each prefix of what a live reader was sent, then a reconnect: text, steps and end are those of the uncut one."""
    body = {"agent": "policy"} if message == POLICY else {}
    async with api.stream(message, **body) as response:
        wire = await response.read()
    whole = Page()
    whole.connect().feed(wire)
    replays: dict[str | None, bytes] = {}
    for cut in range(len(wire) + 1):
        page = Page()
        page.connect().feed(wire[:cut])
        if page.last_id not in replays:
            async with api.follow(whole.meta["trace_id"], page) as response:
                replays[page.last_id] = await response.read()
        rest = replays[page.last_id]
        if page.end is None:
            page.connect().feed(rest)
        else:
            assert rest == b"", "204: nothing follows the end"
        assert page.end == whole.end
        assert page.text == whole.text
        assert page.steps == whole.steps
        assert sorted(set(page.ids)) == page.ids


@pytest.mark.parametrize("seed", range(8))
async def test_cuts_while_the_run_goes_on(api: Api, seed: int) -> None:
    """Cut again and again at random bytes of a run under way, the reader ends like one that was never cut."""
    chance = random.Random(seed)
    page = Page()
    opened = api.stream("long", conversation_id=f"cut-{seed}")
    while True:
        async with opened as response:
            if response.status == 204:
                break
            room, connection = chance.randrange(1, 6000), page.connect()
            async for chunk in response.content.iter_chunked(64):
                connection.feed(chunk[:room])
                room -= len(chunk)
                if room <= 0:
                    break
        if not page.meta:  # cut before the run's id was known: the list has it
            rows = (await api.get(f"/admin/agent-traces?conversation_id=cut-{seed}")).json["traces"]
            page.meta = {"trace_id": rows[0]["trace_id"]}
        if page.end is not None:
            break
        await asyncio.sleep(chance.random() * 0.05)
        opened = api.follow(page.meta["trace_id"], page)
    assert page.text == ANSWER * 3
    assert page.answer is not None
    assert page.answer["text"] == page.text
    assert (await api.get(f"/runs/{page.meta['trace_id']}")).json["answer"] == page.text


async def test_an_attempt_that_dies_is_taken_back(tmp_path: Path) -> None:
    """What was shown of a reply that broke off is replaced by the next attempt's, live and in the reader's text."""
    head = "Thought: t\nAction: final: "
    whole = sse(event({"content": head + ANSWER}), event({}, "stop"), DONE)
    async with provider(sse(event({"content": f"{head}甲乙 gone wrong"}), 0.05, end="reset"), whole) as stub:
        flags = {"openai_base_url": stub.base_url, "openai_model": "m", "openai_api_key": "sk-test"}
        with serving(tmp_path, **flags) as live:
            async with calling(live) as api:
                page = await api.watch("x")
                again = await api.reread(page.meta["trace_id"])
            await asyncio.to_thread(live.stop)
    first = [m["content"] for m in page.messages if m["type"] == "delta" and m["attempt"] == 1]
    assert first, "the first attempt was shown while it came"
    assert "甲乙 gone wrong".startswith("".join(first))
    assert page.attempt == 2
    assert page.text == ANSWER == again.text
    assert "Action" not in "".join(page.deltas)
