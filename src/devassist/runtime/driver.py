"""The driver: fold, decide, append the intent, perform, append the outcome with the next intent.

Starting and resuming are the same function: ``drive`` begins from the journal whatever happened before, so there is no
recovery path to rot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from devassist.core.breaker import Value
from devassist.core.closing_texts import closing_text
from devassist.core.codec import cut_middle
from devassist.core.commands import (
    Abort,
    CallModel,
    CallTools,
    CloseCall,
    Command,
    CutCall,
    CutModel,
    Fail,
    Finish,
    Hold,
    Switch,
    Wait,
)
from devassist.core.decide import decide
from devassist.core.degraded import degradations
from devassist.core.errors import Superseded
from devassist.core.events import (
    RETRY_2,
    BreakerSeen,
    CallClosed,
    Held,
    ModelFailed,
    ModelIntended,
    ModelSwitched,
    RunAborted,
    RunFailed,
    RunFinished,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.fault_texts import fault_text
from devassist.core.grounding import released_answer
from devassist.core.prompt import Prompt, assemble
from devassist.core.run_state import Entry
from devassist.core.scope import SYSTEM
from devassist.core.signals import CancelRequested, TimerFired
from devassist.core.states import State
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Journal
from devassist.ports.model import Model
from devassist.ports.vault import Vault
from devassist.runtime.breakers import Admission, Breakers
from devassist.runtime.faults import point
from devassist.runtime.history import NOTHING, Background, History
from devassist.runtime.perform import SHOWN_LIMIT, Performer
from devassist.runtime.run import ActiveRun
from devassist.runtime.view import Placed, decoded, texts_of

_EVER = 2**63
Attempt = Callable[[], Coroutine[Any, Any, ToolReturned]]


class Driver:
    """Drives runs that this process owns. One instance serves all runs; each ``drive`` is one task."""

    def __init__(
        self, journal: Journal, vault: Vault, clock: Clock, performer: Performer, models: Mapping[str, Model],
        history: History, breakers: Breakers,
    ) -> None:  # fmt: skip
        self._journal, self._vault, self._clock, self._breakers = journal, vault, clock, breakers
        self._perform, self._models, self._history = performer, models, history
        self._performing: dict[bytes, tuple[asyncio.Task[Any], ActiveRun]] = {}
        self._interrupted: set[bytes] = set()
        self._lost: set[bytes] = set()
        self.lease_ends: Callable[[bytes], int] = lambda _: _EVER
        """When the lease of a run ends, by CLOCK_BOOTTIME; set by whoever holds leases."""

    async def load(
        self, stream: bytes, epoch: int, placed: list[Placed] | None = None, texts: dict[str, str] | None = None
    ) -> ActiveRun:
        """The run as the journal has it; what the caller has just written need not be read again."""
        if placed is None:
            placed = decoded(await self._journal.read(SYSTEM, stream))
        if texts is None:
            texts = await texts_of(self._journal, SYSTEM, stream, placed)
        return ActiveRun(self._journal, self._vault, self._clock, SYSTEM, stream, epoch, placed, texts)

    async def drive(self, run: ActiveRun) -> None:
        """Advance ``run`` until it is closed or waits. Raises Superseded when a newer owner took it over."""
        run.task = asyncio.current_task()
        while True:
            command = decide(run.state)
            if command is not None:
                await self._do(run, command)
                continue
            if (run.pending and not await run.flush()) or await self._timer_fired(run):
                continue
            self._perform.bus.touch(run.stream)
            point("after_finish" if run.state.closed else "after_wait", run.stream)
            return

    async def give_up(self, run: ActiveRun, code: str, status: int) -> None:
        """Fail ``run``, which cannot go on, after what is open is recorded as cut off."""
        while isinstance(command := decide(run.state), CutModel | CutCall):
            await self._do(run, command)
        run.plan(self._failed(run, Fail(code, status)))
        if await run.flush():
            self._perform.bus.touch(run.stream)

    async def _timer_fired(self, run: ActiveRun) -> bool:
        """Whether the time that a wait named has come: that is a signal, so that it stands in the record."""
        state, now = run.state, self._clock.now_us()
        if state.state is not State.WAIT or now < state.wait_until:
            return False
        event = TimerFired(f"timer:{state.seq}", state.wait_until)
        await self._journal.signal(SYSTEM, run.stream, event.signal_id, Body.of(event), now)
        await run.refresh()
        return True

    def interrupt(self, stream: bytes) -> None:
        """The run shall end: cut the effect under way off, if there is one, so that the news is folded at once."""
        performing = self._performing.get(stream)
        if performing is not None:
            self._interrupted.add(stream)
            performing[0].cancel()

    async def notice(self, stream: bytes) -> None:
        """A signal stands in the journal. Only one that ends the run cuts an effect off; others await its outcome."""
        performing = self._performing.get(stream)
        if performing is not None:
            news = decoded(await self._journal.read(SYSTEM, stream, performing[1].confirmed.seq))
            if any(isinstance(event, CancelRequested) for event, _, _ in news):
                self.interrupt(stream)

    def abandon(self, stream: bytes) -> None:
        """The lease is lost: the effect under way is killed, and no other is begun."""
        self._lost.add(stream)
        self.interrupt(stream)

    def forget(self, stream: bytes) -> None:
        """The run is driven here no more."""
        self._lost.discard(stream)
        self._interrupted.discard(stream)

    async def _do(self, run: ActiveRun, command: Command) -> None:
        match command:
            case CallModel():
                await self._call_model(run, command)
            case CallTools():
                await self._call_tools(run, command)
            case CutModel():
                run.plan(ModelFailed(command.of, command.code, 503, retryable=True, took=0))
            case CutCall():
                shown = closing_text(run.definition.lang, "abandoned", command.code)
                run.plan(ToolReturned(command.of, "unknown", 0, shown=run.seal(shown), code=command.code))
            case CloseCall():
                run.plan(self._closed(run, command))
            case Hold():
                reason = "approval" if command.reason == "approval" else "settlement"
                run.plan(Held(reason, run.state.reply_seq, command.call, command.digest))
            case Wait():
                jitter = int.from_bytes(self._clock.random(4)) * (command.jitter + 1) >> 32
                run.plan(WaitBegun(command.reason, command.until + jitter))
            case Switch():
                self._switch(run, command)
            case Finish():
                run.plan(self._finished(run, command))
            case Fail():
                run.plan(self._failed(run, command))
            case Abort():
                run.plan(RunAborted(command.reason))
        if run.state.closed:
            point("before_finish", run.stream)

    # -- model ---------------------------------------------------------------------------------------------------

    def _switch(self, run: ActiveRun, command: Switch) -> None:
        model = self._models.get(run.model_key(command.choice))
        if model is None:
            run.plan(self._failed(run, Fail("model_unavailable", 503)))
        else:
            run.plan(ModelSwitched(model.name, model.kind, command.reason, command.choice))

    async def _call_model(self, run: ActiveRun, command: CallModel) -> None:
        key = run.model_key(run.state.choice)
        model = self._models.get(key)
        if model is None:
            run.plan(self._failed(run, Fail("model_unavailable", 503)))
            return
        said = await self._breakers.admit(key)
        if said.value == "open" and RETRY_2 in run.state.started.flags:
            run.plan(BreakerSeen(run.state.choice, said.until))
            return
        try:
            await self._attempt_model(run, command, model, said.value)
        finally:
            await self._report(run, key, command.attempt, said)

    async def _attempt_model(self, run: ActiveRun, command: CallModel, model: Model, breaker: Value) -> None:
        past = await self._history.read(run) if run.state.base < 0 else NOTHING
        prompt, intent = self._intend(run, command, model, past)
        run.plan(replace(intent, breaker="half_open") if breaker == "half_open" else intent)
        if not await run.flush():
            return
        self._perform.bus.touch(run.stream)
        point("after_model_intent", run.stream)
        self._still_mine(run)
        await self._effect(run, lambda: self._perform.model(run, model, prompt))
        point("after_model_reply", run.stream)

    async def _report(self, run: ActiveRun, key: str, attempt: int, said: Admission) -> None:
        """Tell the breaker what came of the attempt, if it was made."""
        state = run.state
        if state.open_model >= 0 or state.attempts < attempt:
            self._breakers.untold(key, said)
        else:
            await self._breakers.report(key, said, state.last_failure)

    def _intend(
        self, run: ActiveRun, command: CallModel, model: Model, past: Background
    ) -> tuple[Prompt, ModelIntended]:
        state = run.state
        # As folding the intent will make it: its history goes before the question.
        transcript = tuple(Entry("past", state.seq + 1, p.ref, p.role) for p in past.messages) + state.transcript
        prompt = assemble(transcript, run.definition, run.text, run.size, state.ceiling)
        added = tuple(dict.fromkeys(e.seq for e in transcript if e.seq > state.base and e.role != "past"))
        return prompt, ModelIntended(
            step=command.step, attempt=command.attempt, model=model.name, model_kind=model.kind, epoch=run.epoch,
            add=added, tokens=prompt.tokens, base=state.base if state.base >= 0 else None, history=past.messages,
            left_history=prompt.left_history, left=prompt.left, choice=state.choice, doubts=past.doubts,
        )  # fmt: skip

    async def _effect(self, run: ActiveRun, effect: Callable[[], Any]) -> None:
        """Perform, letting a signal cut it off. A cut effect's outcome is decided from the record: the attempt is open,
        and the news says why. Raises Superseded once the lease is lost."""
        task = run.task
        assert task is not None, "effects are made in the task that drives"
        self._performing[run.stream] = task, run
        try:
            await effect()
        except asyncio.CancelledError:
            if run.stream not in self._interrupted:
                raise
        finally:
            self._performing.pop(run.stream, None)
        if run.stream in self._interrupted:
            self._interrupted.discard(run.stream)
            task.uncancel()
            self._still_mine(run)
            await run.refresh()

    def _still_mine(self, run: ActiveRun) -> None:
        if run.stream in self._lost or self._clock.boottime_us() >= self.lease_ends(run.stream):
            raise Superseded(f"the lease of run {run.stream.hex()} was lost")

    # -- tools ---------------------------------------------------------------------------------------------------

    async def _call_tools(self, run: ActiveRun, command: CallTools) -> None:
        began = self._clock.boottime_us()
        intents = [self._tool_intent(run, index) for index in command.calls]
        seqs: list[int] = []
        for intent in intents:
            run.plan(intent)
            seqs.append(run.state.seq)
        if not await run.flush():
            return
        self._perform.bus.touch(run.stream)
        point("after_tool_intent", run.stream)
        # Not begun once the lease is over: that it was not is an outcome, and the next owner is told.
        lease_ends = self.lease_ends(run.stream)
        attempts: list[Attempt] = [
            partial(self._attempt, run, of, intent, min(began + _timeout_us(run, intent.tool), lease_ends))
            for of, intent in zip(seqs, intents, strict=True)
        ]
        if len(attempts) == 1:
            await self._effect(run, lambda: self._alone(run, attempts[0]))
        else:
            await self._together(run, attempts)

    def _tool_intent(self, run: ActiveRun, index: int) -> ToolIntended:
        state, c = run.state, run.state.calls[index]
        args = c.answer_ref if c.answer == "approve" and c.answer_ref else c.call.args
        return ToolIntended(
            decision=state.reply_seq, call=index, step=state.step, attempt=c.attempts + 1, tool=c.call.tool,
            effect=c.call.effect, args=args, epoch=run.epoch,
            deadline=self._clock.now_us() + _timeout_us(run, c.call.tool),
        )  # fmt: skip

    async def _attempt(self, run: ActiveRun, of: int, intent: ToolIntended, not_after: int) -> ToolReturned:
        outcome = await self._perform.tool(run, of, intent, not_after)
        point("after_tool_effect", run.stream)
        return outcome

    async def _alone(self, run: ActiveRun, attempt: Attempt) -> None:
        run.fact(await attempt())

    async def _together(self, run: ActiveRun, attempts: list[Attempt]) -> None:
        """Several attempts at once; each outcome is appended as it arrives, and none stays behind."""
        left = [asyncio.create_task(attempt(), name=f"call-{run.stream.hex()}") for attempt in attempts]
        try:
            while left and run.state.cancel is None:
                await self._effect(run, partial(asyncio.wait, left, return_when=asyncio.FIRST_COMPLETED))
                left = _collected(run, left)
                if left and run.pending and await run.flush():
                    self._perform.bus.touch(run.stream)
        finally:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            _collected(run, left)

    def _closed(self, run: ActiveRun, command: CloseCall) -> CallClosed:
        c = run.state.calls[command.call]
        result = c.answer_ref if command.closing == "happened" else None
        shown = result or run.seal(closing_text(run.definition.lang, command.closing, command.code))
        if result is not None and len(run.texts[result]) > SHOWN_LIMIT:
            shown = run.seal(cut_middle(run.texts[result], SHOWN_LIMIT))
        return CallClosed(run.state.reply_seq, command.call, command.closing, shown, result, command.code)

    # -- endings -------------------------------------------------------------------------------------------------

    def _finished(self, run: ActiveRun, command: Finish) -> RunFinished:
        reply = run.state.reply
        assert reply is not None, "only a final decision finishes a run"
        assert reply.answer is not None, "a final decision has an answer"
        placed = run.placed_with_plans()
        released = released_answer(run.definition, reply, placed, run.texts)
        answer = reply.answer if released.text == run.texts[reply.answer] else run.seal(released.text)
        output = None if released.output is None else run.seal(released.output)
        checks = None if released.checks is None else run.seal(released.checks)
        events = [event for event, _, _ in placed]
        degraded = degradations(run.state.started, events, reply, released.degraded)
        return RunFinished(command.of, answer, output, released.verdicts, degraded, checks)

    def _failed(self, run: ActiveRun, command: Fail) -> RunFailed:
        failure = run.state.last_failure
        detail = run.texts.get(failure.message, "") if failure is not None and failure.message else ""
        return RunFailed(command.code, command.status, run.seal(fault_text(command.code, run.definition.lang, detail)))


def _collected(run: ActiveRun, tasks: list[asyncio.Task[ToolReturned]]) -> list[asyncio.Task[ToolReturned]]:
    """Make facts of what has ended; return what is still under way."""
    for task in tasks:
        if task.done() and not task.cancelled():
            run.fact(task.result())
    return [task for task in tasks if not task.done()]


def _timeout_us(run: ActiveRun, tool: str) -> int:
    spec = run.definition.spec(tool)
    return int((spec.timeout_s if spec else 30.0) * 1_000_000)
