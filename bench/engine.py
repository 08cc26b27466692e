"""DevAssist in process: its own bootstrap's parts, the two tools of the work, every follower running."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.work import SYSTEM, question, tool_result
from devassist.core.definition import Definition, Request
from devassist.core.events import Limits
from devassist.core.scope import Scope
from devassist.llm.openai_compat import OpenAICompatible
from devassist.observability.erasures import Erasures
from devassist.observability.graph_files import GraphFiles
from devassist.observability.hub import Hub
from devassist.observability.metrics import PrometheusMetrics
from devassist.runtime.clock import SystemClock
from devassist.runtime.driver import Driver
from devassist.runtime.history import History
from devassist.runtime.memory import settle
from devassist.runtime.local_bus import LocalBus
from devassist.runtime.perform import Performer
from devassist.runtime.service import Bounds, Service, StartRun
from devassist.store.log_sqlite import SqliteLog
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from devassist.tools.registry import ToolRegistry
from devassist.tools.schema import SchemaChecker, tool

USER = Scope("default", "bench", frozenset({"user"}))
LIMITS = Limits(steps=1000, corrections=2, tokens=10**9, deadline_ms=10**7)


@tool(effect="pure")
async def get_rule(topic: str, step: int) -> dict[str, Any]:
    """The leave rule on a topic."""
    return json.loads(tool_result())


@tool(effect="pure")
async def get_balance(topic: str, step: int) -> dict[str, Any]:
    """The leave balance on a topic."""
    return json.loads(tool_result())


class Engine:
    async def open(self, directory: Path, url: str) -> Engine:
        self.vault = FileVault(directory / "keys")
        self.journal = await SqliteJournal.open(directory / "journal.db", self.vault)
        self.log = await SqliteLog.open(directory / "log.db", self.journal, self.vault)
        self.model = OpenAICompatible(url, None, "stub")
        registry = ToolRegistry([get_rule, get_balance])
        clock, bus, history = SystemClock(), LocalBus(), History(self.journal, self.journal)
        performer = Performer(registry, SchemaChecker().check, bus, clock, lambda *_: None)
        models = {f"{self.model.kind}:{self.model.name}": self.model}
        driver = Driver(self.journal, self.vault, clock, performer, models, history)
        self.service = Service(
            self.journal, self.journal, self.vault, clock, bus, driver, history, Bounds(max_open=10_000)
        )  # fmt: skip
        followers = [PrometheusMetrics(0), GraphFiles(self.journal, directory / "graphs", self.service.recent),
                     Erasures(0, [self.vault.forget, self.journal.forget])]  # fmt: skip
        self.hub = Hub(self.journal, followers)
        self.definition = Definition(
            agent="dev", system=SYSTEM, prompt_version="bench", lang="en", tools=registry.specs(), model="stub",
            model_kind="openai", limits=LIMITS, context_tokens=12_000,
        )  # fmt: skip
        await self.service.open(sole_driver=True)
        settle()
        self.hub.start()
        await self.log.start()
        return self

    async def run(self, number: int) -> str:
        request = Request(user="bench", route="agent", route_reason="bench")
        started = await self.service.start(USER, StartRun(question(number), self.definition, request))
        view = await self.service.wait(USER, started.stream)
        return view.texts[view.placed[-1][0].answer]

    async def settle(self) -> None:
        """Let every follower finish, as part of what is measured."""
        await self.hub.catch_up()
        while await self.log.lag():
            await self.log.follow_once()

    async def close(self) -> None:
        await self.service.drain()
        await self.hub.stop()
        await self.log.stop()
        await self.model.close()
        await self.log.close()
        await self.journal.close()
        await self.vault.close()
