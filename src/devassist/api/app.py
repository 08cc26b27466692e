"""The HTTP application: routes, problem details, the edge."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.types import ASGIApp

from devassist.api import routes_admin, routes_meta, routes_runs, routes_static
from devassist.api.edge import BodyTooLarge, Edge, on_too_large
from devassist.api.problems import install
from devassist.config import Settings
from devassist.runtime.services import Services

Opener = Callable[[], Awaitable[Services]]


def create_app(settings: Settings, opener: Opener) -> ASGIApp:
    """``opener`` builds the services in the serving loop; they are closed when the server stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        services = await opener()
        app.state.services = services
        edge.metrics = services.metrics
        try:
            yield
        finally:
            await services.close()

    app = FastAPI(
        title="DevAssist", version=version("devassist"), lifespan=lifespan, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.max_body = settings.max_body_bytes
    install(app)
    app.add_exception_handler(BodyTooLarge, on_too_large)
    for router in (routes_runs.router, routes_admin.router, routes_meta.router, routes_static.router(settings.web_dir)):
        app.include_router(router)
    edge = Edge(app, max_body=settings.max_body_bytes, allowed_hosts=frozenset(settings.allowed_hosts))
    return edge
