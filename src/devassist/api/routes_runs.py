"""Beginning runs and following them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from devassist.api.auth import admitted, identity
from devassist.api.problems import RESPONSES, pointed
from devassist.api.refusals import ASKED
from devassist.api.schemas import Answer, ChatRequest, Citations
from devassist.api.sse import RunStream
from devassist.core.codec import MAX_INT
from devassist.core.errors import Draining, InvalidRequest, RunNotFound
from devassist.core.event_codec import refs
from devassist.core.graph import mermaid
from devassist.core.scope import Scope as CallerScope
from devassist.core.steps import admin_only
from devassist.core.view import summary
from devassist.runtime.cited import citations
from devassist.runtime.ownership import own_head
from devassist.runtime.services import Services
from devassist.runtime.starting import Started
from devassist.runtime.view import RunView

Body = TypeVar("Body", bound=BaseModel)

router = APIRouter(responses=RESPONSES)
STEPS_PAGE = 500
"""Steps of a run that one answer holds."""
_KEY_LENGTH = 255
_CANCEL_S = 5
_POSITION = re.compile(r"-1|[0-9]{1,15}")
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatRequest"}}},
    }
}  # fmt: skip
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; with ?stream=true its making, as server-sent events",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {**_STREAM[200], "description": "Server-sent events, each with one JSON object as its data"},
    204: {"description": "The reader has all there is and will be"},
}


class JsonResponse(Response):
    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(orjson.dumps(content), status_code, headers)


class AsgiResponse(Response):
    """Lets an ASGI callable stand where a Response is expected, without Starlette's streaming machinery."""

    def __init__(self, app: RunStream) -> None:
        super().__init__()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def services(request: Request) -> Services:
    return request.app.state.services


def trace(trace_id: str) -> bytes:
    """Raises RunNotFound for what cannot be a trace id."""
    try:
        stream = bytes.fromhex(trace_id)
    except ValueError:
        stream = b""
    if len(stream) != 16 or stream.hex() != trace_id:
        raise RunNotFound("a trace_id is 32 lower-case hex digits")
    return stream


def answer_of(view: RunView, *, admin: bool, first: int = 0) -> tuple[dict[str, Any], int | None]:
    """The answer object with its steps from number ``first`` on, and the number at which a next page begins."""
    answer = summary(
        view.placed, view.text, trace_id=view.stream.hex(), admin=admin, driven=view.driven, first=first,
        most=STEPS_PAGE + 1,
    )  # fmt: skip
    more = len(answer["steps"]) > STEPS_PAGE
    del answer["steps"][STEPS_PAGE:]
    return answer, first + STEPS_PAGE if more else None


def answered(
    view: RunView, scope: CallerScope, *, first: int = 0, headers: Mapping[str, str] | None = None
) -> Response:  # fmt: skip
    """The answer object; a next page of its steps is named by a ``Link`` header (RFC 8288)."""
    answer, following = answer_of(view, admin=scope.is_admin, first=first)
    link = {} if following is None else {"Link": f'</runs/{view.stream.hex()}?first_step={following}>; rel="next"'}
    return JsonResponse(answer, headers={**link, **(headers or {})})


async def read_body(request: Request, model: type[Body]) -> Body:
    """The body as ``model`` has it. Raises InvalidRequest, which never holds the input."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        found = pointed(error)
        raise InvalidRequest(
            f"{error.error_count()} field(s) do not fit the schema; see errors",
            errors=tuple((f["path"], f["message"]) for f in found),
        ) from None


async def _begin(request: Request, where: Literal["chat", "agent"], stream: bool) -> Response:
    s, scope = services(request), identity(request)
    body = await read_body(request, ChatRequest)
    request.scope[ASKED] = body.replaces
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= _KEY_LENGTH:
        raise InvalidRequest(f"Idempotency-Key must be 1 to {_KEY_LENGTH} characters")
    start = await s.intake.prepare(scope, where, body.submission(), key=key, watched=stream)
    started = await s.service.start(scope, start)
    headers = {} if started.created else {"Idempotent-Replay": "true"}
    if stream:
        return _stream(request, s, started, admin=scope.is_admin)
    try:
        view = await s.service.wait(scope, started.stream)
    except Draining:  # the run exists and goes on after the restart, so this is no 503
        view = await s.service.view(scope, started.stream)
    return answered(view, scope, headers=headers)


def _stream(request: Request, s: Services, started: Started, *, admin: bool) -> Response:
    headers = () if started.created else ((b"idempotent-replay", b"true"),)
    return AsgiResponse(
        RunStream(
            s.service, started.stream, admin=admin, watching=started.created, driven=started.driven, headers=headers,
            admitted=admitted(request),
        )
    )  # fmt: skip


@router.post("/chat", response_model=Answer, responses=_STREAM, openapi_extra=_BODY)
async def chat(request: Request, stream: bool = False) -> Response:
    """Ask; the service routes to an agent, to document search, or to plain chat, and says why."""
    return await _begin(request, "chat", stream)


@router.post("/agent", response_model=Answer, responses=_STREAM, openapi_extra=_BODY)
async def agent(request: Request, stream: bool = False) -> Response:
    """Run an agent (``dev`` when none is named)."""
    return await _begin(request, "agent", stream)


@router.get("/runs/{trace_id}", response_model=Answer)
async def run(request: Request, trace_id: str, first_step: Annotated[int, Query(ge=0, le=MAX_INT)] = 0) -> Response:
    """Where a run stands, or what it came to. Of a long run it shows the steps from number ``first_step`` on, and a
    ``Link`` header names the next page."""
    s, scope = services(request), identity(request)
    view = await s.service.view(scope, trace(trace_id))
    return answered(view, scope, first=first_step)


@router.get("/runs/{trace_id}/events", response_class=Response, responses=_EVENTS)
async def events(request: Request, trace_id: str, after: str | None = None) -> Response:
    """Follow a run as server-sent events, from ``Last-Event-ID`` or ``after`` on; 204 when nothing can follow.

    The header wins: a browser that reconnects sends it to the address that it was first given.
    """
    s, scope = services(request), identity(request)
    stream = trace(trace_id)
    head = await own_head(s.heads, s.vault, scope, stream)
    given = request.headers.get("last-event-id") or after or "-1"
    readable = _POSITION.fullmatch(given) is not None and int(given) <= head.head_seq
    position = int(given) if readable else -1
    closed = head.state in ("FINAL_ANSWER", "ERROR", "ABORTED")
    if closed and position == head.head_seq:
        return Response(status_code=204)
    return AsgiResponse(
        RunStream(
            s.service, stream, after=position, admin=scope.is_admin, driven=head.driving or closed, resync=not readable,
            admitted=admitted(request),
        )
    )  # fmt: skip


@router.post("/runs/{trace_id}/cancel", response_model=Answer)
async def cancel(request: Request, trace_id: str) -> Response:
    """Ask that the run end; a no-op on a run that has ended."""
    s, scope = services(request), identity(request)
    stream = trace(trace_id)
    if await s.service.cancel(scope, stream):
        with suppress(TimeoutError, Draining):
            async with asyncio.timeout(_CANCEL_S):
                await s.service.wait(scope, stream)
    return answered(await s.service.view(scope, stream), scope)


@router.get("/runs/{trace_id}/graph.mmd", response_class=PlainTextResponse)
async def graph(request: Request, trace_id: str, full: bool = False) -> Response:
    """The execution graph as Mermaid text."""
    s, scope = services(request), identity(request)
    view = await s.service.view(scope, trace(trace_id))
    return Response(mermaid(view.events, view.text, full=full), media_type="text/plain; charset=utf-8")


@router.get("/runs/{trace_id}/citations", response_model=Citations)
async def cited(request: Request, trace_id: str) -> Response:
    """What the answer cites: each citation with its verdict, and whether its clause has changed since."""
    s, scope = services(request), identity(request)
    view = await s.service.view(scope, trace(trace_id))
    return JsonResponse(await citations(view, scope, s.knowledge))


@router.get("/runs/{trace_id}/payloads/{ref}", response_class=PlainTextResponse)
async def payload(request: Request, trace_id: str, ref: str) -> Response:
    """A whole text that the wire cut."""
    s, scope = services(request), identity(request)
    view = await s.service.view(scope, trace(trace_id))
    named = {r for event in view.events for r in refs(event)}
    if not scope.is_admin:
        named -= admin_only(view.events)
    text = view.text(ref) if ref in named else None
    if text is None:
        raise RunNotFound("this run names no such payload, or it was erased")
    return Response(text, media_type="text/plain; charset=utf-8")
