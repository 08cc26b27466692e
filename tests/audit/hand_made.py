"""Runs written by hand: what a driver would append, without one. Times and replies are those of a table."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from devassist.core.chain import PUBLIC_DOMAIN
from devassist.core.codec import b64, unb64
from devassist.core.definition import Definition, Request
from devassist.core.event_codec import encode
from devassist.core.event_parts import DecidedCall, Limits, Past
from devassist.core.events import (
    Event,
    Held,
    ModelIntended,
    ModelReplied,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
)
from devassist.core.heads import head_fields
from devassist.core.holds import hold_digest
from devassist.core.ids import uuid7
from devassist.core.prompt import estimate_tokens
from devassist.core.run_state import RunState
from devassist.core.scope import Scope
from devassist.core.signals import ApprovalGiven
from devassist.core.tooling import ToolSpec
from devassist.core.transitions import apply
from devassist.ports.journal import Append, Body, NewRun
from devassist.ports.vault import Payload

T0 = 1_800_000_000_000_000
USER = Scope("default", "alice", frozenset({"user", "admin"}))
POLICY = ToolSpec(
    "get_policy",
    "Find clauses.",
    {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"],
     "additionalProperties": False},
    effect="pure",
)  # fmt: skip
DEFINITION = Definition(
    agent="policy", system="You quote clauses. " * 40, prompt_version="v1", lang="en", tools=(POLICY,), model="m",
    model_kind="scripted", limits=Limits(), grounded=True, release="gated",
)  # fmt: skip


@dataclass
class HandMade:
    """One run that grows by ``append`` and ``signal``; ``texts`` holds everything that was sealed for it."""

    journal: Any
    vault: Any
    definition: Definition = DEFINITION
    stream: bytes = b""
    domain: bytes = b""
    state: RunState | None = None
    at: int = T0
    texts: dict[str, str] = field(default_factory=dict[str, str])
    _payloads: list[Payload] = field(default_factory=list[Payload])

    def seal(self, text: str, *, public: bool = False) -> str:
        payload = self.vault.seal(PUBLIC_DOMAIN if public else self.domain, text)
        self._payloads.append(payload)
        self.texts[b64(payload.ref)] = text
        return b64(payload.ref)

    def sealed(self) -> tuple[Payload, ...]:
        """The payloads to store with what is appended next."""
        taken, self._payloads = tuple(self._payloads), []
        return taken

    async def begin(self, message: str = "How many days?", **fields: Any) -> None:
        self.domain = await self.vault.domain(USER, "user", "alice")
        self.stream = uuid7(T0, os.urandom(10))
        d = self.definition
        event = RunStarted(
            tenant="default", domain=self.domain.hex(), actor=self.domain.hex(), agent=d.agent,
            definition=self.seal(d.to_json(), public=True),
            request=self.seal(Request("alice", "agent", "test").to_json()), message=self.seal(message),
            conversation="c1", limits=d.limits, protocol=d.protocol, release=d.release, on_unknown=d.on_unknown,
            parallel=d.parallel, grounded=d.grounded, idem=b64(bytes(range(32))), digest="d",
        )  # fmt: skip
        event = replace(event, **fields)
        run = NewRun(
            self.stream, event.tenant, self.domain, event.conversation, self.stream, Body(event.kind, encode(event)),
            self.at, payloads=self.sealed(), idem=unb64(event.idem) if event.idem else None, digest=event.digest,
            lease_until=self.at + 15_000_000,
        )  # fmt: skip
        await self.journal.begin(USER, run)
        self.state = apply(None, event, 0, self.at)

    async def append(self, *events: Event) -> None:
        """In one transaction, as the owner."""
        assert self.state is not None
        self.at += 1_000
        after, state = self.state.seq, self.state
        for event in events:
            state = apply(state, event, state.seq + 1, self.at)
        bodies = tuple(Body(e.kind, encode(e)) for e in events)
        await self.journal.append(
            USER, Append(self.stream, after, 1, self.at, bodies, head_fields(state), self.sealed())
        )
        self.state = state

    async def signal(self, event: Any) -> None:
        assert self.state is not None
        self.at += 1_000
        body = Body(event.kind, encode(event))
        await self.journal.signal(USER, self.stream, event.signal_id, body, self.at, self.sealed())
        self.state = apply(self.state, event, self.state.seq + 1, self.at)

    # -- events that are long to write ---------------------------------------------------------------------------

    def model(self, **fields: Any) -> ModelIntended:
        """The next model attempt, with the prompt's true estimate."""
        s = self.state
        assert s is not None
        step = s.step + 1 if s.reply is not None or s.step < 0 else s.step
        history: tuple[Past, ...] = fields.get("history", ())
        refs = [*(p.ref for p in history), *(e.ref for e in s.transcript)]
        tokens = estimate_tokens(self.definition.system) + sum(estimate_tokens(self.texts[r]) for r in refs)
        added = tuple(dict.fromkeys(e.seq for e in s.transcript if e.seq > s.base and e.role != "past"))
        made = ModelIntended(
            step=step, attempt=s.attempts + 1, model=self.definition.model, model_kind=self.definition.model_kind,
            epoch=1, add=added, tokens=tokens, base=s.base if s.base >= 0 else None,
        )  # fmt: skip
        return replace(made, **fields)

    def calls(self, *questions: str) -> ModelReplied:
        """A reply in the text protocol (one question), with its decision."""
        assert self.state is not None
        args = [f'{{"question":"{q}"}}' for q in questions]
        reply = f"Thought: look it up\nAction: tool:get_policy\nargs: {args[0]}"
        decided = tuple(DecidedCall("get_policy", "pure", self.seal(a)) for a in args)
        return ModelReplied(
            self.state.open_model, self.seal(reply), "calls", 900, "stop", 10, 5, thought=self.seal("look it up"),
            calls=decided,
        )  # fmt: skip

    def tool(self, call: int = 0, **fields: Any) -> ToolIntended:
        s = self.state
        assert s is not None
        c = s.calls[call]
        made = ToolIntended(
            s.reply_seq, call, s.step, c.attempts + 1, c.call.tool, c.call.effect, c.call.args, self.at + 10_000_000, 1
        )
        return replace(made, **fields)

    def tool_of(self, call: DecidedCall) -> ToolIntended:
        """The intent of the only call of a decision that is appended together with it."""
        s = self.state
        assert s is not None
        return ToolIntended(s.seq + 1, 0, s.step, 1, call.tool, call.effect, call.args, self.at + 10_000_000, 1)

    def result(self, text: str, **fields: Any) -> ToolReturned:
        assert self.state is not None
        of = next(c.intent for c in self.state.calls if c.phase == "running")
        ref = self.seal(text)
        return replace(ToolReturned(of, "result", 50, ref, ref), **fields)

    def final(self, answer: str) -> ModelReplied:
        assert self.state is not None
        reply = self.seal(f"Thought: done\nAction: final: {answer}")
        return ModelReplied(
            self.state.open_model, reply, "final", 800, "stop", 20, 9, thought=self.seal("done"),
            answer=self.seal(answer),
        )  # fmt: skip


CLAUSE = (
    '{"found":true,"matches":[{"effective_date":"2025-01-01","label":"Article 5","revision_date":null,"score":9.5,'
    '"text":"Employees have five days of leave each year.","title":"Leave Policy"}]}'
)
ANSWER = "“Employees have five days of leave each year.” (Leave Policy, Article 5, effective 2025-01-01)"
OUTPUT = (
    '{"answer":"' + ANSWER + '","confidence":"high","source":{"clause":"Article 5","effective_date":"2025-01-01",'
    '"policy_title":"Leave Policy","revision_date":null},"verbatim":true}'
)


async def grounded(run: HandMade) -> HandMade:
    """A whole run: question, look-up, a person's approval on the way, answer released with its source."""
    await run.begin()
    await run.append(run.model(history=(Past("user", run.seal("hello")), Past("assistant", run.seal("hi")))))
    await run.append(run.calls("How many days?"))
    await run.append(run.tool())
    await run.append(
        replace(run.result("needs a person"), outcome="needs_approval", code="needs_approval", result=None)
    )
    assert run.state is not None
    digest = hold_digest(run.state, 0)
    await run.append(Held("approval", run.state.reply_seq, 0, digest))
    await run.signal(ApprovalGiven("a1", run.domain.hex(), digest, "approve", note=run.seal("fine")))
    await run.append(run.tool())
    await run.append(run.result(CLAUSE))
    await run.append(run.model())
    await run.append(run.final(ANSWER))
    await run.append(RunFinished(run.state.reply_seq, run.seal(ANSWER), run.seal(OUTPUT), ("quote_verified",)))
    return run
