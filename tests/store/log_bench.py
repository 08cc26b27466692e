"""What tests of the decision log work with: a journal in memory, its vault, and logs that follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devassist.core.event_codec import encode
from devassist.core.events import ModelIntended, ModelReplied, RunFailed
from devassist.core.scope import Scope
from devassist.core.signals import Fact
from devassist.ports.journal import Body
from devassist.store.database import connect
from devassist.store.log_sqlite import SqliteLog
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from tests.store.pen import ALICE, Pen

BOB = Scope(tenant="default", actor="bob")
ADMIN = Scope(tenant="default", actor="root", rights=frozenset({"admin"}))


class Bench:
    """A journal, its vault, and logs that follow it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.vault = MemoryVault()
        self.journal = MemoryJournal(self.vault)
        self.logs: list[SqliteLog] = []

    async def log(self, path: Path | None = None) -> SqliteLog:
        log = await SqliteLog.open(path or self.path, self.journal, self.vault, window_s=0)
        self.logs.append(log)
        return log

    def pen(self, scope: Scope = ALICE) -> Pen:
        return Pen(self.journal, self.vault, scope)

    async def fact(self, kind: Any, name: str, **data: str) -> None:
        fact = Fact(name, "system", tuple(data.items()))
        await self.journal.note(ALICE, kind, "main", [Body("fact", encode(fact))], 1_800_000_000_000_000)

    async def erase(self, scope: Scope) -> None:
        """As the service erases a user: the key first, then the fact."""
        domain = await self.vault.find(scope, "user", scope.actor)
        assert domain is not None
        await self.vault.destroy(scope, domain)
        await self.fact("erasure", "domain_erased", domain=domain.hex())

    def rows(self, sql: str = "SELECT * FROM decision_log ORDER BY trace_id, seq", path: Path | None = None) -> Any:
        """What an SQL client reads. Not through the standard library's sqlite3: a second SQLite in one process would
        drop the first one's locks when it closes the file."""
        db = connect(path or self.path)
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()


async def a_few_runs(bench: Bench) -> list[Pen]:
    """Whole ones, one that failed after a correction, one still open, and facts between them."""
    runs = [await bench.pen().whole("出差住宿标准是多少？", "每晚不超过 600 元。", tool="get_policy")]
    await bench.fact("deploy", "prompt_deployed", version="v2")
    failed = await bench.pen(BOB).begin("please fail", agent="policy")
    await failed.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    correction = failed.text("Say which action.")
    await failed.add(ModelReplied(1, failed.text("???"), "fault", 900, code="no_action", correction=correction))
    await failed.add(RunFailed("no_action", 502, failed.text("The model gave no usable answer.")))
    opened = await bench.pen().begin("still open")
    await opened.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
    return [*runs, failed, opened, await bench.pen(BOB).whole("second question", "second answer", tool="search_docs")]
