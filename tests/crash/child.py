"""A process that drives runs, and dies, ends or stops at a named point.

What it has begun it acknowledges in the file ``acknowledged``, a trace id on the disk for each run that ``start``
returned. The parent reads nothing else of it but its exit code.
"""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.errors import Draining
from devassist.core.scope import Scope
from devassist.runtime.intake import Submission
from devassist.runtime.services import Services
from tests.crash.arms import arm
from tests.crash.idle import idle
from tests.crash.world import AGENT_OF, KINDS, THINK_MS, append, prepare, tools

USER = Scope("default", "alice", frozenset({"user", "admin"}))


@dataclass(frozen=True)
class Plan:
    """``runs`` are begun at once, of ``kinds`` by turns; what is open already is taken over. See ``arms``
    for the rest. It ends when all is quiet, if nothing ends it before."""

    place: str
    runs: int = 0
    kinds: tuple[str, ...] = KINDS
    point: str = ""
    after: int = 1
    how: str = "kill"
    grace_s: float = 0.2
    later_ms: int = THINK_MS

    def text(self) -> str:
        return json.dumps(asdict(self))


async def begin(services: Services, plan: Plan, number: int) -> None:
    """Begin one run and acknowledge it; two of the kind ``turn`` share a conversation."""
    kind = plan.kinds[number % len(plan.kinds)]
    conversation = f"turns{number // 20}" if kind == "turn" else None
    asked = Submission(f"{kind} {number}", conversation, agent=AGENT_OF.get(kind, "worker"))
    try:
        started = await services.service.start(USER, await services.intake.prepare(USER, "agent", asked))
    except Draining:
        return
    append(Path(plan.place) / "acknowledged", started.stream.hex())


async def main(plan: Plan) -> None:
    place, told = Path(plan.place), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    arm(plan.point, plan.after, plan.how)
    services = await open_services(
        load(prepare(place, later_ms=plan.later_ms), {}), drive=True, extra_tools=tools(place)
    )
    ending = asyncio.create_task(drain(services, told, plan.grace_s))
    await asyncio.gather(*(begin(services, plan, number) for number in range(plan.runs)))
    quiet = asyncio.create_task(idle(services))
    await asyncio.wait([ending, quiet], return_when=asyncio.FIRST_COMPLETED)
    quiet.cancel()
    told.set()
    await ending
    await services.close()


async def drain(services: Services, told: asyncio.Event, grace_s: float) -> None:
    await told.wait()
    await services.service.drain(grace_s)


def run(plan: str) -> None:
    """What the process does; ``plan`` as ``Plan.text`` gives it."""
    given = json.loads(plan)
    uvloop.run(main(Plan(**given | {"kinds": tuple(given["kinds"])})))
