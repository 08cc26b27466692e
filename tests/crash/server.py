"""The server in a process of its own, with the tools of these tests beside its own."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from devassist.bootstrap import open_services
from devassist.cli.serve import serve
from devassist.config import load
from devassist.runtime.services import Services
from tests.crash.world import append, prepare, tools


def run(argument: str) -> None:
    """Serve until a signal comes; the file ``address`` has "up at" and the address. ``delays`` are those of ``rules``.
    ``early``: the signal comes while the service is being opened."""
    given = json.loads(argument)
    place = Path(given["place"])
    settings = load({**prepare(place, **given.get("delays", {})), "port": "0", "sandbox_pool_size": "0"}, {})

    async def opener() -> Services:
        services = await open_services(settings, drive=True, extra_tools=tools(place))
        if given.get("early"):
            os.kill(os.getpid(), signal.SIGTERM)
        return services

    serve(settings, opener, lambda text: append(place / "address", text))
