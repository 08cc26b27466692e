"""Documents over HTTP: looked at, searched and compared by everybody within his labels, changed by administrators.

What a caller's labels do not open is not found, in the words and in the time of what is not there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import date, datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from devassist.api.auth import administrator, identity, known
from devassist.api.even import evenly
from devassist.api.knowledge_schemas import RepealRequest
from devassist.api.problems import RESPONSES
from devassist.api.routes_runs import JsonResponse, read_body, services
from devassist.core.doc_names import RESERVED
from devassist.core.errors import CollectionNotFound, InvalidRequest
from devassist.ports.library import DOCS, Question
from devassist.runtime.knowledge_view import (
    answered_json,
    clause_now,
    clause_now_json,
    diff_json,
    document_json,
    index_json,
    quarantined_json,
    reliance_json,
    row_json,
)

router = APIRouter(prefix="/knowledge", responses=RESPONSES, dependencies=[Depends(known)])
BODIES: tuple[type[BaseModel], ...] = (RepealRequest,)
_REPEAL = {
    "requestBody": {
        "required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RepealRequest"}}},
    }
}  # fmt: skip
Name = Annotated[str, Query(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=500)]


def _day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _us(moment: datetime | None) -> int | None:
    """A time without an offset is UTC."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = datetime.fromisoformat(f"{moment.isoformat()}+00:00")
    return int(moment.timestamp() * 1_000_000)


@router.get("/collections")
async def collections(request: Request) -> Response:
    """Collections that hold something that you may see, with how much of it."""
    s, scope = services(request), identity(request)
    rows = [
        {"name": name, "documents": documents, "clauses": clauses}
        for name, documents, clauses in await s.curator.collections(scope)
    ]
    return JsonResponse({"collections": rows})


@router.get("/documents")
@evenly
async def documents(
    request: Request, collection: Name | None = None, as_of: date | None = None, q: Name | None = None,
    after: Name | None = None, limit: Limit = 50,
) -> Response:  # fmt: skip
    """Documents by id, a page at a time; ``state`` and ``rev_id`` are of the day ``as_of``. ``q`` is part of a title or
    id."""
    s, scope = services(request), identity(request)
    rows, following = await s.curator.documents(
        scope, collection=collection, as_of=_day(as_of), text=q, after=after, limit=limit
    )
    return JsonResponse({"documents": [row_json(row) for row in rows], "next": following})


@router.get("/documents/{doc_id}")
@evenly
async def document(
    request: Request, doc_id: str, as_of: date | None = None, known_at: datetime | None = None
) -> Response:
    """One document: what is and was believed of it, and the revision that holds on the day, with its clauses."""
    s, scope = services(request), identity(request)
    found = await s.curator.document(scope, doc_id, as_of=_day(as_of), known_at=_us(known_at))
    return JsonResponse(document_json(found))


@router.delete("/documents/{doc_id}", status_code=204, response_class=Response)
@evenly
async def delete(request: Request, doc_id: str) -> Response:
    """Gone from every search when this answers; what runs recorded of it stays with them."""
    s, scope = services(request), administrator(request)
    await s.curator.delete(scope, doc_id)
    return Response(status_code=204)


@router.post("/documents/{doc_id}/repeal", openapi_extra=_REPEAL)
@evenly
async def repeal(request: Request, doc_id: str) -> Response:
    """No revision holds from the day on."""
    s, scope = services(request), administrator(request)
    body = await read_body(request, RepealRequest)
    await s.curator.repeal(scope, doc_id, body.day.isoformat())
    return JsonResponse(document_json(await s.curator.document(scope, doc_id)))


@router.get("/revisions/{rev_id}")
@evenly
async def revision(request: Request, rev_id: str) -> Response:
    """A revision whole, as a knowledge asset."""
    s, scope = services(request), identity(request)
    return JsonResponse(await s.curator.asset(scope, rev_id))


@router.get("/revisions/{rev_id}/raw", response_class=Response)
@evenly
async def raw(request: Request, rev_id: str) -> Response:
    """The file that a revision came from, to be saved: no browser shows it in this origin."""
    s, scope = services(request), identity(request)
    data, media_type = await s.curator.raw(scope, rev_id)
    name = (await s.curator.revision(scope, rev_id)).source.url.rpartition("/")[2] or rev_id
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name.replace('%', '_'), safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Media-Type": media_type,
    }
    return Response(data, headers=headers, media_type="application/octet-stream")


@router.get("/diff")
@evenly
async def diff(request: Request, before: Name, after: Name) -> Response:
    """Every clause of two revisions (by ``rev_id``), in the later one's order, with what became of it."""
    s, scope = services(request), identity(request)
    lines = await s.curator.diff(scope, before, after)
    return JsonResponse({"before": before, "after": after, "lines": diff_json(lines)})


@router.get("/clauses/{clause_id:path}")
@evenly
async def clause(request: Request, clause_id: str) -> Response:
    """One clause of one revision (write ``%23`` for its ``#``), and what holds in its place today."""
    s, scope = services(request), identity(request)
    return JsonResponse(clause_now_json(await clause_now(s.curator, scope, clause_id)))


@router.get("/search")
@evenly
async def search(
    request: Request, q: Annotated[str, Query(max_length=2000)],
    collection: Annotated[list[str] | None, Query()] = None,
    as_of: date | None = None, known_at: datetime | None = None, top_k: Annotated[int, Query(ge=1, le=50)] = 5,
    mode: Literal["hybrid", "lexical", "dense"] = "hybrid",
) -> Response:  # fmt: skip
    """The clauses that answer ``q`` best, each with the arms that found it; what each arm did, and how far the vector
    index lags."""
    s, scope = services(request), identity(request)
    named = tuple(collection or (DOCS,))
    if RESERVED & set(named):
        raise CollectionNotFound(f"There is no collection {min(RESERVED & set(named))}.")
    if len(named) > 20:
        raise InvalidRequest("at most 20 collections", errors=(("/query/collection", "at most 20"),))
    asked = Question(q, named, top_k, _day(as_of), _us(known_at), mode)
    return JsonResponse(answered_json(await s.library.search(scope, asked), admin=scope.is_admin))


@router.get("/index")
async def index(request: Request) -> Response:
    """How the vector arm stands."""
    s, scope = services(request), identity(request)
    return JsonResponse(index_json(await s.curator.index(scope), admin=scope.is_admin))


@router.post("/index/rebuild")
async def rebuild(request: Request) -> Response:
    """Build the vector index anew from the table and the cache, check it, and use it; the old one answers meanwhile."""
    s, scope = services(request), administrator(request)
    return JsonResponse(index_json(await s.curator.reindex(scope), admin=True))


@router.get("/quarantine")
async def quarantine(request: Request) -> Response:
    """Files that became no document, each with its reason."""
    s, scope = services(request), administrator(request)
    return JsonResponse({"files": [quarantined_json(file) for file in await s.curator.quarantined(scope)]})


@router.get("/affected")
async def affected(
    request: Request, doc_id: Name | None = None, rev_id: Name | None = None, after: Name | None = None,
    limit: Limit = 50,
) -> Response:  # fmt: skip
    """Runs that cited or retrieved a document or a revision, newest first: all for administrators, else your own."""
    s, scope = services(request), identity(request)
    try:
        page = await s.log.relied(scope, doc_id=doc_id, rev_id=rev_id, after=after, limit=limit)
    except InvalidRequest as error:
        found = tuple((f"/query/{path}", message) for path, message in error.errors)
        raise InvalidRequest(error.detail, errors=found) from None
    return JsonResponse({"rows": [reliance_json(row) for row in page.rows], "next": page.next, "lag": page.lag})


@router.get("/export", response_class=StreamingResponse)
async def export(request: Request, collection: Name | None = None) -> Response:
    """Every believed revision as a knowledge asset, one JSON object a line."""
    s, scope = services(request), administrator(request)
    assets = s.curator.export(scope, collection)
    first: Any = await anext(aiter(assets), None)  # what is refused is refused before the answer begins

    async def lines() -> AsyncGenerator[bytes]:
        if first is not None:
            yield _line(first)
        async for asset in assets:
            yield _line(asset)

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def _line(asset: Any) -> bytes:
    return json.dumps(asset, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
