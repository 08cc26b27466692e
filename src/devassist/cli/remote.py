"""The HTTP client to a running server: ask with a stream, go on after a cut connection, read a run, probe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, cast
from uuid import uuid4

import aiohttp

Message = dict[str, Any]

_CONNECT_S = 5.0
_SILENCE_S = 45.0
"""The server sends a heartbeat every 10 s; after this silence the connection counts as lost."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Waits before each new try after a lost connection: time enough for a restart."""
_UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_LOST = (aiohttp.ClientError, OSError)
_ENDS = frozenset({"done", "error"})


class NotReachable(Exception):
    """Nothing listens at the address, or it stopped answering."""


class ConnectionLost(NotReachable):
    """It answered, and then did not any more: a run may have begun."""


class NotOurs(Exception):
    """Something listens there, but no DevAssist."""


class Refused(Exception):
    """The server answered with a problem object."""

    def __init__(self, problem: Message) -> None:
        super().__init__(problem.get("detail", ""))
        self.problem = problem

    @property
    def status(self) -> int:
        return int(self.problem.get("status", 0))

    @property
    def code(self) -> str:
        return str(self.problem.get("code", "error"))


class Server:
    """A server at ``url``, asked with an API key where there is one. Use it as a context manager."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        self._headers = {"User-Agent": "devassist-cli", **({"Authorization": f"Bearer {key}"} if key else {})}
        self.trace_id: str | None = None
        self._last: str | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
        self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False, headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, body: Message, lost: Callable[[str], None]) -> AsyncGenerator[Message]:
        """Begin a run and give its messages up to the end, across lost connections (``lost`` is told of each).

        The request has an Idempotency-Key, so sending it again joins the run that it began. Raises NotReachable,
        ConnectionLost, NotOurs, Refused.
        """
        headers = {"Idempotency-Key": uuid4().hex}
        pauses, touched = iter(_PAUSES_S), False
        while True:
            try:
                async with aclosing(self._stream(body, headers)) as messages:
                    async for message in messages:
                        pauses = iter(_PAUSES_S)
                        yield message
                        if message.get("type") in _ENDS:
                            return
                reason = "the server ended the stream"
            except aiohttp.ClientResponseError:
                raise NotOurs(f"what listens at {self.url} does not speak HTTP") from None
            except _LOST as error:
                if not touched and isinstance(error, _UNREACHED):
                    raise NotReachable(f"nothing listens at {self.url}") from None
                reason = type(error).__name__
            touched = True
            pause = next(pauses, None)
            if pause is None:
                raise ConnectionLost(f"the connection to {self.url} was lost ({reason})")
            lost(reason)
            await asyncio.sleep(pause)

    async def _stream(self, body: Message, headers: dict[str, str]) -> AsyncGenerator[Message]:
        if self.trace_id is None:
            request = self._session.post(f"{self.url}/chat", params={"stream": "true"}, json=body, headers=headers)
        else:
            known = {} if self._last is None else {"Last-Event-ID": self._last}
            request = self._session.get(f"{self.url}/runs/{self.trace_id}/events", headers=known)
        async with request as answer:
            await _check(answer)
            if answer.content_type != "text/event-stream":
                raise NotOurs(f"what listens at {self.url} is no DevAssist")
            async for position, message in _messages(answer.content.iter_any()):
                self._last = position or self._last
                if message.get("type") == "meta":
                    self.trace_id = str(message.get("trace_id"))
                yield message

    async def run(self, trace_id: str) -> Message:
        """The answer object of a run. Raises NotReachable, NotOurs, Refused."""
        return await self._json(lambda: self._get(f"/runs/{trace_id}"))

    async def ready(self) -> Message:
        """What the server says of itself, also when it is not ready. Raises NotReachable, NotOurs."""
        try:
            return await self._json(lambda: self._get("/readyz"))
        except Refused as error:
            return error.problem

    async def admits(self) -> None:
        """Nothing where the server serves a caller with this key. Raises Refused, NotReachable, NotOurs."""
        await self._json(lambda: self._get("/tools"))

    async def _get(self, path: str) -> Any:
        async with self._session.get(self.url + path) as answer:
            await _check(answer)
            if answer.content_type != "application/json":
                raise NotOurs(f"what listens at {self.url} is no DevAssist")
            return await answer.json()

    async def _json(self, get: Callable[[], Awaitable[Any]]) -> Message:
        try:
            value = await get()
        except (*_LOST, ValueError) as error:
            raise NotReachable(f"{self.url} does not answer ({type(error).__name__})") from None
        if not isinstance(value, dict):
            raise NotOurs(f"what listens at {self.url} is no DevAssist")
        return cast("Message", value)


async def _check(answer: aiohttp.ClientResponse) -> None:
    if answer.status < 400:
        return
    text = await answer.text(errors="replace")
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "json" not in answer.content_type:
        raise NotOurs(f"what listens at {answer.url.origin()} is no DevAssist (HTTP status {answer.status})")
    raise Refused(cast("Message", problem))


async def _messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str | None, Message]]:
    """(id, data) of each server-sent event; comments are dropped."""
    buffer = b""
    async for chunk in chunks:
        *blocks, buffer = (buffer + chunk).split(b"\n\n")
        for block in blocks:
            position, data = None, None
            for line in block.decode("utf-8", "replace").split("\n"):
                name, _, value = line.partition(": ")
                if name == "id":
                    position = value
                elif name == "data":
                    data = value
            if data is not None:
                yield position, json.loads(data)
