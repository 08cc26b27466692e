"""What the service is and has: health, metrics, agents, tools, conversations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from devassist.api.auth import administrator, identity
from devassist.api.problems import RESPONSES, problem, request_id
from devassist.api.routes_runs import JsonResponse, services
from devassist.core.errors import ConversationNotFound, DevAssistError, HeldStart
from devassist.core.events import RunFinished, RunStarted
from devassist.core.scope import SYSTEM
from devassist.ports.journal import Head, HeadQuery
from devassist.ports.metrics import KnowledgeState
from devassist.runtime.held import said
from devassist.runtime.listing import listed_row
from devassist.runtime.view import decoded, texts_of

router = APIRouter(responses=RESPONSES)


@router.head("/livez", include_in_schema=False)
@router.get("/livez")
async def livez() -> Response:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Whether it takes new runs: the journal answers, nothing is shutting down, and the start is not held; 503
    otherwise."""
    s = services(request)
    checks: dict[str, Any] = {"journal": "ok", "draining": s.service.draining, "model": s.model}
    index = await s.curator.index(SYSTEM)
    checks["knowledge"] = {"embedder": index.embedder, "index_ready": index.ready, "index_behind": index.lag > 0}
    checks["sandbox"] = {"backend": s.sandbox.backend, "fault": s.sandbox.fault or None}  # told, and no reason to fail
    try:
        checks["log_lag"] = await s.log.lag()
        await s.heads.list(SYSTEM, HeadQuery(limit=1))
    except DevAssistError as error:
        checks["journal"] = error.detail
    rewind = s.hold.gate.rewind
    fine = checks["journal"] == "ok" and not s.service.draining
    if fine and rewind is None:
        return JsonResponse({"status": "ok", **checks})
    code, detail = "unavailable", "It takes no new runs now; try again in a moment."
    if s.service.draining:
        code = "draining"
    elif fine and rewind is not None:
        code, detail = HeldStart.code, said(rewind)
    return problem(
        503, code, "Not ready", detail, instance=request.url.path,
        request_id=request_id(request), headers={"Retry-After": "1"}, more=checks,
    )  # fmt: skip


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health(request: Request) -> Response:
    """The same as ``/readyz``."""
    return await readyz(request)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Prometheus text format; for administrators."""
    s, scope = services(request), administrator(request)
    index = await s.curator.index(scope)
    held = {name: (documents, clauses) for name, documents, clauses in await s.curator.collections(scope)}
    s.metrics.knowledge(KnowledgeState(held, len(await s.curator.quarantined(scope)), index.lag, index.waiting))
    body, media_type = s.metrics.render()
    return Response(body, media_type=media_type)


@router.get("/agents")
async def agents(request: Request) -> Response:
    """The declared agents."""
    identity(request)
    rows: list[dict[str, Any]] = [
        {
            "name": a.name,
            "description": {"zh": a.description.zh, "en": a.description.en},
            "tools": a.tools if isinstance(a.tools, str) else list(a.tools),
            "approval": a.approval if isinstance(a.approval, str) else list(a.approval),
            "release": a.released,
            "grounded": a.grounded,
            "citations": a.citations if a.grounded else None,
            "unsupported": a.unsupported if a.grounded else None,
            "origin": a.origin,
        }
        for a in services(request).catalog.list()
    ]
    return JsonResponse({"agents": rows})


@router.get("/tools")
async def tools(request: Request) -> Response:
    """The registered tools with their schemas and effect classes."""
    identity(request)
    rows = [
        {
            "name": t.name, "description": t.description, "parameters": t.parameters, "result": t.result,
            "effect": t.effect, "timeout_s": t.timeout_s, "permission": t.permission,
            "needs_approval": t.needs_approval,
        }
        for t in services(request).tools.specs()
    ]  # fmt: skip
    return JsonResponse({"tools": rows})


@router.get("/conversations")
async def conversations(request: Request, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> Response:
    """Your conversations, newest first, each with its first message."""
    s, scope = services(request), identity(request)
    actor = await s.vault.find(scope, "user", scope.actor)
    if actor is None:
        return JsonResponse({"conversations": []})
    newest: dict[str, list[Head]] = {}
    for head in await s.heads.list(scope, HeadQuery(actor=actor, limit=2000, roots_only=True)):
        if head.conversation:
            newest.setdefault(head.conversation, []).append(head)
    rows: list[dict[str, Any]] = []
    for name, heads in list(newest.items())[:limit]:
        first = await listed_row(s, scope, heads[-1])
        rows.append({"conversation_id": name, "title": first["message"], "runs": len(heads),
                     "last_trace_id": heads[0].stream.hex(), "started_at_ms": first["started_at_ms"]})  # fmt: skip
    return JsonResponse({"conversations": rows})


@router.get("/conversations/{conversation_id}")
async def conversation(request: Request, conversation_id: str) -> Response:
    """Your conversation's messages in order; runs that another took the place of are left out."""
    s, scope = services(request), identity(request)
    actor = await s.vault.find(scope, "user", scope.actor)
    query = HeadQuery(actor=actor, conversation=conversation_id, limit=1000, roots_only=True)
    heads = await s.heads.list(scope, query) if actor is not None else []
    if not heads:
        raise ConversationNotFound(f"you have no conversation {conversation_id[:64]!r}")
    replaced: set[str | None] = set()
    turns: list[list[dict[str, Any]]] = []
    for head in heads:
        placed = decoded(await s.journal.read(scope, head.stream, -1, 1))
        started = placed[0][0]
        assert isinstance(started, RunStarted), "a run begins with INIT"
        hidden = head.stream.hex() in replaced
        replaced.add(started.replaces)
        if hidden:
            continue
        if head.state == "FINAL_ANSWER":
            placed += decoded(await s.journal.read(scope, head.stream, head.head_seq - 1, 1))
        texts = await texts_of(s.journal, scope, head.stream, placed)
        turn = [_message("user", texts.get(started.message), head)]
        last = placed[-1][0]
        if isinstance(last, RunFinished):
            turn.append(_message("assistant", texts.get(last.answer), head))
        turns.append(turn)
    messages = [message for turn in reversed(turns) for message in turn]
    return JsonResponse({"conversation_id": conversation_id, "messages": messages})


def _message(role: str, content: str | None, head: Head) -> dict[str, Any]:
    return {"role": role, "content": content, "trace_id": head.stream.hex(), "state": head.state}
