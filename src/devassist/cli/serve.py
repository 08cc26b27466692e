"""``devassist serve``: the API on uvicorn, draining on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from types import FrameType

import click
import uvicorn
import uvloop

from devassist.api.app import create_app
from devassist.cli.context import App, Stop
from devassist.cli.machine import bound, lock_holder
from devassist.config import Settings, check_binding
from devassist.core.errors import ConfigInvalid
from devassist.runtime.services import Services

GRACE_S = 10
"""Seconds that open requests have after a signal; streams end themselves at once."""


@click.command("serve")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", help="Port to listen on, 0 for any free one.  [default: 8000]")
@click.pass_obj
def command(app: App, host: str | None, port: str | None) -> None:
    """Run the service in the foreground, until Ctrl-C or SIGTERM."""
    settings = app.settings(host=host, port=port)
    check_binding(settings, keys=settings.keys_dir.is_dir())  # where no key store is, nothing is made in vain
    serve(settings, lambda: app.open(settings, drive=True), click.echo)


class _Server(uvicorn.Server):
    """Tells the service to stop accepting as soon as the signal comes: uvicorn itself would wait for open streams.
    ``up`` is called once it listens. A signal that was heeded is no reason to end with an error; those in ``early``
    came before there was a server."""

    def __init__(
        self, config: uvicorn.Config, stop: Callable[[], None], up: Callable[[], None], early: list[int]
    ) -> None:  # fmt: skip
        super().__init__(config)
        self._stop, self._up, self._early = stop, up, early

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._early:
            asyncio.get_running_loop().call_soon(self.handle_exit, self._early[0], None)
        elif self.started:
            self._up()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stop()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve(settings: Settings, opener: Callable[[], Awaitable[Services]], say: Callable[[str], None]) -> None:
    """Run until a signal comes. ``say`` prints for people. Raises what ``opener`` raises, and Stop for a port that
    cannot be had, before anything listens."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    sockets = _sockets(settings)
    try:
        uvloop.run(_serve(settings, opener, say, sockets))
    finally:
        for each in sockets:
            each.close()


async def _serve(
    settings: Settings, opener: Callable[[], Awaitable[Services]], say: Callable[[str], None],
    sockets: list[socket.socket],
) -> None:  # fmt: skip
    # What is being opened drives runs already: it is not killed, but drained like any other.
    early: list[int] = []
    signal.signal(signal.SIGTERM, lambda sig, _: early.append(sig))
    services = await opener()
    try:
        check_binding(settings, keys=services.access.required)
    except ConfigInvalid:
        await services.close()
        raise

    async def opened() -> Services:
        return services

    address = f"http://{_shown(settings.host)}:{sockets[0].getsockname()[1]}"
    up = f"DevAssist is up at {address} (model: {services.model})"
    config = uvicorn.Config(
        create_app(settings, opened), loop="uvloop", http="httptools", access_log=False, log_level="warning",
        timeout_graceful_shutdown=GRACE_S, lifespan="on", server_header=False, ws="none",
    )  # fmt: skip
    try:
        await _Server(config, services.service.stop_accepting, lambda: say(up), early).serve(sockets)
    finally:
        await services.close()


def _sockets(settings: Settings) -> list[socket.socket]:
    """Bound before anything is opened or made; whoever has the port may well be who has the directory."""
    try:
        return bound(settings.host, settings.port)
    except Stop as stop:
        holder = lock_holder(settings.data_dir)
        if holder is None:
            raise
        raise Stop(f"data_dir_in_use: process {holder} drives runs on {settings.data_dir}\n  {stop.message}") from None


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
