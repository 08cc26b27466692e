"""The outermost layer, plain ASGI: request ids, allowed hosts, the body limit, and counting requests."""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from devassist.api.problems import problem
from devassist.core.setting_values import is_loopback
from devassist.ports.metrics import Metrics

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Edge:
    """Refuses foreign hosts (DNS rebinding) with 400 and bodies over the limit with 413, before anything is read."""

    def __init__(self, app: ASGIApp, *, max_body: int, allowed_hosts: frozenset[str]) -> None:
        self._app, self._max_body = app, max_body
        self.metrics: Metrics | None = None
        self._hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        scope["devassist.request_id"] = given.decode() if _ID.fullmatch(given) else uuid4().hex
        app = self._refuse(scope, headers) or self._app
        body = _Bounded(receive, self._max_body) if scope["method"] in _METHODS_WITH_BODY else None
        started, status = perf_counter(), 500

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", scope["devassist.request_id"].encode()))
            await send(message)

        try:
            await app(scope, body.receive if body else receive, watched_send)
        finally:
            route: Any = scope.get("route")
            path = getattr(route, "path", "unmatched")
            if self.metrics is not None:
                self.metrics.request(path, scope["method"], status, perf_counter() - started)

    def _refuse(self, scope: Scope, headers: dict[bytes, bytes]) -> ASGIApp | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = _name_of(host)
        if host and not is_loopback(name) and name not in self._hosts:
            return problem(
                400, "host_not_allowed", "Host not allowed",
                f"the Host header names {name[:100]!r}; add it to DEVASSIST_ALLOWED_HOSTS to serve it",
                instance=scope["path"], request_id=scope["devassist.request_id"],
            )  # fmt: skip
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._max_body:
            return _too_large(Request(scope), self._max_body)
        return None


def _name_of(host: str) -> str:
    """A Host header without its port; an IPv6 address without its brackets."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


class BodyTooLarge(Exception):
    """A chunked body passed the limit while it was read."""


class _Bounded:
    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise BodyTooLarge
        return message


def _too_large(request: Request, limit: int) -> Response:
    return problem(
        413, "body_too_large", "The body is too large", f"the body may have at most {limit} bytes",
        instance=request.url.path, request_id=request.scope.get("devassist.request_id", ""),
    )  # fmt: skip


async def on_too_large(request: Request, _error: Exception) -> Response:
    return _too_large(request, request.app.state.max_body)
