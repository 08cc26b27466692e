"""Errors as RFC 9457 problem details, for every error that leaves the service."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from devassist.core.errors import DevAssistError, Overloaded, Unauthorised

log = logging.getLogger("devassist.api")

MEDIA_TYPE = "application/problem+json"
CODE = "devassist.code"
"""Where the request's ASGI scope has the code of the error that it was answered with."""
MOST_ERRORS = 20
"""Findings that one problem lists; ``detail`` says how many there are."""
_MOST_SHOWN = 200
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in (400, 401, 403, 404, 409, 413, 422, 429, 503)
}
"""How every route's refusals stand in the OpenAPI document."""
_CODES = {
    400: "bad_request",
    401: "unauthorised",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
}


def problem(
    status: int, code: str, title: str, detail: str, *, instance: str = "", request_id: str = "",
    errors: list[dict[str, str]] | None = None, headers: dict[str, str] | None = None,
    more: dict[str, Any] | None = None,
) -> Response:  # fmt: skip
    """One problem object; ``detail`` says what was wrong and what would be right. ``more``: extension members."""
    body: dict[str, Any] = (more or {}) | {
        "type": f"urn:devassist:error:{code}", "title": title, "status": status, "detail": detail,
        "instance": instance[:_MOST_SHOWN], "code": code, "request_id": request_id,
    }  # fmt: skip
    if errors:
        body["errors"] = errors
    return Response(orjson.dumps(body), status, headers, MEDIA_TYPE)


def pointed(error: ValidationError) -> list[dict[str, str]]:
    """pydantic's first findings as (JSON Pointer, message), without the input that they are about."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_ERRORS]
    return [{"path": pointer(each["loc"]), "message": each["msg"]} for each in found]


def pointer(parts: Sequence[int | str]) -> str:
    """RFC 6901; what names a place is the caller's, so it is cut."""
    return "".join("/" + str(part)[:_MOST_SHOWN].replace("~", "~0").replace("/", "~1") for part in parts)


def of_error(request: Request, error: DevAssistError) -> Response:
    headers: dict[str, str] = {}
    request.scope[CODE] = error.code
    if isinstance(error, Unauthorised):
        headers["WWW-Authenticate"] = 'Bearer realm="DevAssist"'
    elif isinstance(error, Overloaded):
        headers["Retry-After"] = str(error.retry_after_s)
    elif error.status == 503:
        headers["Retry-After"] = "1"
    detail = error.detail
    if error.fault == "service" and error.status == 500:
        log.error("%s %s: %s: %s", request.method, request.url.path, error.code, error.detail)
        detail = "The service failed; its log has the reason under this request_id."
    return problem(
        error.status, error.code, error.title, detail, instance=request.url.path, request_id=request_id(request),
        errors=[{"path": path, "message": message} for path, message in error.errors] or None, headers=headers,
    )  # fmt: skip


def request_id(request: Request) -> str:
    return request.scope.get("devassist.request_id", "")


def install(app: FastAPI) -> None:
    """Every way out of the application: ours, FastAPI's and Starlette's errors, and what nobody expected."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, DevAssistError), "registered for this type"
        return of_error(request, error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "registered for this type"
        title = HTTPStatus(error.status_code).phrase
        detail = f"{request.method} {request.url.path[:_MOST_SHOWN]}: {title}"
        return problem(
            error.status_code, _CODES.get(error.status_code, "error"), title, detail, instance=request.url.path,
            request_id=request_id(request), headers=dict(error.headers or {}),
        )  # fmt: skip

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError), "registered for this type"
        found = [{"path": pointer(e["loc"]), "message": str(e["msg"])} for e in error.errors()[:MOST_ERRORS]]
        return problem(
            422, "invalid_request", "The request does not fit the schema", "see errors for each field",
            instance=request.url.path, request_id=request_id(request), errors=found,
        )  # fmt: skip

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("unexpected error", exc_info=error)
        return problem(
            500, "internal", "Internal error", "The service failed; its log has the reason under this request_id.",
            instance=request.url.path, request_id=request_id(request),
        )  # fmt: skip

    app.add_exception_handler(DevAssistError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unexpected)
