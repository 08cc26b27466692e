"""A provider of models for tests of the whole: a real HTTP server on 127.0.0.1 that plays what it is told to, and keeps
its own count of what it was asked.

``plan`` is a list, of which request ``n`` gets answer ``n`` (the last one ever after), or a function of the request's
body and number. ``tests/llm/stub.py`` is the one for single bytes; this one speaks with many at once.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PIECE = 8
"""Characters of one streamed piece."""


@dataclass(frozen=True)
class Answer:
    """``text`` as a chat completion, streamed where the request asks for it; ``body`` (JSON or text) or ``sse`` instead
    is sent as it stands. ``first_s`` is the silence before the first byte; with ``cut`` the connection is reset after
    so many characters of the text, or after the ``sse``; ``unfinished``: it ends without a finish reason."""

    text: str = "Thought: ok\nAction: final: Hello"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    sse: str | None = None
    first_s: float = 0.0
    cut: int | None = None
    unfinished: bool = False
    tokens: tuple[int, int] = (20, 5)


Plan = Callable[[dict[str, Any], int], Answer]


def refusal(status: int, message: str = "no", **headers: str) -> Answer:
    """An error with its body, and headers by names with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=named, body={"error": {"message": message}})


def throttled(retry_after: str = "") -> Answer:
    return refusal(429, "slow down", **({"Retry_After": retry_after} if retry_after else {}))


def of_case(step: Mapping[str, Any]) -> Answer:
    """One step of a case of group B."""
    if "sse" in step:
        text = step["sse"] if isinstance(step["sse"], str) else "".join(step["sse"])
        return Answer(sse=text, cut=0 if "TCP reset" in step.get("then", "") else None)
    status, body = step.get("status", step.get("s", 200)), step.get("body", step.get("b"))
    return Answer(status=status, headers=step.get("headers", {}), body=body)


class FakeProvider:
    """``requests`` are the bodies it received, in order: each that arrived whole counts, whatever came of it. While
    ``gate`` is not set, nothing is answered."""

    def __init__(self, plan: Plan | Sequence[Answer]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.base_url = ""
        self.gate = asyncio.Event()
        self.gate.set()
        self._plan = plan if callable(plan) else _by_number(tuple(plan))

    @property
    def count(self) -> int:
        return len(self.requests)

    def then(self, *answers: Answer) -> None:
        """From the next request on."""
        first, given = self.count, _by_number(answers)
        self._plan = lambda body, number: given(body, number - first)

    def prompt(self, number: int) -> str:
        """The texts of a request's messages, joined."""
        return "\n".join(str(message["content"]) for message in self.requests[number]["messages"])

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m-1"}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        answer = self._plan(body, len(self.requests) - 1)
        await self.gate.wait()
        await asyncio.sleep(answer.first_s)
        if answer.sse is not None:
            return await _stream(request, answer, [answer.sse])
        if answer.body is not None:
            return _whole(answer)
        if body.get("stream"):
            return await _stream(request, answer, _pieces(answer))
        if answer.cut is not None:
            return await _stream(request, answer, ['{"choices": [{"mess'])
        finish = None if answer.unfinished else "stop"
        message = {"role": "assistant", "content": answer.text}
        choice = {"index": 0, "finish_reason": finish, "message": message}
        return web.json_response({"choices": [choice], "usage": _usage(answer)})


def _by_number(answers: tuple[Answer, ...]) -> Plan:
    return lambda _, number: answers[min(number, len(answers) - 1)]


def _usage(answer: Answer) -> dict[str, int]:
    given, made = answer.tokens
    return {"prompt_tokens": given, "completion_tokens": made}


def _whole(answer: Answer) -> web.Response:
    is_text = isinstance(answer.body, str)
    text = answer.body if is_text else json.dumps(answer.body)
    kind = "text/html" if is_text else "application/json"
    headers = {name: value for name, value in answer.headers.items() if name != "Content-Type"}
    return web.Response(text=text, status=answer.status, content_type=kind, headers=headers)


def _pieces(answer: Answer) -> list[str]:
    text = answer.text if answer.cut is None else answer.text[: answer.cut]
    deltas = [{"content": text[start : start + PIECE]} for start in range(0, len(text), PIECE)]
    events: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if answer.cut is None and not answer.unfinished:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        events.append({"choices": [], "usage": _usage(answer)})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return [*lines, *([] if answer.cut is not None else ["data: [DONE]\n\n"])]


async def _stream(request: web.Request, answer: Answer, pieces: Sequence[str]) -> web.StreamResponse:
    is_json = pieces[0].startswith("{") if pieces else False
    kind = "application/json" if is_json else "text/event-stream"
    response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
    await response.prepare(request)
    try:
        for piece in pieces:
            await response.write(piece.encode())
        if answer.cut is not None:
            await asyncio.sleep(0.02)  # what was sent arrives before the reset
            _reset(request)
    except ConnectionError:
        pass  # the client had gone: that is its own affair
    return response


def _reset(request: web.Request) -> None:
    transport = request.transport
    if transport is not None:
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()  # pyright: ignore[reportAttributeAccessIssue]


@asynccontextmanager
async def provider(plan: Plan | Sequence[Answer]) -> AsyncIterator[FakeProvider]:
    """A provider that listens; its ``base_url`` ends in /v1."""
    fake = FakeProvider(plan)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_get("/v1/models", fake.models)
    app.router.add_post("/v1/chat/completions", fake.complete)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    fake.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield fake
    finally:
        await runner.cleanup()
