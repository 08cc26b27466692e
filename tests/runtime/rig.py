"""A whole runtime on a throw-away store, with a scripted model: what the runtime tests drive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devassist.core.definition import Definition, Request
from devassist.core.event_parts import Limits
from devassist.core.events import RunStarted
from devassist.core.react import protocol_instructions
from devassist.core.scope import Scope
from devassist.llm.scripted import Scripted
from devassist.ports.journal import NewRun
from devassist.ports.model import Model
from devassist.runtime.breakers import Breakers
from devassist.runtime.clock import SystemClock
from devassist.runtime.driver import Driver
from devassist.runtime.history import History
from devassist.runtime.local_bus import LocalBus
from devassist.runtime.people import People
from devassist.runtime.perform import Performer
from devassist.runtime.service import Service
from devassist.runtime.starting import Bounds, Starter, StartRun
from devassist.runtime.view import RunView
from devassist.store.memory_journal import MemoryJournal
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault, MemoryVault
from devassist.tools.registry import Tool, ToolRegistry
from devassist.tools.schema import SchemaChecker

USER = Scope("default", "alice", frozenset({"user", "admin"}))


@dataclass
class Rig:
    service: Service
    journal: Any
    vault: Any
    tools: ToolRegistry
    definition: Definition
    bus: LocalBus
    driver: Driver
    starter: Starter
    people: People

    def start_run(self, message: str = "hi", conversation: str | None = None, **changes: Any) -> StartRun:
        request = Request(user="alice", route="agent", route_reason="test")
        start = StartRun(message, self.definition, request, conversation)
        return replace(start, **changes)

    async def prepare(self, scope: Scope, start: StartRun) -> tuple[NewRun, RunStarted, dict[str, str]]:
        """The INIT of a run that is not begun."""
        return await self.starter.prepare(scope, start)

    async def ask(self, message: str = "hi", conversation: str | None = None, **changes: Any) -> RunView:
        started = await self.service.start(USER, self.start_run(message, conversation, **changes))
        return await self.service.wait(USER, started.stream)


def build(
    journal: Any, vault: Any, model: Model, tools: Sequence[Tool] = (), *, bounds: Bounds | None = None,
    clock: Any = None, fallbacks: dict[str, Model] | None = None, endpoints: dict[str, str] | None = None,
    **definition: Any,
) -> Rig:  # fmt: skip
    """The same wiring as bootstrap's, on the given store."""
    registry = ToolRegistry(tools)
    clock = clock or SystemClock()
    bus = LocalBus()
    history = History(journal, journal)
    performer = Performer(registry, SchemaChecker().check, bus, clock, lambda *_: None)
    named = {f"{model.kind}:{model.name}": model, **(fallbacks or {})}
    breakers = Breakers(journal, clock, endpoints)
    driver = Driver(journal, vault, clock, performer, named, history, breakers)
    service = Service(journal, journal, vault, clock, bus, driver, history, bounds or Bounds())
    specs = registry.specs()
    base = Definition(
        agent="dev", system="You are a test.\n\n" + protocol_instructions("en", specs), prompt_version="test",
        lang="en", tools=specs, model=model.name, model_kind=model.kind, limits=Limits(),
        fallbacks=tuple(fallbacks or ()),
    )  # fmt: skip
    starter = Starter(vault, clock, bounds or Bounds())
    people = People(journal, journal, vault, clock, SchemaChecker(), service.wake)
    return Rig(service, journal, vault, registry, replace(base, **definition), bus, driver, starter, people)


@asynccontextmanager
async def rig(
    replies: Any, tools: Sequence[Tool] = (), path: Path | None = None, *, open_service: bool = True, **options: Any
) -> Any:  # fmt: skip
    """A rig in memory, or on SQLite under ``path``."""
    if path is None:
        vault: Any = MemoryVault()
        journal: Any = MemoryJournal(vault)
    else:
        vault = FileVault(path / "keys")
        journal = await SqliteJournal.open(path / "journal.db", vault)
    model = replies if hasattr(replies, "complete") else Scripted(replies)
    made = build(journal, vault, model, tools, **options)
    if open_service:
        await made.service.open(sole_driver=True)
    try:
        yield made
    finally:
        await made.service.drain(0.0)
        for closing in (journal, vault):
            close: Callable[[], Any] | None = getattr(closing, "close", None)
            if close is not None:
                await close()
