"""``devassist serve``: the API on uvicorn, draining on SIGTERM and SIGINT."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from types import FrameType

import uvicorn
import uvloop

from devassist.api.app import create_app
from devassist.config import Settings
from devassist.runtime.services import Services

GRACE_S = 10
"""Seconds that open requests have after a signal; streams end themselves at once."""


class _Server(uvicorn.Server):
    """Tells the service to stop accepting as soon as the signal comes: uvicorn itself would wait for open streams."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stop()
        super().handle_exit(sig, frame)


def serve(settings: Settings, opener: Callable[[], Awaitable[Services]], say: Callable[[str], None]) -> None:
    """Run until a signal comes. ``say`` prints for people. Raises what ``opener`` raises, before anything listens."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    async def main() -> None:
        services = await opener()

        async def opened() -> Services:
            say(f"DevAssist is up at http://{_shown(settings.host)}:{settings.port} (model: {services.model})")
            return services

        config = uvicorn.Config(
            create_app(settings, opened), host=settings.host, port=settings.port, loop="uvloop", http="httptools",
            access_log=False, log_level="warning", timeout_graceful_shutdown=GRACE_S, lifespan="on",
            server_header=False,
        )  # fmt: skip
        try:
            await _Server(config, services.service.stop_accepting).serve()
        finally:
            await services.close()

    uvloop.run(main())


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
