"""Case G13: a provider's error that quotes our key leaves it nowhere, in none of the spellings it comes back in."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.api.kit import Api, Live, calling, serving
from tests.llm.stub import Answer, provider, sse, whole

CASE = next(
    case
    for case in map(json.loads, (Path(__file__).parents[1] / "cases" / "group_g.jsonl").read_text("utf-8").splitlines())
    if case["id"] == "G13"
)
KEY = "FAKEKEY-1234567890abcdef"
SPELLINGS = (KEY, b64encode(KEY.encode()).decode().rstrip("="))
CUT = 4
"""Which of the errors is so long that the key lies beyond what is kept of it."""
SAID = CASE["input"]["exception"]
ECHOED = f"{SAID} ({SPELLINGS[1]})"


def errors() -> list[Answer]:
    """Ways in which a provider says the same: none of them is worth another attempt."""
    return [
        whole({"error": {"message": ECHOED, "type": KEY, "code": 401, "param": {"headers": [KEY]}}}, 401),
        whole({"error": ECHOED}, 403),
        whole({"detail": [{"msg": ECHOED}]}, 401),
        whole(f"<html><title>{ECHOED}</title></html>", 401, X_Echo=KEY),
        whole("." * 580 + ECHOED, 400),
        sse("data: " + json.dumps({"error": {"message": ECHOED, "code": 401}}) + "\n\n"),
    ]


async def sinks(api: Api, trace_id: str) -> dict[str, str]:
    """All that the service tells of a run."""
    detail = await api.get(f"/admin/agent-traces/{trace_id}")
    told = {
        "run": (await api.get(f"/runs/{trace_id}")).text,
        "trace": detail.text,
        "events": (await api.get(f"/runs/{trace_id}/events")).text,
        "graph": (await api.get(f"/runs/{trace_id}/graph.mmd?full=1")).text,
        "log": (await api.get(f"/admin/decision-log?trace_id={trace_id}&limit=500")).text,
    }
    for event in detail.json["events"]:
        for name, value in event["body"].items():
            if isinstance(value, str) and len(value) == 43:
                told[f"{event['kind']} {name}"] = (await api.get(f"/runs/{trace_id}/payloads/{value}")).text
    return told


async def _asked(live: Live, number: int) -> dict[str, str]:
    async with calling(live) as api:
        if number % 2:
            page = await api.watch("hi", "/chat")
            stream, trace_id = json.dumps(page.messages), page.meta["trace_id"]
            assert page.end is not None
            assert page.end["type"] == "error"
        else:
            answer = await api.ask("hi", "/chat")
            stream, trace_id = json.dumps(answer), answer["trace_id"]
            assert (answer["status"], answer["error"]["status"]) == ("failed", 502)
        return {"stream": stream, **await sinks(api, trace_id), "metrics": (await api.get("/metrics")).text}


def _found(texts: dict[str, Any]) -> list[str]:
    return [where for where, text in texts.items() if any(spelling in text for spelling in SPELLINGS)]


@pytest.mark.parametrize("in_address", [False, True], ids=["in the header", "in the address too"])
async def test_a_key_that_a_provider_quotes_is_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, in_address: bool
) -> None:
    """Logs at DEBUG, answers, event streams, traces, graphs, the decision log, metrics, payloads, and every file."""
    assert KEY in SAID
    assert KEY in CASE["expected"]["must"][0]
    caplog.set_level(logging.DEBUG)
    async with provider(*errors()) as stub:
        url = f"{stub.base_url}?key={KEY}" if in_address else stub.base_url
        with serving(tmp_path, openai_base_url=url, openai_model="m", openai_api_key=KEY) as live:
            for number in range(len(errors())):
                told = await _asked(live, number)
                assert ("***" in told["log"]) == (number != CUT), "the provider's words are kept, the key is not"
                assert _found(told) == []
            await asyncio.to_thread(live.stop)
        assert all(KEY in head for head, _ in stub.requests), "it was sent"
    assert _found({"logs": caplog.text}) == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"journal.db", "log.db", "keys.db"} <= {path.name for path in files}
    for path in files:
        content = path.read_bytes()
        assert [s for s in SPELLINGS if s.encode() in content] == [], path
