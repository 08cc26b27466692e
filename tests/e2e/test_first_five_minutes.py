"""Journey 1 with the real command: ask, stop, start, and the conversation goes on; a killed process loses nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.api.client import Page
from tests.api.fakes import final
from tests.api.kit import POLICY, WAIT_S, Api
from tests.cli.kit import Serving, run, script, serving
from tests.llm.client import DONE, chat, event
from tests.llm.stub import provider, sse, whole


@asynccontextmanager
async def up(data: Path, **env: str) -> AsyncIterator[tuple[Serving, Api]]:
    """``devassist serve`` in a process of its own, and a client of it."""
    opening = serving(data, **env)
    server = await asyncio.to_thread(opening.__enter__)
    timeout = aiohttp.ClientTimeout(total=WAIT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            yield server, Api(server.url, session)
    finally:
        await asyncio.to_thread(opening.__exit__, None, None, None)


async def said(api: Api, conversation: str) -> list[str]:
    return [m["content"] for m in (await api.get(f"/conversations/{conversation}")).json["messages"]]


async def test_ask_stop_start_and_go_on(tmp_path: Path) -> None:
    """After SIGTERM and a new start the conversation stands where it was, the trace verifies, and it goes on."""
    data = tmp_path / "data"
    async with up(data) as (server, api):
        first = await api.ask(POLICY, "/chat", conversation_id="journey")
        assert first["meta"]["agent_name"] == "policy"
        assert "85%" in first["answer"]
        assert (await api.get(f"/runs/{first['trace_id']}/graph.mmd")).text.startswith("flowchart")
        assert await asyncio.to_thread(server.stop) == 0
    assert (data / "graphs" / f"{first['trace_id']}.mmd").exists()
    async with up(data) as (server, api):
        assert await said(api, "journey") == [POLICY, first["answer"]]
        assert (await api.get(f"/runs/{first['trace_id']}")).json == first
        second = await api.ask("城乡居民呢？", "/chat", conversation_id="journey")
        events = (await api.get(f"/admin/agent-traces/{second['trace_id']}")).json["events"]
        past = next(e["body"]["history"] for e in events if e["kind"] == "model_intended")
        assert [role for role, _ in past] == ["user", "assistant"]
        assert len(await said(api, "journey")) == 4
        assert await asyncio.to_thread(server.stop, signal.SIGINT) == 0
    report = await asyncio.to_thread(run, "--data-dir", str(data), "trace", "verify", "--all")
    assert report.returncode == 0, report.stdout + report.stderr


async def read_until(api: Api, page: Page, characters: int, message: str, **body: Any) -> None:
    async with api.stream(message, **body) as response:
        connection = page.connect()
        while len(page.text) < characters:
            connection.feed(await response.content.readany())


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
async def test_a_run_outlives_its_process(tmp_path: Path, sig: signal.Signals) -> None:
    """Killed while the model writes: after the restart the run ends by itself, and the reader goes on from its id."""
    words = "".join(f"w{i} " for i in range(100 if sig == signal.SIGKILL else 40))
    slow = script(tmp_path / "slow.json", {"chunk": 8, "delay_ms": 100, "replies": [final(words)]})
    fast = script(tmp_path / "fast.json", {"chunk": 8, "delay_ms": 2, "replies": [final(words)]})
    data, page = tmp_path / "data", Page()
    async with up(data, **slow) as (server, api):
        await read_until(api, page, 16, "go", conversation_id="c")
        await asyncio.to_thread(server.stop, sig)
    assert page.end is None
    async with up(data, **fast) as (server, api):
        run_now = await api.until(page.meta["trace_id"], "succeeded", "failed")
        assert (run_now["status"], run_now["answer"]) == ("succeeded", words.strip())
        await api.reread(page.meta["trace_id"], page)
        assert page.text == words.strip()
        calls = run_now["usage"]["model_calls"]
        assert calls == 2 or sig == signal.SIGTERM, "a kill cuts the attempt off, and it is counted; a drain may end it"
        assert (await api.ask("next", conversation_id="c"))["status"] == "succeeded"


async def test_with_a_model_of_ones_own(tmp_path: Path) -> None:
    """With OPENAI_* set the same holds: the endpoint is asked, streamed, and asked again after a kill."""
    reply = "Thought: t\nAction: final: hello from the endpoint"
    cut = reply.index("hello") + 5
    async with provider() as stub:
        env = {"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": "sk-test", "OPENAI_MODEL": "m"}
        stub.script += [
            whole(chat(reply)),
            sse(event({"content": reply[:cut]}), 30.0, end="hang"),
            sse(event({"content": reply}), event({}, "stop"), DONE),
        ]
        data, page = tmp_path / "data", Page()
        async with up(data, **env) as (server, api):
            answer = await api.ask("hi", conversation_id="mine")
            assert (answer["answer"], answer["meta"]["model_kind"]) == ("hello from the endpoint", "openai")
            assert answer["meta"]["model"] == "m"
            await read_until(api, page, 5, "again", conversation_id="mine")
            assert page.text == "hello"
            await asyncio.to_thread(server.stop, signal.SIGKILL)
        async with up(data, **env) as (server, api):
            ended = await api.until(page.meta["trace_id"], "succeeded", "failed")
            assert ended["answer"] == "hello from the endpoint"
            assert await said(api, "mine") == ["hi", answer["answer"], "again", answer["answer"]]
            await asyncio.to_thread(server.stop)
        sent = [message["content"] for message in stub.bodies[-1]["messages"]]
    assert sent[1:] == ["hi", answer["answer"], "again"]
    assert all("sk-test" in head for head, _ in stub.requests)
