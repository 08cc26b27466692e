"""DevAssist as its own bootstrap wires it, with the two tools of the work, and every follower running."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bench.work import SYSTEM, question, tool_result
from devassist.bootstrap import open_services
from devassist.config import Settings, load
from devassist.core.definition import Definition, Request
from devassist.core.event_parts import Limits
from devassist.core.scope import Scope
from devassist.runtime.services import Services
from devassist.runtime.starting import StartRun
from devassist.tools.schema import tool

USER = Scope("default", "bench", frozenset({"user"}))
LIMITS = Limits(steps=1000, corrections=2, tokens=10**9, deadline_ms=10**7)


@tool(effect="pure")
async def get_rule(topic: str, case: int, step: int) -> dict[str, Any]:
    """The leave rule on a topic."""
    return tool_result(case, step)


@tool(effect="pure")
async def get_balance(topic: str, case: int, step: int) -> dict[str, Any]:
    """The leave balance on a topic."""
    return tool_result(case, step)


BENCH_TOOLS = (get_rule, get_balance)


def settings(directory: Path, url: str, **more: str) -> Settings:
    """``more``: settings by the names of the environment."""
    return load(
        {},
        {
            "DEVASSIST_DATA_DIR": str(directory), "DEVASSIST_KEYS_DIR": str(directory) + ".keys",
            "DEVASSIST_MAX_OPEN_RUNS": "10000", "DEVASSIST_PORT": "0", "OPENAI_BASE_URL": url, "OPENAI_MODEL": "stub",
            "SANDBOX_POOL_SIZE": "0", **more,
        },
    )  # fmt: skip


async def settled(services: Services, directory: Path) -> None:
    """Wait until every follower has had everything: graph files (the hub's), log rows, the full-text index."""
    log: Any = services.log
    journal: Any = services.journal
    tip = await journal.tip()
    while _drawn(directory) < tip or await log.lag() or log._writer.backlog:  # noqa: ASYNC110 (followers tell nobody)
        await asyncio.sleep(0.03)


def _drawn(directory: Path) -> int:
    try:
        return int((directory / "graphs" / ".cursor").read_text())
    except (OSError, ValueError):  # not there yet, or being written
        return 0


class Engine:
    """In process: begin a run, wait for its answer."""

    async def open(self, directory: Path, url: str) -> None:
        self._directory = directory
        self.services = await open_services(settings(directory, url), drive=True, extra_tools=BENCH_TOOLS)
        names = {each.spec.name for each in BENCH_TOOLS}
        tools = tuple(spec for spec in self.services.tools.specs() if spec.name in names)
        self._definition = Definition(
            agent="dev", system=SYSTEM, prompt_version="bench", lang="en", tools=tools, model="stub",
            model_kind="openai", limits=LIMITS, context_tokens=12_000,
        )  # fmt: skip

    async def run(self, number: int) -> str:
        service, request = self.services.service, Request(user="bench", route="agent", route_reason="bench")
        started = await service.start(USER, StartRun(question(number), self._definition, request))
        view = await service.wait(USER, started.stream)
        return view.texts[view.placed[-1][0].answer]

    async def settle(self) -> None:
        """Let every follower finish, as part of what is measured."""
        await settled(self.services, self._directory)

    async def close(self) -> None:
        await self.services.close()
