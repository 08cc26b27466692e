"""Wiring: the only place that names concrete adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from devassist.audit.auditor import RecordAuditor
from devassist.config import ModelChoice, Settings, load_prices
from devassist.core.errors import ConfigInvalid
from devassist.core.prices import cost_micro
from devassist.core.scope import SYSTEM
from devassist.core.states import OPEN
from devassist.knowledge.policies import SAMPLES_DIR, PolicyFiles
from devassist.llm.extractive import Extractive
from devassist.llm.openai_compat import OpenAICompatible
from devassist.llm.script_file import load_script
from devassist.observability.erasures import Erasures
from devassist.observability.graph_files import GraphFiles
from devassist.observability.hub import Follower, Hub
from devassist.observability.metrics import PrometheusMetrics
from devassist.ports.journal import HeadQuery
from devassist.ports.model import Model
from devassist.prompts.catalog import AgentFiles
from devassist.runtime.clock import SystemClock
from devassist.runtime.driver import Driver
from devassist.runtime.history import History
from devassist.runtime.intake import Intake
from devassist.runtime.local_bus import LocalBus
from devassist.runtime.memory import settle
from devassist.runtime.perform import Performer
from devassist.runtime.service import Bounds, Service
from devassist.runtime.services import Services
from devassist.store.lock import DirectoryLock
from devassist.store.log_sqlite import SqliteLog
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from devassist.tools.get_policy import get_policy_tool
from devassist.tools.registry import Tool, ToolRegistry
from devassist.tools.schema import SchemaChecker


async def open_services(settings: Settings, *, drive: bool, extra_tools: Sequence[Tool] = ()) -> Services:
    """Everything, wired. ``drive``: take the directory's lock, drive runs and follow the journal; without it the same
    files are read, and signals appended, beside a running server. ``extra_tools`` stand beside the built-in ones.

    Raises DataDirInUse, ConfigInvalid, Unavailable.
    """
    lock = DirectoryLock(settings.data_dir) if drive else None
    vault = FileVault(settings.keys_dir)
    journal = await SqliteJournal.open(settings.journal_path, vault)
    log = await SqliteLog.open(settings.data_dir / "log.db", journal, vault)
    clock, bus, history = SystemClock(), LocalBus(), History(journal, journal)
    library = PolicyFiles.load(settings.policy_dir or SAMPLES_DIR, today=_today)
    tools = ToolRegistry([get_policy_tool(library), *extra_tools])
    checker = SchemaChecker()
    models = await _models(settings)
    prices = load_prices(settings)
    performer = Performer(tools, checker.check, bus, clock, partial(cost_micro, prices.models))
    driver = Driver(journal, vault, clock, performer, {f"{m.kind}:{m.name}": m for m in models.values()}, history)
    bounds = Bounds(settings.lease_s, settings.max_open_runs, settings.conversation_busy)
    service = Service(journal, journal, vault, clock, bus, driver, history, bounds)
    catalog = AgentFiles(settings.agents_dir)
    intake = Intake(
        catalog, tools, library, journal, vault, models, models["extractive"], settings.limits, settings.model_protocol
    )  # fmt: skip
    tip = await journal.tip()
    open_now = len(await journal.list(SYSTEM, HeadQuery(states=tuple(map(str, OPEN)), limit=100_000)))
    metrics = PrometheusMetrics(tip, open_now)
    followers: list[Follower] = [metrics, Erasures(tip, [vault.forget, journal.forget, service.forget])]
    if drive:
        followers.append(GraphFiles(journal, settings.graphs_dir, service.recent, tip))
    hub = Hub(journal, followers)

    closed = False

    async def close() -> None:
        nonlocal closed
        if closed:
            return
        closed = True
        if drive:
            await service.drain()
            await hub.stop()
            with suppress(TimeoutError):  # derived, so a rest may stay for the next start
                async with asyncio.timeout(5):
                    await hub.catch_up()
                    await log.catch_up()
        for model in models.values():
            await model.close()
        await log.close()
        await journal.close()
        await vault.close()
        if lock is not None:
            lock.release()

    if drive:
        await service.open(sole_driver=True)
        hub.start()
        await log.start()
        settle()
    return Services(
        service=service, intake=intake, catalog=catalog, tools=tools, library=library, journal=journal, heads=journal,
        vault=vault, log=log, auditor=RecordAuditor(journal, journal, journal, vault, checker), metrics=metrics,
        model=f"{models['agent'].kind}:{models['agent'].name}", close=close,
    )  # fmt: skip


def _today() -> str:
    """The day by this host's time zone: the one that "in force" is asked by when nobody names another."""
    return datetime.now(UTC).astimezone().date().isoformat()


async def _models(settings: Settings) -> Mapping[str, Model]:
    """The models behind the words that agent files use, and the deterministic planner."""
    extractive = Extractive()
    made: dict[ModelChoice, Model] = {ModelChoice("extractive"): extractive}
    for choice in (settings.agent_model, settings.chat_model):
        if choice not in made:
            made[choice] = await _model(settings, choice)
    return {"agent": made[settings.agent_model], "chat": made[settings.chat_model], "extractive": extractive}


async def _model(settings: Settings, choice: ModelChoice) -> Model:
    if choice.kind == "scripted":
        if choice.script is None:
            raise ConfigInvalid("a scripted model needs its file: scripted:/path/to/script.json")
        return load_script(choice.script)
    url = settings.openai_base_url
    if url is None:
        raise ConfigInvalid("the model openai needs OPENAI_BASE_URL or OPENAI_API_KEY")
    model = OpenAICompatible(url, settings.openai_api_key, settings.openai_model)
    try:
        await model.resolve_model()
    except BaseException:
        await model.close()
        raise
    return model
