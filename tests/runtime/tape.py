"""Runs that are recorded commit by commit, and journals as a process left them that died after any of these."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from devassist.core.scope import SYSTEM
from devassist.core.states import State
from devassist.llm.scripted import Scripted
from devassist.ports.journal import Append, Body, NewRun
from devassist.runtime.view import RunView, load
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from tests.runtime.rig import USER, Rig, build
from tests.runtime.world import MovedClock, World, ended


class Signal(NamedTuple):
    stream: bytes
    signal_id: str
    body: Body
    at: int


Commit = NewRun | Append | Signal


@dataclass
class Taped(MemoryJournal):
    """Keeps every commit, so that a cut can be made after any of them."""

    vault: MemoryVault
    commits: list[Commit] = field(default_factory=list)

    def __post_init__(self) -> None:
        MemoryJournal.__init__(self, self.vault)

    async def begin(self, scope: Any, run: NewRun) -> Any:
        self.commits.append(run)
        return await super().begin(scope, run)

    async def append(self, scope: Any, append: Append) -> Any:
        done = await super().append(scope, append)
        self.commits.append(append)
        return done

    async def signal(self, scope: Any, stream: bytes, signal_id: str, body: Body, at: int, payloads: Any = ()) -> Any:
        self.commits.append(Signal(stream, signal_id, body, at))
        return await super().signal(scope, stream, signal_id, body, at, payloads)


@dataclass
class Story:
    """A run to record: the model's script, and how the agent is defined."""

    script: Any
    definition: dict[str, Any] = field(default_factory=dict)
    once: bool = False


@asynccontextmanager
async def process(journal: Any, story: Story, world: World, clock: Any, *, opened: bool) -> AsyncIterator[Rig]:
    made = build(journal, journal.vault, Scripted(story.script), world.tools(), clock=clock, **story.definition)
    if opened:
        await made.service.open(sole_driver=True)
    try:
        yield made
    finally:
        await made.service.drain(0.0)


async def driven(made: Rig, clock: MovedClock, stream: bytes) -> RunView:
    """The run once it has ended or waits for a person, with waits passed by moving the clock."""

    async def there() -> RunView | None:
        view = await load(made.journal, SYSTEM, stream)
        if view.state.state is State.WAIT:
            clock.forward(10)
            await made.service.sweep()
        rests = view.state.closed or view.state.state is State.AWAIT_APPROVAL
        return view if rests and stream not in made.service._tasks else None

    return await ended(there)


async def recorded(story: Story) -> tuple[RunView, list[Commit], MemoryVault]:
    vault, clock = MemoryVault(), MovedClock()
    journal = Taped(vault)
    async with process(journal, story, World(), clock, opened=True) as made:
        started = await made.service.start(USER, made.start_run("go", "c"))
        view = await driven(made, clock, started.stream)
    return view, journal.commits, vault


async def left_behind(commits: list[Commit], vault: MemoryVault) -> Taped:
    """The journal as a process left it that died right after the last of ``commits``."""
    journal = Taped(vault)
    for commit in commits:
        if isinstance(commit, NewRun):
            await MemoryJournal.begin(journal, SYSTEM, commit)
        elif isinstance(commit, Signal):
            await MemoryJournal.signal(journal, SYSTEM, *commit)
        else:
            head = await journal.head(SYSTEM, commit.stream)
            await MemoryJournal.append(journal, SYSTEM, commit._replace(epoch=head.epoch))
    return journal
