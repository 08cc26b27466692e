"""Runs begun over HTTP, each on a stream of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.runtime.world import until

WAIT_S = 60.0


async def port_of(place: Path) -> int:
    """Where the server listens."""
    path = place / "address"
    await until(lambda: path.exists() and path.read_text().endswith("\n"), WAIT_S)
    return int(path.read_text().split()[4].rsplit(":", 1)[1])


async def request(
    port: int, method: str, path: str, body: dict[str, Any] | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request; the reader stands before the status line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
    writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(data) + data)
    return reader, writer


async def asked(port: int, method: str, path: str) -> Any:
    """The JSON that answers."""
    reader, writer = await request(port, method, path)
    answer = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    return json.loads(answer)


class Stream:
    """A run asked for over a stream. ``trace_id`` is known once the first message has acknowledged it, which ``told``
    is called with; ``lines`` are those of the body so far."""

    def __init__(self, told: Callable[[str], None] = lambda _: None) -> None:
        self.trace_id = ""
        self.lines: list[str] = []
        self._told = told

    async def follow(self, port: int, body: dict[str, Any]) -> None:
        """Ask, and read until the stream ends, however it does."""
        reader, writer = await request(port, "POST", "/agent?stream=true", body)
        with suppress(ConnectionResetError):
            while line := await reader.readline():
                text = line.decode().strip()
                if '"type":"meta"' in text:
                    self.trace_id = json.loads(text.partition("data: ")[2])["trace_id"]
                    self._told(self.trace_id)
                self.lines.append(text)
        writer.close()
