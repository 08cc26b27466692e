"""When nothing more will happen by itself."""

from __future__ import annotations

import asyncio

from devassist.core.scope import SYSTEM
from devassist.core.states import OPEN
from devassist.ports.journal import Head, HeadQuery
from devassist.runtime.services import Services

MOST = 10_000


async def open_heads(services: Services) -> list[Head]:
    return await services.heads.list(SYSTEM, HeadQuery(states=tuple(map(str, OPEN)), limit=MOST))


async def idle(services: Services) -> None:
    """Return once every run has ended or waits for a person, and nobody drives any."""
    while True:
        heads = await open_heads(services)
        if all(head.state == "AWAIT_APPROVAL" and not head.lease_until and head.wake_at <= 0 for head in heads):
            return
        await asyncio.sleep(0.02)
