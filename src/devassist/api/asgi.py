"""Entry point for an ASGI server: ``uvicorn devassist.api.asgi:app`` with the settings of the environment."""

from __future__ import annotations

from devassist.api.app import create_app
from devassist.bootstrap import open_services
from devassist.config import check_binding, load
from devassist.runtime.services import Services

_settings = load({})
check_binding(_settings)


async def _open() -> Services:
    return await open_services(_settings, drive=True)


app = create_app(_settings, _open)
