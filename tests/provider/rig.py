"""The whole runtime with models behind real HTTP: each FakeProvider is an endpoint, the first the agent's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from devassist.core.states import State
from devassist.llm.endpoint import SessionSettings
from devassist.llm.openai_compat import OpenAICompatible
from devassist.runtime.view import RunView
from tests.provider.fake import FakeProvider
from tests.runtime.rig import USER, Rig, rig
from tests.runtime.world import MovedClock

KEY = "sk-test-0123456789"


@asynccontextmanager
async def calling(
    *providers: FakeProvider, clock: Any, settings: SessionSettings | None = None, **options: Any
) -> AsyncIterator[Rig]:
    """A rig whose definition names the providers' models, ``m-1`` and on, in their order. HTTP dates are read by
    ``clock``."""
    models = [
        OpenAICompatible(p.base_url, KEY, f"m-{n}", settings=settings, wall=lambda: clock.now_us() / 1_000_000)
        for n, p in enumerate(providers, 1)
    ]
    keys = [f"openai:{m.name}{f'@{m.endpoint}' if n else ''}" for n, m in enumerate(models)]
    fallbacks = dict(zip(keys[1:], models[1:], strict=True))
    endpoints = {key: f"{m.name}@{m.endpoint}" for key, m in zip(keys, models, strict=True)}
    try:
        async with rig(models[0], clock=clock, fallbacks=fallbacks, endpoints=endpoints, **options) as made:
            yield made
    finally:
        for model in models:
            await model.close()


async def waits(made: Rig, stream: bytes, after: int = -1) -> RunView | None:
    """The run as it waits for a provider, past seq ``after``; None when it ended."""
    async with asyncio.timeout(20):
        while True:
            view = await made.service.view(USER, stream)
            if view.state.closed:
                return None
            if view.state.state is State.WAIT and view.state.seq > after and stream not in made.service._tasks:
                return view
            await asyncio.sleep(0.002)


async def ended(made: Rig, clock: MovedClock, stream: bytes) -> RunView:
    """The run at its end, with each wait passed by moving the clock to its time and no further."""
    seq = -1
    while (view := await waits(made, stream, seq)) is not None:
        seq = view.state.seq
        clock.forward(max(view.state.wait_until - clock.now_us(), 0) / 1_000_000)
        await made.service.sweep()
    return await made.service.view(USER, stream)


async def asked(made: Rig, clock: MovedClock, message: str = "hi", **changes: Any) -> RunView:
    """A run from its beginning to its end."""
    started = await made.service.start(USER, made.start_run(message, **changes))
    return await ended(made, clock, started.stream)
