"""A real service in this process (its own thread, loop and port), and a client of it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn

from devassist.api.app import create_app
from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.scope import Scope
from devassist.ports.access import Role
from devassist.runtime.services import Services
from devassist.tools.registry import Tool
from tests.api.client import Page

POLICY = "退休人员门诊慢特病的报销比例是多少？"
ANSWER_KEYS = {
    "trace_id", "conversation_id", "status", "answer", "output", "steps", "usage", "error", "pending", "degraded",
    "meta",
}  # fmt: skip
META_KEYS = {
    "agent", "rag", "trace_id", "conversation_id", "route", "route_reason", "agent_name", "model", "model_kind",
    "prompt_version", "release",
}  # fmt: skip
WAIT_S = 30.0
OPERATOR = Scope("default", "operator", frozenset({"user", "admin"}))


@dataclass
class Live:
    """A running service."""

    url: str
    port: int
    data: Path
    services: Services
    loop: asyncio.AbstractEventLoop
    server: uvicorn.Server
    thread: threading.Thread

    def drain(self) -> None:
        """What the signal handler of ``devassist serve`` does."""
        self.loop.call_soon_threadsafe(self.services.service.stop_accepting)
        self.server.should_exit = True

    def stop(self) -> None:
        """Idempotent."""
        if self.thread.is_alive():
            self.drain()
            self.thread.join(WAIT_S)
            assert not self.thread.is_alive()

    def ask(self, coroutine: Any) -> Any:
        """Run in the service's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(WAIT_S)

    def key(self, user: str, role: Role = "user", expires: int | None = None, sees: tuple[str, ...] = ()) -> str:
        """A new API key of ``user``."""
        return self.ask(self.services.access.create(OPERATOR, user, role, expires=expires, sees=sees)).token


@contextmanager
def serving(
    data: Path, rules: Sequence[dict[str, Any]] = (), tools: Sequence[Tool] = (), port: int = 0, **flags: str
) -> Iterator[Live]:  # fmt: skip
    """A service on ``data``; with ``rules`` its model is scripted (see ``llm/script_file.py``)."""
    data.mkdir(parents=True, exist_ok=True)
    if rules:
        script = data / "script.json"
        script.write_text(json.dumps({"rules": list(rules)}, ensure_ascii=False), "utf-8")
        flags = {"agent_model": f"scripted:{script}", "chat_model": f"scripted:{script}"} | flags
    # Whoever tests the sandbox makes one, and so with vectors; no other test has use for them.
    plain = {"port": "0", "sandbox_pool_size": "0", "embedder": "none"}
    settings = load({"data_dir": str(data / "data"), **plain, **flags}, {})
    opened: list[Any] = []
    up = threading.Event()

    async def opener() -> Services:
        services = await open_services(settings, drive=True, extra_tools=tools)
        opened.append((services, asyncio.get_running_loop()))
        return services

    config = uvicorn.Config(
        create_app(settings, opener), loop="asyncio", http="httptools", access_log=False, log_level="error",
        timeout_graceful_shutdown=10, lifespan="on", server_header=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", port))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio leaves it out for a socket of protocol 0

    async def serve() -> None:
        watcher = asyncio.create_task(_started(server, up))
        await server.serve([listening])
        watcher.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="service", daemon=True)
    thread.start()
    try:
        assert up.wait(WAIT_S), "the service did not start"
        services, loop = opened[0]
        bound = listening.getsockname()[1]
        live = Live(f"http://127.0.0.1:{bound}", bound, settings.data_dir, services, loop, server, thread)
        yield live
        live.stop()
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        listening.close()


async def _started(server: uvicorn.Server, up: threading.Event) -> None:
    while not server.started:
        await asyncio.sleep(0.005)
    up.set()


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Api:
    """Requests to a service; ``user`` is who asks unless a call says otherwise, ``key`` the API key that is sent."""

    def __init__(
        self, url: str, session: aiohttp.ClientSession, user: str | None = None, key: str | None = None
    ) -> None:
        self.url, self.session = url, session
        self._headers = {} if user is None else {"X-User-Id": user}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    async def send(self, method: str, path: str, **more: Any) -> Reply:
        headers = self._headers | more.pop("headers", {})
        async with self.session.request(method, self.url + path, headers=headers, **more) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def get(self, path: str, **more: Any) -> Reply:
        return await self.send("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        return await self.send("POST", path, json=body, **more)

    async def ask(self, message: str, path: str = "/agent", **body: Any) -> dict[str, Any]:
        """The answer object; the request must be accepted."""
        reply = await self.post(path, {"message": message, **body})
        assert reply.status == 200, reply.text
        return reply.json

    def stream(self, message: str, path: str = "/agent", headers: dict[str, str] | None = None, **body: Any) -> Any:
        """The open response of a streaming POST, to use as a context."""
        sent = self._headers | (headers or {})
        return self.session.post(f"{self.url}{path}?stream=true", json={"message": message, **body}, headers=sent)

    def follow(self, trace_id: str, page: Page | None = None, query: str = "") -> Any:
        """The open response of ``/events``, from where ``page`` stands."""
        known = {"Last-Event-ID": page.last_id} if page is not None and page.last_id is not None else {}
        return self.session.get(f"{self.url}/runs/{trace_id}/events{query}", headers=self._headers | known)

    async def watch(self, message: str, path: str = "/agent", **body: Any) -> Page:
        """A streamed run, read to its end."""
        page = Page()
        async with self.stream(message, path, **body) as response:
            assert response.status == 200, await response.text()
            await read_all(response, page)
        return page

    async def reread(self, trace_id: str, page: Page | None = None, query: str = "") -> Page:
        """What ``/events`` sends, read to its end, on top of ``page``."""
        page = page or Page()
        async with self.follow(trace_id, page, query) as response:
            assert response.status == 200, await response.text()
            await read_all(response, page)
        return page

    async def until(self, trace_id: str, *statuses: str) -> dict[str, Any]:
        """The run once it has one of these statuses."""
        async with asyncio.timeout(WAIT_S):
            while True:
                run = (await self.get(f"/runs/{trace_id}")).json
                if run["status"] in statuses:
                    return run
                await asyncio.sleep(0.02)


async def read_all(response: aiohttp.ClientResponse, page: Page) -> None:
    connection = page.connect()
    async for chunk in response.content.iter_any():
        connection.feed(chunk)


@asynccontextmanager
async def calling(live: Live, user: str | None = None, key: str | None = None) -> AsyncIterator[Api]:
    timeout = aiohttp.ClientTimeout(total=WAIT_S)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Api(live.url, session, user, key)


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    """An application that is up, in this loop and without a network; it is shut down at the end."""
    to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan", "state": {}}, to_app.get, said.put))
    await to_app.put({"type": "lifespan.startup"})
    assert (await asyncio.wait_for(said.get(), WAIT_S))["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        assert (await asyncio.wait_for(said.get(), WAIT_S))["type"] == "lifespan.shutdown.complete"
        await life


async def raw(port: int, *pieces: bytes) -> tuple[int, bytes, bytes]:
    """Send bytes as they are and read the answer: (status, head, body)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        return int(head.split()[1]), head, await reader.readexactly(length)
    finally:
        writer.close()
