"""Material for the conformance suites of the journal: runs, bodies and head fields that are short to write."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, replace
from typing import Any, Protocol

from devassist.core.codec import canonical
from devassist.core.heads import HeadFields
from devassist.core.ids import uuid7
from devassist.core.scope import Scope
from devassist.ports.journal import Append, Appended, Body, Feed, Heads, Inspector, Journal, NewRun
from devassist.ports.vault import Payload, Vault

T0 = 1_800_000_000_000_000
LEASE = 15_000_000
ALICE = Scope(tenant="default", actor="alice")
BOB = Scope(tenant="default", actor="bob")
STRANGER = Scope(tenant="elsewhere", actor="alice")

DECIDING = HeadFields("LLM_DECIDE", driving=True, wake_at=0)
HELD = HeadFields("AWAIT_APPROVAL", driving=True, wake_at=0)
ENDED = HeadFields("FINAL_ANSWER", driving=False, wake_at=0)

_ids = itertools.count()


class Store(Journal, Heads, Feed, Inspector, Protocol):
    """All of the journal's ports in one object, as every store offers them."""


@dataclass(frozen=True, slots=True)
class Made:
    """What an adapter's fixture ``make`` yields: an empty journal, and the vault that it was given."""

    journal: Store
    vault: Vault

    async def run(self, scope: Scope = ALICE, *, claim: bool = False, **fields: Any) -> NewRun:
        """The INIT of a new run; every run of a test is younger than those before it."""
        actor = await self.vault.domain(scope, "user", scope.actor)
        stream = uuid7(T0 + next(_ids) * 1000, os.urandom(10))
        run = NewRun(
            stream=stream, tenant=scope.tenant, actor=actor, conversation="", root=stream, body=body("run_started"),
            at=T0, lease_until=T0 + LEASE if claim else 0,
        )  # fmt: skip
        return replace(run, **fields)

    async def begun(self, scope: Scope = ALICE, *, claim: bool = True, **fields: Any) -> NewRun:
        """The same, already in the journal."""
        run = await self.run(scope, claim=claim, **fields)
        await self.journal.begin(scope, run)
        return run

    async def append(
        self, run: NewRun, after: int, *bodies: Body, head: HeadFields = DECIDING, epoch: int = 1, at: int = T0,
        scope: Scope = ALICE, payloads: tuple[Payload, ...] = (),
    ) -> Appended:  # fmt: skip
        some = bodies or (body("model_switched"),)
        return await self.journal.append(scope, Append(run.stream, after, epoch, at, some, head, payloads))

    async def end(self, run: NewRun, after: int = 0, *, epoch: int = 1, at: int = T0) -> Appended:
        return await self.append(run, after, body("run_finished"), head=ENDED, epoch=epoch, at=at)

    async def is_due(self, run: NewRun, now: int) -> bool:
        return run.stream in {head.stream for head in await self.journal.due(ALICE, now)}


def body(kind: str, **fields: Any) -> Body:
    """A body as the appender encodes it; a store never looks into it."""
    return Body(kind, canonical({"k": kind, "v": 1, **fields}))
