"""Files that come in over HTTP: one a request, as they are, spooled to disk, one after the other."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from devassist.api.auth import administrator, known
from devassist.api.knowledge_schemas import Kind, given
from devassist.api.problems import RESPONSES, problem, request_id
from devassist.api.routes_runs import JsonResponse, services
from devassist.core.errors import FileQuarantined, InvalidRequest
from devassist.ports.curation import Incoming, Ingestion
from devassist.ports.library import DOCS
from devassist.runtime.knowledge_view import ingestion_json

router = APIRouter(prefix="/knowledge", responses=RESPONSES, dependencies=[Depends(known)])
PATH = "/knowledge/documents"
"""The one path whose body may be as large as a file."""
Text = Annotated[str, Query(min_length=1, max_length=500)]
_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string",
         "format": "binary"}}}}}  # fmt: skip


@router.post("/documents", openapi_extra=_FILE)
async def upload(
    request: Request, name: Text, collection: Text = DOCS, doc_id: Text | None = None, title: Text | None = None,
    kind: Kind | None = None, effective: date | None = None, valid_to: date | None = None, issuer: Text | None = None,
    url: Annotated[str, Query(pattern="^https?://", max_length=2000)] | None = None,
    label: Annotated[list[str] | None, Query()] = None,
) -> Response:  # fmt: skip
    """Take in one file, whose bytes are the body, under a ``name`` that it keeps from one time to the next. 201 when
    something changed, 200 when not; a file that cannot be read is 422 ``file_quarantined`` with the reason."""
    s, scope = services(request), administrator(request)
    about = given(name, collection, doc_id, title, kind, effective, valid_to, issuer, url, label or [])
    spool: Path = request.app.state.spool
    await asyncio.to_thread(partial(spool.mkdir, mode=0o700, parents=True, exist_ok=True))
    with NamedTemporaryFile(dir=spool, prefix="upload-") as file:
        if not await _spooled(request, file):
            raise InvalidRequest("the body is empty; it is the file's bytes", errors=(("/body", "empty"),))
        async with request.app.state.uploads:  # one at a time is read, whoever sends how many
            done: Ingestion | None = None
            async for outcome in s.curator.ingest(scope, [Incoming(name, path=Path(file.name))], about):
                done = outcome
    assert done is not None, "one file has one outcome"
    if done.outcome == "quarantined":
        return _refused(request, done)
    return JsonResponse(ingestion_json(done), 200 if done.outcome == "unchanged" else 201)


async def _spooled(request: Request, file: IO[bytes]) -> int:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        await asyncio.to_thread(file.write, chunk)
    with suppress(ValueError):
        await asyncio.to_thread(file.flush)
    return size


def _refused(request: Request, done: Ingestion) -> Response:
    """The file is listed in quarantine; nothing of it was taken in."""
    return problem(
        FileQuarantined.status, FileQuarantined.code, FileQuarantined.title, f"{done.code}: {done.detail}",
        instance=request.url.path, request_id=request_id(request),
        more={"quarantine": {"name": done.name, "code": done.code, "detail": done.detail}},
    )  # fmt: skip
