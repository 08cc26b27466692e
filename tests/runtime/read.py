"""What a test reads off a run: its events, its answer, why it failed."""

from __future__ import annotations

from typing import Any

from devassist.core.event_codec import encode
from devassist.core.events import RunFailed, RunFinished
from devassist.core.messages import ModelReply
from devassist.llm.scripted import Scripted
from devassist.ports.journal import Body, Head, HeadQuery
from devassist.ports.model import ModelRequest
from devassist.runtime.view import RunView
from tests.runtime.rig import USER, Rig
from tests.runtime.world import ended


class Recording(Scripted):
    """Scripted, keeping every request."""

    def __init__(self, script: Any, **options: Any) -> None:
        super().__init__(script, **options)
        self.requests: list[ModelRequest] = []

    async def complete(self, scope: Any, request: ModelRequest, on_delta: Any = None) -> ModelReply:
        self.requests.append(request)
        return await super().complete(scope, request, on_delta)


def kinds(view: RunView) -> list[str]:
    return [event.kind for event in view.events]


def of(view: RunView, kind: type[Any]) -> list[Any]:
    return [event for event in view.events if isinstance(event, kind)]


def answer(view: RunView) -> str:
    (finished,) = of(view, RunFinished)
    return view.texts[finished.answer]


def failure(view: RunView) -> tuple[str, int]:
    (failed,) = of(view, RunFailed)
    assert view.texts[failed.message]
    return failed.code, failed.status


async def head(made: Rig, stream: bytes | None = None) -> Head:
    """The head of a run, or of the only one."""
    if stream is not None:
        return await made.journal.head(USER, stream)
    (only,) = await made.journal.list(USER, HeadQuery())
    return only


async def parked(made: Rig, state: str, after: int = -1) -> Head:
    """The head of the only run once it waits in ``state``, past seq ``after``, and nobody holds it."""

    async def there() -> Head | None:
        found = await made.journal.list(USER, HeadQuery())
        return next((h for h in found if h.state == state and not h.lease_until and h.head_seq > after), None)

    return await ended(there)


async def signal(made: Rig, stream: bytes, event: Any, texts: tuple[str, ...] = ()) -> int | None:
    """Append a signal as another process would."""
    view = await made.service.view(USER, stream)
    domain = bytes.fromhex(view.state.started.domain)
    payloads = [made.vault.seal(domain, text) for text in texts]
    body = Body(event.kind, encode(event))
    return await made.journal.signal(USER, stream, event.signal_id, body, view.state.at, payloads)
