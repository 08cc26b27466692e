"""Streams while runs go on: real tokens, no protocol, gates, heartbeats, readers that leave or never read, drains."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import pytest

from devassist.api import sse
from devassist.runtime.service import Service
from tests.api.client import Page
from tests.api.fakes import Fakes, call, final
from tests.api.kit import POLICY, Api, Live, calling, read_all, serving

FAKES = Fakes()
ANSWER = "表格 | Plan | Price |\n|---|---|\n| Basic | 5 |\n结束。"
RAW = f"<think>Action: final: no\nObservation: x</think>\nThought: ready.\nAction: final: {ANSWER}"
FALSE = "「退休人员可以报销百分之百的费用」"
QUOTE = "「退休人员门诊慢特病的报销比例为85%，年满70周岁的退休人员再提高3个百分点。」"


def cut(seed: int) -> list[list[Any]]:
    """RAW in random pieces, one millisecond apart."""
    chance = random.Random(seed)
    ends = sorted({*chance.sample(range(1, len(RAW)), chance.randint(3, len(RAW) - 1)), len(RAW)})
    return [[RAW[a:b], 1] for a, b in zip([0, *ends], ends, strict=False)]


RULES: list[dict[str, Any]] = [
    *({"match": f"^cut {seed}$", "replies": [{"chunks": cut(seed)}]} for seed in range(10)),
    {"match": "^spaced", "replies": [{"chunks": ["Thought: t\nAction: final: ", *(["word ", 120] for _ in range(5))]}]},
    {"match": "^six", "replies": [call("wait", seconds=0.03) for _ in range(5)] + [final("six steps")]},
    {"match": "^quiet", "replies": [call("wait", seconds=0.7), final("quiet")]},
    {"match": "^flood", "replies": [*(call("big", size=10_000) for _ in range(120)), final("flooded")]},
    {"match": "退休", "observations": 0, "replies": [call("get_policy", question=POLICY)]},
    {"match": "^退休", "observations": 1, "chunk": 8, "delay_ms": 25, "replies": [final(QUOTE)]},
    {"match": "^假的退休", "observations": 1, "chunk": 8, "delay_ms": 10, "replies": [final(FALSE)]},
    {"match": "^plain", "chunk": 5, "delay_ms": 20, "replies": ["no protocol here, only an answer in its own form"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(
        tmp_path_factory.mktemp("live"), RULES, FAKES.tools(), max_steps="200", max_tokens="100000000"
    ) as made:
        yield made


@pytest.mark.parametrize("seed", range(10))
async def test_no_protocol_in_any_delta_however_it_is_cut(api: Api, seed: int) -> None:
    """Reasoning, Thought and Action never reach the reader, and the answer comes whole, in more than one piece."""
    page = await api.watch(f"cut {seed}")
    assert page.text == ANSWER
    assert len(page.deltas) > 1
    for word in ("Thought", "Action", "think", "final", "Observation", "no\n"):
        assert not any(word in delta for delta in page.deltas)


@pytest.mark.parametrize(("path", "message"), [("/agent", "spaced"), ("/chat", "plain")])
async def test_tokens_arrive_as_they_are_written(api: Api, path: str, message: str) -> None:
    """Each piece is with the reader before the next is written, long before the run ends (F10)."""
    page, seen = Page(), list[tuple[float, int]]()
    async with api.stream(message, path) as response:
        connection = page.connect()
        async for chunk in response.content.iter_any():
            connection.feed(chunk)
            seen.append((monotonic(), len(page.deltas)))
    arrivals = [at for (at, n), (_, before) in zip(seen[1:], seen, strict=False) if n > before]
    assert len(arrivals) >= 5
    assert seen[-1][0] - arrivals[0] > 0.1
    assert max(b - a for a, b in itertools.pairwise(arrivals)) < 0.4
    assert len(page.deltas) == len(arrivals), "one message a piece, not all at once at the end"


@pytest.mark.parametrize("message", [POLICY, f"假的{POLICY}"])
async def test_a_gated_answer_shows_nothing_before_its_verdict(api: Api, message: str) -> None:
    """While the model writes, the reader has not a word of it; then text, step and answer come together."""
    page, early = Page(), b""
    async with api.stream(message, agent="policy") as response:
        connection = page.connect()
        async for chunk in response.content.iter_any():
            connection.feed(chunk)
            early = early if page.end else early + chunk
    assert page.meta["release"] == "gated"
    assert page.types[-4:] == ["delta", "step", "answer", "done"]
    assert "「" not in early.decode().split('"observation_text"')[0]
    assert early.count(b'"type":"delta"') == 0
    assert page.answer is not None
    if message == POLICY:
        assert page.answer["verdicts"] == ["quote_verified"]
    else:
        assert page.answer["verdicts"] == ["quote_not_found"]
        assert page.text.startswith("【未核实】")
        assert page.end is not None
        assert [d["code"] for d in page.end["degraded"]] == ["quote_not_verified"]


async def test_heartbeats_are_comments(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing happens a comment keeps the connection alive; it is no message and has no id."""
    monkeypatch.setattr(sse, "HEARTBEAT_S", 0.1)
    page = await api.watch("quiet")
    assert 3 <= len(page.comments) <= 8
    assert page.text == "quiet"


async def test_a_reader_that_leaves_cancels_nothing(api: Api, live: Live) -> None:
    """The run goes on to its sixth step and its answer; no step is half written or blamed for it (C09)."""
    page = Page()
    async with api.stream("six") as response:
        connection = page.connect()
        while len(page.messages) < 2:
            connection.feed(await response.content.readany())
    run = await api.until(page.meta["trace_id"], "succeeded", "failed", "cancelled")
    assert (run["status"], run["answer"], len(run["steps"])) == ("succeeded", "six steps", 6)
    assert all(step["error"] is None and not step["in_doubt"] for step in run["steps"])
    events = (await api.get(f"/admin/agent-traces/{run['trace_id']}")).json["events"]
    assert {e["body"]["outcome"] for e in events if e["kind"] == "tool_returned"} == {"result"}
    topics = live.services.service.bus._topics  # type: ignore[attr-defined]
    assert bytes.fromhex(run["trace_id"]) not in topics, "nothing is kept for a reader that left"


async def test_readers_that_never_read_cost_little_and_hold_up_nobody(api: Api, live: Live) -> None:
    """Forty of them on a run of megabytes: memory stays bounded, and other requests are answered at once (C16)."""
    trace_id = (await api.ask("flood"))["trace_id"]
    size = len(await (await api.follow(trace_id)).read())
    assert size > 4_000_000

    async def taken() -> float:
        """Seconds that an answer takes; one alone may be the machine's doing."""
        took: list[float] = []
        for _ in range(20):
            began = monotonic()
            assert (await api.get(f"/runs/{trace_id}?first_step=119")).status == 200
            took.append(monotonic() - began)
        return median(took)

    calm = await taken()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.ExitStack() as opened:
        for _ in range(40):
            reader = opened.enter_context(socket.create_connection(("127.0.0.1", live.port)))
            reader.sendall(f"GET /runs/{trace_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await asyncio.sleep(1)
        slow = await taken()
        assert slow < 10 * calm, "others wait for whoever never reads"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 40 * size / 4, f"{grown} bytes for 40 readers of {size}"


async def test_a_drain_ends_the_stream_and_the_restarted_service_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream ends with a comment; a reconnect to the next process has no gap and no repeat."""
    drain = Service.drain
    monkeypatch.setattr(Service, "drain", lambda self, grace_s=0.0: drain(self, 0.2))
    words = "".join(f"w{i} " for i in range(60))
    rules = [{"chunk": 6, "delay_ms": 25, "replies": [call("search_docs", query="x"), final(words)]}]
    page = Page()
    with serving(tmp_path, rules, Fakes().tools()) as first:
        async with calling(first) as api, api.stream("go") as response:
            connection = page.connect()
            while len(page.text) < 30:
                connection.feed(await response.content.readany())
            first.drain()
            async for chunk in response.content.iter_any():
                connection.feed(chunk)
        await asyncio.to_thread(first.stop)
    assert page.end is None
    assert any("restart" in comment for comment in page.comments)
    before = list(page.ids)
    with serving(tmp_path, rules, Fakes().tools()) as second:
        async with calling(second) as api:
            async with api.follow(page.meta["trace_id"], page) as response:
                await read_all(response, page)
            run = await api.until(page.meta["trace_id"], "succeeded")
    assert page.ids[: len(before)] == before
    assert page.text == words.strip() == run["answer"]
    assert page.types.count("meta") == 1
    assert [s["tool_name"] for s in page.steps.values()] == ["search_docs", None]
