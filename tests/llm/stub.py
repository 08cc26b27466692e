"""A provider for tests: raw HTTP on 127.0.0.1 that plays a script, one answer per request, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Answer:
    """What to send: the body in ``chunks`` (a number is a pause in seconds), then ``end``.

    ``end``: ``ok`` finishes the chunked body, ``reset`` resets the connection, ``close`` ends it without the last
    chunk, ``hang`` sends nothing more. ``eof_delimited`` sends without chunked framing and closes at the end. ``raw``
    is sent instead of status line, headers and body.
    """

    chunks: Sequence[bytes | float] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    end: Literal["ok", "reset", "close", "hang"] = "ok"
    eof_delimited: bool = False
    raw: bytes | None = None


def whole(body: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON body (or a text as it is) in one piece."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, str) else "application/json"
    return Answer([data], status, {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}})


def sse(*chunks: bytes | str | float, end: Literal["ok", "reset", "close", "hang"] = "ok") -> Answer:
    """An event stream in these pieces."""
    pieces = [chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks]
    return Answer(pieces, headers={"Content-Type": "text/event-stream; charset=utf-8"}, end=end)


def of_case(step: Mapping[str, Any]) -> Answer:
    """One step of a case of group B (``http_response`` or an element of ``http_script``)."""
    if "sse" in step:
        return sse(step["sse"])
    headers = {key.replace("-", "_"): value for key, value in step.get("headers", {}).items() if key != "Content-Type"}
    return whole(step["body"], step["status"], **headers)


@dataclass
class Stub:
    """A running provider. ``requests`` are the (head, body) pairs received, ``gone`` is set when a client hung up."""

    base_url: str = ""
    script: list[Answer] = field(default_factory=list[Answer])
    requests: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    connections: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next(
                    (int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0
                )
                self.requests.append((head, await reader.readexactly(length)))
                if not await self._play(self.script.pop(0), reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _play(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one answer; False when the connection is over."""
        headers = dict(answer.headers)
        headers["Connection" if answer.eof_delimited else "Transfer-Encoding"] = (
            "close" if answer.eof_delimited else "chunked"
        )
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{key}: {value}" for key, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() if answer.raw is None else answer.raw)
        for chunk in answer.chunks:
            if isinstance(chunk, int | float):
                await asyncio.sleep(chunk)
                continue
            if chunk:
                writer.write(chunk if answer.eof_delimited else b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
        if answer.end == "hang":
            await reader.read(1)
            self.gone.set()
            return False
        if answer.end == "reset":
            await asyncio.sleep(0.02)  # what was sent arrives before the reset
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return False
        if answer.end == "close" or answer.eof_delimited:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def provider(*script: Answer) -> AsyncIterator[Stub]:
    """A provider that plays ``script``."""
    stub = Stub(script=list(script))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(stub.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    stub.base_url = f"http://127.0.0.1:{port}/v1"
    try:
        yield stub
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
