"""One run while it is driven: its folded state, and what is to be appended next.

*Facts* are outcomes in hand and are never dropped; *plans* are what ``decide`` chose on the strength of them. When a
signal moved the stream, the news is folded, the facts are kept and the plans are decided again.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from devassist.core.chain import call_id
from devassist.core.codec import b64, sound
from devassist.core.definition import Definition, Request
from devassist.core.errors import DevAssistError, SeqMoved, Superseded, Unavailable
from devassist.core.event_codec import encode, refs
from devassist.core.events import Event, RunStarted, ToolIntended, ToolReturned
from devassist.core.heads import head_fields
from devassist.core.prompt import estimate_tokens
from devassist.core.retrieved import numbers_in
from devassist.core.run_state import RunState
from devassist.core.scope import Scope
from devassist.core.signals import SIGNALS, Fact, LateOutcome
from devassist.core.transitions import apply
from devassist.ports.clock import Clock
from devassist.ports.journal import Append, Appended, Body, Journal
from devassist.ports.vault import PUBLIC, Payload, Vault
from devassist.runtime.view import Placed, decoded, texts_of

PATIENCE_S = (0.1, 0.5, 2.0)
"""Pauses between tries of an append that the store could not take."""


class ActiveRun:
    """State and pending events of a run owned under ``epoch``. ``placed`` holds every event folded so far."""

    def __init__(
        self, journal: Journal, vault: Vault, clock: Clock, scope: Scope, stream: bytes, epoch: int,
        placed: list[Placed], texts: dict[str, str],
    ) -> None:  # fmt: skip
        self._journal, self._vault, self._clock = journal, vault, clock
        self.scope, self.stream, self.epoch = scope, stream, epoch
        self.placed = placed
        self.texts = texts
        self._sizes: dict[str, int] = {}
        state: RunState | None = None
        for event, seq, at in placed:
            state = apply(state, event, seq, at)
        assert state is not None, "a run has at least its INIT"
        self.confirmed = self.state = state
        started: RunStarted = state.started
        self.domain = bytes.fromhex(started.domain)
        self.definition = Definition.from_json(texts[started.definition])
        # Erased while it was open: only our own fixed sentences are still sealed, as public ones.
        self.erased = started.request not in texts or started.message not in texts
        self.request = Request("", "agent", "") if self.erased else Request.from_json(texts[started.request])
        self.caller = self.request.caller(started.tenant)
        self._numbers: dict[tuple[str, str], int] | None = None
        self._facts: list[Event] = []
        self._plans: list[Event] = []
        self._payloads: dict[bytes, Payload] = {}
        self._at = 0
        self._handed = False
        self.woken: bytes | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task that drives it: who cuts an effect off cancels this."""

    @property
    def pending(self) -> bool:
        return bool(self._facts or self._plans)

    def placed_with_plans(self) -> list[Placed]:
        """Every event, also those still to be appended."""
        pending = (*self._facts, *self._plans)
        first = self.confirmed.seq + 1
        return [*self.placed, *((event, first + i, self._at) for i, event in enumerate(pending))]

    def text(self, ref: str) -> str:
        return self.texts[ref]

    def model_key(self, choice: int) -> str:
        """``kind:name`` of the definition's own model (0) or of its nth fallback; empty where it names none."""
        d = self.definition
        if choice == 0:
            return f"{d.model_kind}:{d.model}"
        return d.fallbacks[choice - 1] if choice <= len(d.fallbacks) else ""

    @property
    def numbers(self) -> dict[tuple[str, str], int]:
        """The numbers of the clauses that this run retrieved; who retrieves more adds theirs. Calls may be under way
        together, so a number is given as soon as an outcome is in hand."""
        if self._numbers is None:
            refs_ = [getattr(event, "retrieval", None) for event, _, _ in self.placed]
            self._numbers = numbers_in(json.loads(self.texts[ref]) for ref in refs_ if ref in self.texts)
        return self._numbers

    def size(self, ref: str) -> int:
        """The token estimate of a text, computed once."""
        known = self._sizes.get(ref)
        if known is None:
            known = self._sizes[ref] = estimate_tokens(self.texts[ref])
        return known

    def seal(self, text: str, *, public: bool = False) -> str:
        """Make ``text`` a payload of the run's domain, stored with the next append that commits. Raises TooLarge."""
        text = sound(text)
        payload = self._vault.seal(PUBLIC if public or self.erased else self.domain, text)
        self._payloads[payload.ref] = payload
        ref = b64(payload.ref)
        self.texts[ref] = text
        return ref

    def fact(self, event: Event) -> None:
        """An outcome in hand."""
        self._facts.append(event)
        self._apply(event)

    def plan(self, event: Event) -> None:
        """What was decided next."""
        self._plans.append(event)
        self._apply(event)

    def _apply(self, event: Event) -> None:
        if self._at == 0:
            self._at = max(self._clock.now_us(), self.state.at)
        self.state = apply(self.state, event, self.state.seq + 1, self._at)

    async def flush(self) -> bool:
        """Append what is pending, in one transaction. False when the stream had moved: the news is folded in, the
        facts are pending again and the plans are gone; decide again. Raises Superseded for a newer owner."""
        events = (*self._facts, *self._plans)
        append = Append(
            self.stream, self.confirmed.seq, self.epoch, self._at, tuple(Body(e.kind, encode(e), e) for e in events),
            head_fields(self.state), tuple(self._payloads.values()),
        )  # fmt: skip
        try:
            done = await self._append(append)
        except SeqMoved:
            await self._catch_up()
            return False
        self.woken = done.woken or self.woken
        if done.at != self._at:
            self.state = self.confirmed
            for offset, event in enumerate(events):
                self.state = apply(self.state, event, done.first + offset, done.at)
        self.placed += [(event, done.first + i, done.at) for i, event in enumerate(events)]
        self.confirmed = self.state
        self._facts.clear()
        self._plans.clear()
        self._payloads.clear()
        self._at = 0
        self._handed = False
        return True

    async def _append(self, append: Append) -> Appended:
        """Patient where the store cannot be written: an outcome in hand is worth some seconds of the lease."""
        for pause in PATIENCE_S:
            try:
                return await self._hand(append)
            except Unavailable:
                await self._clock.sleep(pause)
        return await self._hand(append)

    async def _hand(self, append: Append) -> Appended:
        self._handed = True
        try:
            return await self._journal.append(self.scope, append)
        except DevAssistError:
            self._handed = False
            raise

    async def keep(self) -> None:
        """The process ends: append the outcomes in hand, without what was decided on them. An append that was cut off
        while the store had it is made without us. Raises Superseded, Unavailable."""
        if self._facts and not self._handed:
            self._decide_again()
            while not await self.flush():
                continue

    async def refresh(self) -> None:
        """Fold what others appended; used when an effect was cut off by a signal."""
        await self._catch_up()

    async def deliver(self) -> None:
        """A newer owner drives the run: hand over the outcomes of calls that could not be appended, as signals."""
        intents = {seq: event for event, seq, _ in self.placed if isinstance(event, ToolIntended)}
        at, payloads = self._clock.now_us(), tuple(self._payloads.values())
        for event in self._facts:
            if not isinstance(event, ToolReturned) or event.outcome == "unknown":
                continue
            i = intents[event.of]
            signal_id = f"{call_id(self.stream, i.decision, i.call)}:{i.attempt}"
            late = LateOutcome(
                signal_id, event.of, event.outcome, event.result, event.shown, event.code, event.retrieval
            )
            body = Body.of(late)
            if await self._journal.signal(self.scope, self.stream, signal_id, body, at, payloads) is None:
                await self._note(late, at, payloads)

    async def _note(self, late: LateOutcome, at: int, payloads: tuple[Payload, ...]) -> None:
        """What is said of a run after it closed stands beside it."""
        scope = replace(self.scope, tenant=self.state.started.tenant)
        given = {"of": str(late.of), "outcome": late.outcome, "code": late.code}
        data = {**given, "result": late.result, "shown": late.shown}
        fact = Fact("late_outcome", "system", tuple((key, value) for key, value in data.items() if value is not None))
        await self._journal.note(scope, "notes", self.stream.hex(), [Body.of(fact)], at, payloads)

    async def _catch_up(self) -> None:
        news = decoded(await self._journal.read(self.scope, self.stream, self.confirmed.seq))
        if any(event.kind not in SIGNALS for event, _, _ in news):
            raise Superseded(f"run {self.stream.hex()} has events of another owner than epoch {self.epoch}")
        unread = [(event, seq, at) for event, seq, at in news if not self.texts.keys() >= set(refs(event))]
        if unread:
            self.texts |= await texts_of(self._journal, self.scope, self.stream, unread)
        for event, seq, at in news:
            self.confirmed = apply(self.confirmed, event, seq, at)
        self.placed += news
        self._decide_again()

    def _decide_again(self) -> None:
        """Drop the plans; the outcomes in hand stand where the record ends now."""
        self.state = self.confirmed
        self._plans.clear()
        self._at = 0
        facts, self._facts = self._facts, []
        for event in facts:
            self.fact(event)
