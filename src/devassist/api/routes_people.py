"""Where people answer a run: approve a call or reject it, and say what became of one in doubt.

Both return the run as it stands right after the answer was recorded; it goes on by itself.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from devassist.api.auth import identity
from devassist.api.people_schemas import ApprovalRequest, SettleRequest
from devassist.api.problems import RESPONSES
from devassist.api.routes_runs import answered, read_body, services, trace
from devassist.api.schemas import Answer
from devassist.core.codec import MAX_INT

router = APIRouter(responses=RESPONSES)
BODIES: tuple[type[BaseModel], ...] = (ApprovalRequest, SettleRequest)
"""Read by hand, so the OpenAPI document has to be told of them."""


def _body(model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post("/runs/{trace_id}/approvals/{digest}", response_model=Answer, openapi_extra=_body(ApprovalRequest))
async def approval(request: Request, trace_id: str, digest: str) -> Response:
    """Decide on the call that waits under ``digest`` (see ``pending``). The same decision again changes nothing,
    another one is 409."""
    s, scope = services(request), identity(request)
    stream, body = trace(trace_id), await read_body(request, ApprovalRequest)
    decided = await s.people.approve(scope, stream, digest, body.decision, note=body.note, args=body.tool_args)
    return answered(decided.view, scope)


@router.post("/runs/{trace_id}/steps/{step_index}/settle", response_model=Answer, openapi_extra=_body(SettleRequest))
async def settle(request: Request, trace_id: str, step_index: Annotated[int, Path(ge=0, le=MAX_INT)]) -> Response:
    """Say what became of a call of this step whose outcome is unknown. The same answer again changes nothing, another
    one is 409. ``step_index`` and ``call_index`` count from 0; what ``devassist trace show`` prints counts from 1."""
    s, scope = services(request), identity(request)
    stream, body = trace(trace_id), await read_body(request, SettleRequest)
    decided = await s.people.settle(
        scope, stream, step_index, body.outcome, result=body.given(), note=body.note, call=body.call_index,
        digest=body.digest,
    )  # fmt: skip
    return answered(decided.view, scope)
