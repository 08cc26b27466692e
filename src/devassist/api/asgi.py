"""Entry point for an ASGI server: ``uvicorn devassist.api.asgi:app`` with the settings of the environment."""

from __future__ import annotations

from devassist.api.app import create_app
from devassist.bootstrap import open_services
from devassist.config import check_binding, load
from devassist.core.errors import ConfigInvalid
from devassist.runtime.services import Services

_settings = load({})
check_binding(_settings, keys=_settings.keys_dir.is_dir())


async def _open() -> Services:
    services = await open_services(_settings, drive=True)
    try:
        check_binding(_settings, keys=services.access.required)
    except ConfigInvalid:
        await services.close()
        raise
    return services


app = create_app(_settings, _open)
