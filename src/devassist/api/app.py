"""The HTTP application: routes, problem details, the edge."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp

from devassist.api import (
    routes_admin,
    routes_knowledge,
    routes_meta,
    routes_people,
    routes_runs,
    routes_static,
    routes_uploads,
)
from devassist.api.edge import BodyTooLarge, Edge, on_too_large
from devassist.api.problems import install
from devassist.api.refusals import Refusals
from devassist.api.schemas import ChatRequest
from devassist.config import Settings
from devassist.core.errors import DevAssistError
from devassist.ports.curation import MAX_FILE_BYTES
from devassist.ports.sandbox import SandboxChoice
from devassist.runtime.services import Services

log = logging.getLogger(__name__)

Opener = Callable[[], Awaitable[Services]]
_REF = "#/components/schemas/{model}"


def create_app(settings: Settings, opener: Opener) -> ASGIApp:
    """``opener`` builds the services in the serving loop; they are closed when the server stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        services = await opener()
        app.state.services = services
        edge.metrics = services.metrics
        edge.refusals = refusals = Refusals(services)
        refusals.start()
        # Beside the serving, never before it; who wants no sandbox kept ready gets one with the first program.
        warming = asyncio.create_task(_open_sandbox(services.sandbox)) if settings.sandbox_pool_size else None
        try:
            yield
        finally:
            if warming is not None:
                warming.cancel()
                await asyncio.gather(warming, return_exceptions=True)
            await refusals.close()
            await services.close()

    app = FastAPI(
        title="DevAssist", version=version("devassist"), lifespan=lifespan, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.uploads = asyncio.Semaphore(1)
    app.state.spool = settings.data_dir / "cache"
    install(app)
    app.add_exception_handler(BodyTooLarge, on_too_large)
    pages = routes_static.router(settings.web_dir)
    rooms = (routes_runs, routes_people, routes_admin, routes_meta, routes_uploads, routes_knowledge)
    for router in (*(room.router for room in rooms), pages):
        app.include_router(router)
    app.openapi = partial(_document, app)
    edge = Edge(
        app, max_body=settings.max_body_bytes, allowed_hosts=frozenset(settings.allowed_hosts),
        larger={routes_uploads.PATH: MAX_FILE_BYTES},
    )  # fmt: skip
    return edge


async def _open_sandbox(sandbox: SandboxChoice) -> None:
    """So that the first program finds it ready. That it cannot be opened is told by /readyz, and by that program."""
    try:
        await sandbox.open()
    except DevAssistError as error:
        log.warning("No program can be run now: %s", error.detail)
    except Exception:  # nobody waits for this task, so what it failed of would never be seen
        log.exception("No program can be run now")


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document. Bodies are read by hand, so FastAPI does not know the models of requests."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for model in (ChatRequest, *routes_people.BODIES, *routes_knowledge.BODIES):
            body = model.model_json_schema(ref_template=_REF)
            parts: dict[str, Any] = body.pop("$defs", {})
            document["components"]["schemas"] |= {**parts, model.__name__: body}
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{}, {"key": []}]  # without one, as long as no key was ever made
        app.openapi_schema = document
    return app.openapi_schema
