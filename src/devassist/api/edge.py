"""The outermost layer, plain ASGI: request ids, allowed hosts and origins, the body limit, and counting requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from time import perf_counter
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from devassist.api.problems import CODE, problem
from devassist.api.refusals import COUNTED, Refusals
from devassist.core.setting_values import is_loopback
from devassist.ports.metrics import Metrics

LIMIT = "devassist.most_bytes"
"""Where the request's ASGI scope has how many bytes its body may have."""
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Edge:
    """Refuses, before anything is read: foreign hosts (DNS rebinding) with 400, requests by pages of foreign origins
    that would change something (a browser sends a form or ``text/plain`` anywhere, unasked) with 403, and bodies over
    the limit with 413. ``larger`` gives paths that take bodies over ``max_body`` their own limit."""

    def __init__(
        self, app: ASGIApp, *, max_body: int, allowed_hosts: frozenset[str], larger: Mapping[str, int] | None = None
    ) -> None:
        self._app, self._max_body, self._larger = app, max_body, larger or {}
        self.metrics: Metrics | None = None
        self.refusals: Refusals | None = None
        self._hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        scope["devassist.request_id"] = given.decode() if _ID.fullmatch(given) else uuid4().hex
        limit = scope[LIMIT] = max(self._larger.get(scope["path"], 0), self._max_body)
        app = self._refuse(scope, headers, limit) or self._app
        body = _Bounded(receive, limit) if scope["method"] in _METHODS_WITH_BODY else None
        started, status = perf_counter(), 500

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] += [
                    (b"x-request-id", scope["devassist.request_id"].encode()), (b"x-content-type-options", b"nosniff"),
                ]  # fmt: skip
            await send(message)

        try:
            await app(scope, body.receive if body else receive, watched_send)
        finally:
            route: Any = scope.get("route")
            path = getattr(route, "path", "unmatched")
            if self.metrics is not None:
                self.metrics.request(path, scope["method"], status, perf_counter() - started)
            if status in COUNTED and self.refusals is not None:
                self.refusals.note(scope, status)

    def _refuse(self, scope: Scope, headers: dict[bytes, bytes], limit: int) -> ASGIApp | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host and not self._is_ours(host):
            return self._no(scope, 400, "host_not_allowed", "Host not allowed", f"the Host header names {host[:100]!r}")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin and scope["method"] not in _SAFE_METHODS and not self._is_ours(origin.partition("://")[2]):
            said = f"a page of {origin[:100]!r} asks"
            return self._no(scope, 403, "origin_not_allowed", "Origin not allowed", said)
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > limit:
            return _too_large(Request(scope), limit)
        return None

    def _is_ours(self, host: str) -> bool:
        name = _name_of(host)
        return is_loopback(name) or name in self._hosts

    def _no(self, scope: Scope, status: int, code: str, title: str, said: str) -> ASGIApp:
        detail = f"{said}; add its host to DEVASSIST_ALLOWED_HOSTS to serve it"
        found = {"instance": scope["path"], "request_id": scope["devassist.request_id"]}
        scope[CODE] = code
        return problem(status, code, title, detail, **found)


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
    return _too_large(request, request.scope[LIMIT])
