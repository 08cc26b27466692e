"""A stand-in for a model endpoint: its own process, a bare asyncio protocol, so that it never is the bottleneck.

The reply depends on the request alone: calls of ``get_rule`` and ``get_balance`` by turns, then a final answer;
``calls`` in the path says how many. Where the request asks for a stream the same text comes as server-sent events.
Path: ``/l<milliseconds>/c<calls>/v1/chat/completions``; ``/stats`` tells completions and CPU seconds. Prints its port;
ends with its standard input.
"""

from __future__ import annotations

import asyncio
import re
import resource
from typing import Any

import orjson
import uvloop

from bench.child import end_with_stdin
from bench.work import TOOLS, answer, thought

_NUMBER = re.compile(r"\d+")
_STEP = re.compile(r'"step":(\d+)')
_PIECE = 16
served = 0


def content(messages: list[dict[str, Any]], calls: int) -> str:
    """The reply to ``messages``: which run it is stands in the question, how far it is in the newest call."""
    asked = next(m["content"] for m in messages if m["role"] == "user")
    number = int(_NUMBER.search(asked)[0])  # type: ignore[index]
    newest = next((m["content"] for m in reversed(messages) if m["role"] == "assistant"), "")
    made = _STEP.search(newest)
    step = int(made[1]) if made else 0
    if step < calls:
        args = orjson.dumps({"topic": "annual leave", "case": number, "step": step + 1}).decode()
        return f"Thought: {thought(number, step)}\nAction: tool:{TOOLS[step % 2]}\nargs: {args}"
    return f"Thought: {thought(number, step)}\nAction: final: {answer(number)}"


def reply(body: bytes, calls: int) -> tuple[bytes, bytes]:
    """(content type, body)"""
    request = orjson.loads(body)
    text = content(request["messages"], calls)
    usage = {"prompt_tokens": 200, "completion_tokens": 40, "total_tokens": 240}
    head: dict[str, Any] = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "stub"}
    if request.get("stream"):
        chunks = [{"index": 0, "delta": {"content": text[i : i + _PIECE]}} for i in range(0, len(text), _PIECE)]
        chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        events = [head | {"object": "chat.completion.chunk", "choices": [chunk]} for chunk in chunks]
        events.append(head | {"object": "chat.completion.chunk", "choices": [], "usage": usage})
        lines = [b"data: " + orjson.dumps(event) + b"\n\n" for event in events]
        return b"text/event-stream", b"".join(lines) + b"data: [DONE]\n\n"
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    whole = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
    return b"application/json", orjson.dumps(whole)


class Endpoint(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
            self._answer(head.split(b" ", 2)[1].decode(), body)

    def _answer(self, path: str, body: bytes) -> None:
        global served
        if path == "/stats":
            usage = resource.getrusage(resource.RUSAGE_SELF)
            stats = {"completions": served, "cpu_s": usage.ru_utime + usage.ru_stime}
            self._send(b"application/json", orjson.dumps(stats))
            return
        served += 1
        parts = path.split("/")
        delay, calls = int(parts[1][1:]), int(parts[2][1:])
        out = reply(body, calls)
        if delay:
            asyncio.get_running_loop().call_later(delay / 1000, self._send, *out)
        else:
            self._send(*out)

    def _send(self, kind: bytes, body: bytes) -> None:
        if not self._transport.is_closing():
            head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(body))
            self._transport.write(head + body)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    end_with_stdin()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
