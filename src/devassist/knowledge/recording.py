"""The journal's stream ``knowledge``: a fact for each change of a document, following the table's own list of changes.

The stream is its own cursor: its last fact says up to which change it goes, so a crash between the table's commit and
the fact, or between the fact and anything else, neither loses nor repeats one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from devassist.core.errors import DevAssistError
from devassist.core.scope import SYSTEM, TENANT, Scope
from devassist.core.signals import Fact
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Heads, Journal
from devassist.ports.knowledge_store import ChangeRow, KnowledgeStore
from devassist.ports.vault import Vault

log = logging.getLogger("devassist.knowledge")

STREAM = "changes"
LOOK_S = 1.0
_PAGE = 100
_KEEPER = Scope(TENANT, "system", frozenset({"system"}))


class Recorder:
    """One for each journal: the process that drives runs has it. Nothing is noted while ``shut`` (a held start)."""

    def __init__(
        self, store: KnowledgeStore, journal: Journal, heads: Heads, vault: Vault, clock: Clock, *,
        shut: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._store, self._journal, self._heads, self._vault, self._clock = store, journal, heads, vault, clock
        self._shut = shut
        self._seq: int | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow in the background until ``close``."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="knowledge-record")

    async def catch_up(self) -> int:
        """Note every change up to now; returns the last one's number. Raises Unavailable."""
        if self._seq is None:
            self._seq = await self._last()
        while not self._shut() and (rows := await self._store.changes(self._seq, _PAGE)):
            bodies = [Body.of(await self._fact(row)) for row in rows]
            await self._journal.note(_KEEPER, "knowledge", STREAM, bodies, self._clock.now_us())
            self._seq = rows[-1].seq
        return self._seq

    async def close(self) -> None:
        """Stop following, after one last look. Idempotent."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        with suppress(DevAssistError):
            await self.catch_up()

    async def _follow(self) -> None:
        failing = False
        while True:
            try:
                await self.catch_up()
                failing = False
            except DevAssistError as error:
                if not failing:
                    log.warning("changes of knowledge are not on record yet: %s", error.detail)
                failing = True
            await asyncio.sleep(LOOK_S)

    async def _last(self) -> int:
        head = await self._heads.named(_KEEPER, "knowledge", STREAM)
        if head is None:
            return 0
        (record,) = await self._journal.read(SYSTEM, head.stream, head.head_seq - 1, 1)
        fact = record.decoded()
        return int(dict(fact.data)["seq"]) if isinstance(fact, Fact) else 0

    async def _fact(self, row: ChangeRow) -> Fact:
        actor = await self._vault.domain(_KEEPER, "user", row.actor)
        data = {"seq": str(row.seq), "doc": row.doc_id, "at": str(row.at)}
        if row.rev_id is not None:
            data["rev"] = row.rev_id
        if row.content_sha256 is not None:
            data["content"] = row.content_sha256
        return Fact(f"document_{row.reason}", actor.hex(), tuple(data.items()))
