"""What the crash tests share: processes, their successor in this one, and what a run looks like from outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.chain import call_id
from devassist.core.event_codec import encode
from devassist.core.event_parts import DecidedCall
from devassist.core.events import Held, ModelReplied, ToolIntended, ToolReturned
from devassist.core.scope import SYSTEM
from devassist.core.signals import ApprovalGiven, LateOutcome, SettlementGiven
from devassist.core.states import State
from devassist.ports.journal import Body, HeadQuery, Journal
from devassist.runtime.services import Services
from devassist.runtime.view import RunView
from devassist.runtime.view import load as load_run
from tests.crash.child import USER, Plan
from tests.crash.idle import MOST, idle
from tests.crash.nursery import process
from tests.crash.world import prepare, tools

WAIT_S = 60.0
Said = Literal["happened", "repeat", "abandon", "approve", "reject"]


async def child(nursery: Path, plan: Plan) -> int:
    """Run a child to its end; its exit code, negative for a signal. It must have had nothing to complain of."""
    place = Path(plan.place)
    async with process(nursery, "child:run", plan.text(), place / "stderr") as made:
        code = await made.wait()
    assert made.told == ""
    return code


@asynccontextmanager
async def successor(place: Path, *, drive: bool = True) -> AsyncGenerator[Services]:
    """This process on the same directory: the next to drive it, or one that looks on."""
    services = await open_services(load(prepare(place), {}), drive=drive, extra_tools=tools(place))
    try:
        yield services
    finally:
        await services.close()


async def quiet(services: Services) -> None:
    async with asyncio.timeout(WAIT_S):
        await idle(services)


def acknowledged(place: Path) -> set[str]:
    """The trace ids that callers were told."""
    path = place / "acknowledged"
    return set(path.read_text().split()) if path.exists() else set()


async def views(services: Services) -> list[RunView]:
    """Every run, as the journal has it."""
    heads = await services.heads.list(SYSTEM, HeadQuery(limit=MOST))
    return [await load_run(services.journal, SYSTEM, head.stream) for head in heads]


class Call(NamedTuple):
    """A call as the record has it. ``results``: outcomes that say that the effect happened, late ones too."""

    key: str
    run: str
    tool: str
    effect: str
    intents: tuple[ToolIntended, ...]
    results: int
    doubted: bool


def calls_of(view: RunView) -> list[Call]:
    """Every call that the model decided on."""
    return [
        _call(view, seq, index, decided)
        for event, seq, _ in view.placed
        for index, decided in enumerate(event.calls if isinstance(event, ModelReplied) else ())
    ]


def _call(view: RunView, decision: int, index: int, decided: DecidedCall) -> Call:
    this = (decision, index)
    intents = {seq: e for e, seq, _ in view.placed if isinstance(e, ToolIntended) and (e.decision, e.call) == this}
    outcomes = [e for e in view.events if isinstance(e, ToolReturned | LateOutcome) and e.of in intents]
    held = any(isinstance(e, Held) and (e.decision, e.call) == this for e in view.events)
    return Call(
        call_id(view.stream, decision, index), view.stream.hex(), decided.tool, decided.effect, (*intents.values(),),
        sum(e.outcome == "result" for e in outcomes), held or any(e.outcome == "unknown" for e in outcomes),
    )  # fmt: skip


class Doubt(NamedTuple):
    view: RunView
    digest: str
    reason: str
    key: str


def held(view: RunView) -> Doubt | None:
    """What the run waits for a person with."""
    if view.state.state is not State.AWAIT_APPROVAL:
        return None
    event = next(e for e in reversed(view.events) if isinstance(e, Held))
    return Doubt(view, event.digest, event.reason, call_id(view.stream, event.decision, event.call))


async def answer(services: Services, doubt: Doubt, said: Said) -> None:
    """A person answers: happened, repeat or abandon; approve or reject."""
    await answer_in(services.journal, doubt, said)


async def answer_in(journal: Journal, doubt: Doubt, said: Said) -> None:
    """The same beside whoever drives."""
    actor, digest = "00" * 16, doubt.digest
    event: ApprovalGiven | SettlementGiven
    if said == "approve" or said == "reject":
        event = ApprovalGiven(f"approval:{digest}", actor, digest, said)
    else:
        event = SettlementGiven(f"settlement:{digest}", actor, digest, said)
    body = Body(event.kind, encode(event), event)
    await journal.signal(USER, doubt.view.stream, event.signal_id, body, time.time_ns() // 1000)
