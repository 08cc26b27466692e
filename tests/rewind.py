"""Material for tests of backup, restore and the held start: a data directory, its services, ways back in time."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devassist.bootstrap import file_backups, open_services
from devassist.config import ModelChoice, Settings, load
from devassist.core.scope import Scope
from devassist.ports.journal import HeadQuery
from devassist.runtime.clock import SystemClock
from devassist.runtime.intake import Submission
from devassist.runtime.restore import Restored, restore, resume
from devassist.runtime.services import Services
from devassist.tools.registry import Tool
from tests.runtime.world import ended

ALICE = Scope("default", "alice", frozenset({"user", "admin"}))
RULES: list[dict[str, Any]] = [{"replies": ["Thought: t\nAction: final: as you say"]}]


@dataclass(frozen=True)
class Place:
    """A data directory and its keys, as ``devassist`` finds them; ``rules`` are what its model answers by."""

    settings: Settings
    tools: tuple[Tool, ...] = ()

    @property
    def data(self) -> Path:
        return self.settings.data_dir

    @property
    def keys(self) -> Path:
        return self.settings.keys_dir

    @property
    def journal(self) -> Path:
        return self.settings.journal_path

    @property
    def position(self) -> dict[str, Any]:
        return json.loads((self.keys / "position.json").read_text())

    @property
    def files(self) -> Any:
        return file_backups(self.settings)

    @asynccontextmanager
    async def driving(self) -> AsyncGenerator[Services]:
        """As ``devassist serve`` has them."""
        services = await open_services(self.settings, drive=True, extra_tools=self.tools)
        try:
            yield services
        finally:
            await services.close()

    @asynccontextmanager
    async def beside(self, journal: Path | None = None) -> AsyncGenerator[Services]:
        """As a verb has them that works on the files."""
        settings = self.settings
        if journal is not None:
            settings = replace(settings, data_dir=journal.parent, journal_path=journal, graphs_dir=journal.parent / "g")
        plain = ModelChoice("extractive")
        services = await open_services(replace(settings, agent_model=plain, chat_model=plain), drive=False)
        try:
            yield services
        finally:
            await services.close()

    async def restored(self, source: Path, *, go_on: bool = False) -> Restored:
        return await restore(self.files, self.beside, SystemClock(), ALICE, source, resume=go_on)

    async def resumed(self) -> Any:
        return await resume(self.files, self.beside, ALICE)

    def kept(self, name: str = "kept") -> Path:
        """A copy of the directories by hand, keys too; nobody drives them now."""
        into = self.data.parent / name
        for path in (self.data, self.keys):
            shutil.copytree(path, into / path.name)
        return into

    def put_back(self, kept: Path) -> None:
        """The journal of such a copy in place of what is there now."""
        for name in ("journal.db-wal", "journal.db-shm"):
            (self.data / name).unlink(missing_ok=True)
        shutil.copy(kept / self.data.name / "journal.db", self.journal)


def a_place(path: Path, rules: Sequence[dict[str, Any]] = RULES, tools: Sequence[Tool] = (), **flags: str) -> Place:
    path.mkdir(parents=True, exist_ok=True)
    script = path / "script.json"
    script.write_text(json.dumps({"rules": list(rules)}, ensure_ascii=False), "utf-8")
    model = f"scripted:{script}"
    flags = {"data_dir": str(path / "data"), "agent_model": model, "chat_model": model} | flags
    return Place(load(flags, {}), tuple(tools))


async def begin(s: Services, message: str, *, key: str | None = None, **more: Any) -> bytes:
    """Start a run of the agent ``dev``; its id."""
    start = await s.intake.prepare(ALICE, "agent", Submission(message, **more), key=key)
    return (await s.service.start(ALICE, start)).stream


async def ask(s: Services, message: str, **more: Any) -> bytes:
    """The same, to its end or until it waits for a person."""
    stream = await begin(s, message, **more)
    await s.service.wait(ALICE, stream)
    return stream


async def state_of(s: Services, stream: bytes) -> str | None:
    return (await s.heads.head(ALICE, stream)).state


async def reaches(s: Services, stream: bytes, *states: str, seconds: float = 20.0) -> str:
    """The run's state once it is one of these, and nobody drives it any more."""

    async def there() -> str | None:
        head = await s.heads.head(ALICE, stream)
        return head.state if head.state in states and not head.lease_until else None

    return await ended(there, seconds)


async def facts(s: Services, kind: Any, name: str) -> list[Any]:
    """The facts of a stream, as events."""
    head = await s.heads.named(ALICE, kind, name)
    if head is None:
        return []
    bodies = [json.loads(record.body) for record in await s.journal.read(ALICE, head.stream)]
    return [(body["name"], dict(body["data"])) for body in bodies]


async def faults(s: Services) -> list[Any]:
    """What verification finds wrong with all runs and the streams that restoring appends to."""
    found: list[Any] = []
    runs = await s.heads.list(ALICE, HeadQuery(limit=1000))
    noted = [*await s.heads.streams(ALICE, "erasure"), *await s.heads.streams(ALICE, "deploy")]
    for head in [*runs, *noted]:
        found += (await s.auditor.verify(ALICE, head.stream)).faults
    return found
