"""For administrators: the list of traces, one trace with its evidence, and the decision log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from devassist.api.auth import administrator
from devassist.api.problems import RESPONSES
from devassist.api.routes_runs import JsonResponse, answer_of, services, trace
from devassist.core.codec import MAX_INT
from devassist.core.errors import InvalidRequest, RunNotFound
from devassist.core.graph import mermaid
from devassist.core.ids import first_at
from devassist.core.scope import Scope
from devassist.core.signals import SIGNALS, Fact
from devassist.ports.decision_log import LogPage, LogQuery
from devassist.ports.journal import HeadQuery
from devassist.runtime.cited import citations, retrievals
from devassist.runtime.listing import STATES_OF, event_row, listed_row, status_of
from devassist.runtime.people import names_of
from devassist.runtime.services import Services

router = APIRouter(prefix="/admin", responses=RESPONSES)
_MOST_PAGES = 50
Millis = Annotated[int, Query(ge=0, lt=2**48)]
Position = Annotated[int, Query(ge=-1, le=MAX_INT)]


@router.get("/agent-traces")
async def traces(
    request: Request,
    status: str | None = None,
    user: str | None = None,
    conversation_id: str | None = None,
    since_ms: Millis | None = None,
    until_ms: Millis | None = None,
    q: str | None = None,
    degraded: str | None = None,
    before: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Runs, newest first; ``next`` is the ``before`` of the next page. ``q`` searches all texts of the runs: those that
    hold its words, by their newest hit. ``degraded`` (1, or a code) leaves those whose answer was marked. All filters
    must hold."""
    s, scope = services(request), administrator(request)
    if status is not None and status not in STATES_OF:
        raise InvalidRequest(f"status must be one of {', '.join(STATES_OF)}", errors=(("/query/status", "unknown"),))
    if q is not None or degraded is not None:
        query = LogQuery(
            text=q, degraded=degraded if q is None else None, user_id=user, conversation_id=conversation_id,
            after=before, limit=limit,
            since=None if since_ms is None else since_ms * 1000, until=None if until_ms is None else until_ms * 1000,
        )  # fmt: skip
        return JsonResponse(await _search(s, scope, query, status, degraded))
    actor = None if user is None else await s.vault.find(scope, "user", user) or bytes(16)
    bounds = [_run_before(before)] if before else []
    bounds += [first_at(until_ms * 1000)] if until_ms is not None else []
    query = HeadQuery(
        states=STATES_OF[status] if status else (), actor=actor, conversation=conversation_id, limit=limit + 1,
        before=min(bounds, default=None), since=None if since_ms is None else first_at(since_ms * 1000),
    )  # fmt: skip
    heads = await s.heads.list(scope, query)
    rows = [await listed_row(s, scope, head) for head in heads[:limit] if status in (None, status_of(head))]
    following = heads[limit - 1].stream.hex() if len(heads) > limit else None
    return JsonResponse({"traces": rows, "next": following, "lag": 0})


def _run_before(trace_id: str) -> bytes:
    try:
        return trace(trace_id)
    except RunNotFound as error:
        raise InvalidRequest(error.detail, errors=(("/query/before", error.detail),)) from None


async def _search(
    s: Services, scope: Scope, query: LogQuery, status: str | None, degraded: str | None
) -> dict[str, Any]:  # fmt: skip
    """Pages of hits are as long as traces are still wanted, so that a page's end is never in the middle of one."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[str | None] = {None}
    page = LogPage([], query.after, 0)
    for _ in range(_MOST_PAGES):
        part = replace(query, after=page.next, limit=query.limit - len(found))
        page = await _log_page(s, scope, part, {"text": "q", "user_id": "user", "after": "before"})
        for row in page.rows:
            name = row["trace_id"]
            if name in seen or not await _is_newest(s, scope, query, row):
                continue
            seen.add(name)
            if query.degraded != degraded:
                marked = LogQuery(trace_id=name, degraded=degraded, limit=1)
                if not (await _log_page(s, scope, marked)).rows:
                    continue
            head = await s.heads.head(scope, bytes.fromhex(name))
            if status in (None, status_of(head)):
                found[name] = await listed_row(s, scope, head)
        if page.next is None or len(found) == query.limit:
            break
    return {"traces": list(found.values()), "next": page.next, "lag": page.lag}


async def _is_newest(s: Services, scope: Scope, query: LogQuery, row: dict[str, Any]) -> bool:
    """Whether an earlier page has shown this run already, by a newer hit."""
    if query.after is None:
        return True
    page = await s.log.query(scope, replace(query, trace_id=row["trace_id"], after=None, limit=1))
    return bool(page.rows) and page.rows[0]["seq"] == row["seq"]


@router.get("/agent-traces/{trace_id}")
async def trace_detail(
    request: Request,
    trace_id: str,
    after: Position = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    first_step: Annotated[int, Query(ge=0, le=MAX_INT)] = 0,
) -> Response:
    """One run: steps (a page from number ``first_step`` on), raw events (a page from ``after`` on), what was noted of
    it after its end, graph, and verification. ``actor_name`` says who sent a signal or noted something."""
    s, scope = services(request), administrator(request)
    stream = trace(trace_id)
    view = await s.service.view(scope, stream)
    records = await s.journal.read(scope, stream, after, limit + 1)
    page = records[:limit]
    report = await s.auditor.verify(scope, stream)
    notes = await s.people.notes(scope, stream)
    told = [json.loads(r.body) for r in page if r.kind in SIGNALS]
    actors = {body["actor"] for body in told if "actor" in body} | {e.actor for e, _, _ in notes if isinstance(e, Fact)}
    names = await names_of(s.vault, actors)
    answer, next_step = answer_of(view, admin=True, first=first_step)
    return JsonResponse(
        {
            **answer,
            "next_step": next_step,
            "events": [event_row(r, names) for r in page],
            "notes": [
                {"at_us": at, "name": e.name, "actor_name": names.get(e.actor), "data": dict(e.data)}
                for e, _, at in notes
                if isinstance(e, Fact)
            ],
            "next_after": page[-1].seq if len(records) > limit else None,
            "graph": mermaid(view.events, view.text),
            "verification": asdict(report),
            "citations": await citations(view, scope, s.knowledge),
            "retrievals": retrievals(view),
        }
    )


@router.get("/decision-log")
async def decision_log(
    request: Request,
    trace_id: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    error_code: str | None = None,
    degraded: str | None = None,
    tool_name: str | None = None,
    user_id: str | None = None,
    conversation_id: str | None = None,
    agent: str | None = None,
    step: int | None = None,
    since: int | None = None,
    until: int | None = None,
    text: str | None = None,
    after: str | None = None,
    oldest_first: bool = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Rows of the decision log; every column filters. ``since`` and ``until`` are microseconds since the epoch;
    ``degraded`` is 1 for all answers that were marked, or a code."""
    s, scope = services(request), administrator(request)
    query = LogQuery(
        trace_id=trace_id, kind=kind, state=state, error_code=error_code, degraded=degraded, tool_name=tool_name,
        user_id=user_id, conversation_id=conversation_id, agent=agent, step=step, since=since, until=until, text=text,
        after=after, oldest_first=oldest_first, limit=limit,
    )  # fmt: skip
    page = await _log_page(s, scope, query)
    return JsonResponse({"rows": page.rows, "next": page.next, "lag": page.lag})


async def _log_page(s: Services, scope: Scope, query: LogQuery, names: Mapping[str, str] | None = None) -> LogPage:
    """Raises InvalidRequest that points at the parameters of the request; ``names`` are theirs where others."""
    try:
        return await s.log.query(scope, query)
    except InvalidRequest as error:
        found = tuple((f"/query/{(names or {}).get(path, path)}", message) for path, message in error.errors)
        raise InvalidRequest(error.detail, errors=found) from None
