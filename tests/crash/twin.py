"""A driver below the directory's lock: one of several on the same store, which only leases and epochs keep apart."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from devassist.llm.scripted import Scripted
from devassist.runtime.starting import Bounds
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from tests.crash.arms import arm
from tests.crash.world import append, calls, tools
from tests.runtime.rig import USER, Rig, build
from tests.store.files import store


@dataclass(frozen=True)
class Twin:
    """Begins ``runs``, each of which calls ``tool`` so many ``times``, and goes on until SIGTERM; see ``arms`` for the
    rest."""

    place: str
    tool: str
    runs: int = 1
    times: int = 1
    lease_s: float = 0.6
    once_s: float = 1.0
    point: str = ""
    after: int = 1
    how: str = "stop"

    def text(self) -> str:
        return json.dumps(asdict(self))


def rig_on(journal: SqliteJournal, vault: FileVault, plan: Twin) -> Rig:
    model = Scripted(calls(*[plan.tool] * plan.times), delay_ms=20)
    return build(journal, vault, model, tools(Path(plan.place), plan.once_s), bounds=Bounds(lease_s=plan.lease_s))


@asynccontextmanager
async def driver(plan: Twin) -> AsyncGenerator[Rig]:
    """A service on the store, opened without the proof that others are dead."""
    async with store(Path(plan.place)) as (journal, vault):
        made = rig_on(journal, vault, plan)
        await made.service.open(sole_driver=False)
        try:
            yield made
        finally:
            await made.service.drain(5.0)


async def main(plan: Twin) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    arm(plan.point, plan.after, plan.how)
    async with driver(plan) as made:
        for number in range(plan.runs):
            started = await made.service.start(USER, made.start_run(f"run {number}", f"c{number}"))
            append(Path(plan.place) / "acknowledged", started.stream.hex())
        await told.wait()


def run(plan: str) -> None:
    """What the process does; ``plan`` as ``Twin.text`` gives it."""
    uvloop.run(main(Twin(**json.loads(plan))))
