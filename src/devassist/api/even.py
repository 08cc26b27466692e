"""Not found on the beat: how long a 404 takes tells nothing of why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from time import perf_counter
from typing import ParamSpec

from starlette.responses import Response

from devassist.core.errors import NotFound

BEAT_S = 0.02
"""Longer than any look-up that finds nothing takes on a machine that is not overloaded."""
P = ParamSpec("P")


def evenly(route: Callable[P, Awaitable[Response]]) -> Callable[P, Awaitable[Response]]:
    """A route whose 404 comes at the next whole beat after its request, whatever was looked up for it."""

    @wraps(route)
    async def timed(*args: P.args, **kwargs: P.kwargs) -> Response:
        begun = perf_counter()
        try:
            return await route(*args, **kwargs)
        except NotFound:
            await asyncio.sleep(BEAT_S - (perf_counter() - begun) % BEAT_S)
            raise

    return timed
