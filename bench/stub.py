"""A stand-in for a model endpoint: its own process, a bare asyncio protocol, so that it never is the bottleneck.

The reply depends on the request alone: with no observation a call of ``get_rule``, with one a call of ``get_balance``,
with two a final answer; ``calls`` in the path asks for so many tool calls before the answer. Path:
``/l<milliseconds>/c<calls>/v1/chat/completions``; ``/stats`` tells completions and CPU seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
from typing import Any

import orjson
import uvloop

FINAL = "Thought: I have both results.\nAction: final: You have 10 days of leave left, of which 5 can be carried over."
TOOLS = ("get_rule", "get_balance")
served = 0


def reply(body: bytes, calls: int) -> bytes:
    messages = orjson.loads(body)["messages"]
    seen = sum(1 for m in messages if m["role"] == "user" and m["content"].startswith("Observation"))
    if seen < calls:
        args = orjson.dumps({"topic": "annual leave", "step": seen + 1}).decode()
        content = f"Thought: I need the data of step {seen + 1} first.\nAction: tool:{TOOLS[seen % 2]}\nargs: {args}"
    else:
        content = FINAL
    message = {"role": "assistant", "content": content}
    return orjson.dumps(
        {
            "id": f"chatcmpl-{seen}", "object": "chat.completion", "created": 1_700_000_000, "model": "stub",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 200, "completion_tokens": 40, "total_tokens": 240},
        }
    )  # fmt: skip


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
            self._send(orjson.dumps({"completions": served, "cpu_s": usage.ru_utime + usage.ru_stime}))
            return
        served += 1
        parts = path.split("/")
        delay, calls = int(parts[1][1:]), int(parts[2][1:])
        out = reply(body, calls)
        if delay:
            asyncio.get_running_loop().call_later(delay / 1000, self._send, out)
        else:
            self._send(out)

    def _send(self, body: bytes) -> None:
        if not self._transport.is_closing():
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            self._transport.write(head % len(body) + body)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(main(parser.parse_args().port))
