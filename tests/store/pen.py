"""Runs as a driver writes them: events with their texts, sealed, into any journal."""

from __future__ import annotations

import itertools
import os
from typing import Any

from devassist.core.chain import PUBLIC_DOMAIN
from devassist.core.codec import b64
from devassist.core.event_codec import encode
from devassist.core.event_parts import DecidedCall, Limits
from devassist.core.events import (
    Event,
    ModelIntended,
    ModelReplied,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
)
from devassist.core.heads import HeadFields
from devassist.core.ids import uuid7
from devassist.core.scope import Scope
from devassist.core.states import CLOSED, TABLE, State
from devassist.ports.journal import Append, Body, NewRun
from devassist.ports.vault import Payload, Vault
from devassist.testing.journal_kit import Store

T0 = 1_800_000_000_000_000
ALICE = Scope(tenant="default", actor="alice")
_ids = itertools.count()


class Pen:
    """One run. ``text`` seals and remembers a text for the next ``add``; every event takes a millisecond."""

    def __init__(self, journal: Store, vault: Vault, scope: Scope = ALICE, at: int = T0) -> None:
        self.journal, self.vault, self.scope = journal, vault, scope
        number = next(_ids)
        self.at = at + number * 1_000_000
        self.stream = uuid7(self.at, os.urandom(10))
        self.seq = -1
        self.domain = b""
        self.state = State.INIT
        self._payloads: list[Payload] = []

    @property
    def trace_id(self) -> str:
        return self.stream.hex()

    def text(self, text: str) -> str:
        payload = self.vault.seal(self.domain, text)
        self._payloads.append(payload)
        return b64(payload.ref)

    async def begin(self, message: str, *, agent: str = "dev", conversation: str = "", subject: str = "") -> Pen:
        actor = self.domain = await self.vault.domain(self.scope, "user", self.scope.actor)
        if subject:
            self.domain = await self.vault.domain(self.scope, "subject", subject)
        definition = self.vault.seal(PUBLIC_DOMAIN, '{"agent":"dev"}')
        self._payloads.append(definition)
        event = RunStarted(
            tenant=self.scope.tenant, domain=self.domain.hex(), actor=actor.hex(), agent=agent,
            definition=b64(definition.ref), request=self.text('{"user":"x"}'), message=self.text(message),
            conversation=conversation or self.stream.hex(), limits=Limits(),
        )  # fmt: skip
        run = NewRun(
            self.stream, self.scope.tenant, actor, event.conversation, self.stream, _body(event), self.at,
            self._sealed(), lease_until=self.at + 10**9,
        )  # fmt: skip
        self.seq = (await self.journal.begin(self.scope, run)).head.head_seq
        return self

    async def add(self, *events: Event) -> int:
        """Append; return the seq of the last."""
        self.at += 1000
        for event in events:
            self.state = TABLE[self.state, event.kind]
        head = HeadFields(str(self.state), self.state not in CLOSED, 0)
        append = Append(self.stream, self.seq, 1, self.at, tuple(map(_body, events)), head, self._sealed())
        self.seq = (await self.journal.append(self.scope, append)).seq
        return self.seq

    async def signal(self, event: Any) -> None:
        at, self.at = self.at + 1000, self.at + 1000
        seq = await self.journal.signal(self.scope, self.stream, event.signal_id, _body(event), at, self._sealed())
        assert seq is not None
        self.seq = seq

    def _sealed(self) -> tuple[Payload, ...]:
        sealed, self._payloads = tuple(self._payloads), []
        return sealed

    async def whole(
        self, message: str, answer: str, *, tool: str = "get_policy", found: str = "found", **begin: str
    ) -> Pen:
        """Thirteen events: two tool steps and an answer, each outcome together with the next intent."""
        await self.begin(message, **begin)
        await self.add(ModelIntended(0, 1, "m", "scripted", 1, (0,), 100))
        for step in (0, 1):
            args = self.text(f'{{"keywords":"{message[:20]}","step":{step}}}')
            reply = self.text(f"Thought: look it up.\nAction: {tool}\nArgs: {step} {message[:50]}")
            decided = ModelReplied(
                self.seq, reply, "calls", 7_400, calls=(DecidedCall(tool, "pure", args),), thought=self.text("look"),
                input_tokens=100, output_tokens=20, finish="stop",
            )  # fmt: skip
            intent = ToolIntended(self.seq + 1, 0, step, 1, tool, "pure", args, self.at + 10**7, 1)
            await self.add(decided, intent)
            result, shown = self.text(f'{{"found":"{found} {step}"}}'), self.text(f"{found} {step}")
            await self.add(
                ToolReturned(self.seq, "result", 1_499, result, shown),
                ModelIntended(step + 1, step + 2, "m", "scripted", 1, (self.seq,), 200, base=1),
            )
        final = self.text(answer)
        await self.add(
            ModelReplied(self.seq, self.text(f"Final: {answer}"), "final", 9_000, answer=final, output_tokens=30),
            RunFinished(self.seq + 1, final),
        )
        return self


def _body(event: Event) -> Body:
    return Body(event.kind, encode(event))
