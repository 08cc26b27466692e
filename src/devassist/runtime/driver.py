"""The driver: fold, decide, append the intent, perform, append the outcome with the next intent.

Starting and resuming are the same function: ``drive`` begins from the journal whatever happened before, so there is no
recovery path to rot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from devassist.core.decide import (
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
    Wait,
    decide,
)
from devassist.core.definition import Definition
from devassist.core.events import (
    CallClosed,
    Held,
    ModelFailed,
    ModelIntended,
    Past,
    RunAborted,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.fault_texts import fault_text
from devassist.core.grounding import released_answer
from devassist.core.prompt import Prompt, assemble
from devassist.core.scope import SYSTEM
from devassist.core.transitions import Entry
from devassist.ports.clock import Clock
from devassist.ports.journal import Journal
from devassist.ports.model import Model
from devassist.ports.vault import Vault
from devassist.runtime.faults import point
from devassist.runtime.history import History
from devassist.runtime.perform import Performer
from devassist.runtime.run import ActiveRun
from devassist.runtime.view import Placed, decoded, texts_of

_CLOSING_TEXT = {
    "zh": {
        "cancelled": "此调用已被取消，没有执行。",
        "rejected": "此调用未获批准，没有执行。",
        "not_run": "此调用没有执行（{code}）。",
        "abandoned": "此调用的结果未知。",
        "happened": "经人工确认，此调用已经生效，没有返回结果。",
    },
    "en": {
        "cancelled": "This call was cancelled and not made.",
        "rejected": "This call was not approved and not made.",
        "not_run": "This call was not made ({code}).",
        "abandoned": "The outcome of this call is unknown.",
        "happened": "A person confirmed that this call took effect; its result was not given.",
    },
}


class Driver:
    """Drives runs that this process owns. One instance serves all runs; each ``drive`` is one task."""

    def __init__(
        self, journal: Journal, vault: Vault, clock: Clock, performer: Performer, models: Mapping[str, Model],
        history: History,
    ) -> None:  # fmt: skip
        self._journal, self._vault, self._clock = journal, vault, clock
        self._perform, self._models, self._history = performer, models, history
        self._performing: dict[bytes, asyncio.Task[Any]] = {}
        self._interrupted: set[bytes] = set()
        self._definitions: dict[str, Definition] = {}

    async def load(
        self, stream: bytes, epoch: int, placed: list[Placed] | None = None, texts: dict[str, str] | None = None
    ) -> ActiveRun:
        """The run as the journal has it; what the caller has just written need not be read again."""
        if placed is None:
            placed = decoded(await self._journal.read(SYSTEM, stream))
        if texts is None:
            texts = await texts_of(self._journal, SYSTEM, stream, placed)
        return ActiveRun(
            self._journal, self._vault, self._clock, SYSTEM, stream, epoch, placed, texts, self._definition(placed, texts)
        )  # fmt: skip

    def _definition(self, placed: list[Placed], texts: dict[str, str]) -> Definition:
        """Few definitions are in use at a time, and reading one costs more than folding a run."""
        started = placed[0][0]
        assert isinstance(started, RunStarted), "a run begins with INIT"
        known = self._definitions.get(started.definition)
        if known is None:
            if len(self._definitions) >= 100:
                self._definitions.clear()
            known = self._definitions[started.definition] = Definition.from_json(texts[started.definition])
        return known

    async def drive(self, run: ActiveRun) -> None:
        """Advance ``run`` until it is closed or waits. Raises Superseded when a newer owner took it over."""
        while True:
            command = decide(run.state)
            if command is None:
                if not run.pending or await run.flush():
                    self._perform.bus.touch(run.stream)
                    if run.state.closed:
                        point("after_finish", run.stream)
                    return
                continue
            await self._do(run, command)

    def interrupt(self, stream: bytes) -> None:
        """A signal came: cut the effect under way off, if there is one, so that the news is folded at once."""
        task = self._performing.get(stream)
        if task is not None:
            self._interrupted.add(stream)
            task.cancel()

    async def _do(self, run: ActiveRun, command: Command) -> None:
        match command:
            case CallModel():
                await self._call_model(run, command)
            case CallTools():
                await self._call_tools(run, command)
            case CutModel():
                run.fact(ModelFailed(command.of, command.code, 503, retryable=True, took=0))
            case CutCall():
                shown = _closing(run, "abandoned", command.code)
                run.fact(ToolReturned(command.of, "unknown", 0, shown=run.seal(shown), code=command.code))
            case CloseCall():
                run.plan(self._closed(run, command))
            case Hold():
                reason = "approval" if command.reason == "approval" else "settlement"
                run.plan(Held(reason, run.state.reply_seq, command.call, command.digest))
            case Wait():
                jitter = int.from_bytes(self._clock.random(2)) * 4  # up to 0.26 s, so that waiters spread
                run.plan(WaitBegun("backoff", command.until + jitter))
            case Finish():
                run.plan(self._finished(run, command))
            case Fail():
                run.plan(self._failed(run, command))
            case Abort():
                run.plan(RunAborted(command.reason))
        if run.state.closed:
            point("before_finish", run.stream)

    # -- model ---------------------------------------------------------------------------------------------------

    async def _call_model(self, run: ActiveRun, command: CallModel) -> None:
        model = self._models.get(f"{run.definition.model_kind}:{run.definition.model}")
        if model is None:
            run.plan(self._failed(run, Fail("model_unavailable", 503)))
            return
        first = run.state.base < 0
        history = await self._history.read(run) if first else ()
        prompt, intent = self._intend(run, command, model, history)
        run.plan(intent)
        if not await run.flush():
            return
        self._perform.bus.touch(run.stream)
        point("after_model_intent", run.stream)
        await self._effect(run, lambda: self._perform.model(run, model, prompt))
        point("after_model_reply", run.stream)

    def _intend(
        self, run: ActiveRun, command: CallModel, model: Model, history: tuple[Past, ...]
    ) -> tuple[Prompt, ModelIntended]:
        state = run.state
        # As folding the intent will make it: its history goes before the question.
        transcript = tuple(Entry("past", state.seq + 1, p.ref, p.role) for p in history) + state.transcript
        prompt = assemble(transcript, run.definition, run.text, run.size)
        added = tuple(dict.fromkeys(e.seq for e in transcript if e.seq > state.base and e.role != "past"))
        return prompt, ModelIntended(
            step=command.step, attempt=command.attempt, model=model.name, model_kind=model.kind, epoch=run.epoch,
            add=added, tokens=prompt.tokens, base=state.base if state.base >= 0 else None, history=history,
            left_history=prompt.left_history, left=prompt.left,
        )  # fmt: skip

    async def _effect(self, run: ActiveRun, effect: Callable[[], Any]) -> bool:
        """Perform, letting a signal cut it off; true when it ended by itself. A cut effect's outcome is decided from
        the record: the attempt is open, and the news says why."""
        task = asyncio.current_task()
        assert task is not None, "drive runs in a task"
        self._performing[run.stream] = task
        try:
            await effect()
        except asyncio.CancelledError:
            if run.stream not in self._interrupted:
                raise
            task.uncancel()
            await run.refresh()
            return False
        else:
            return True
        finally:
            self._performing.pop(run.stream, None)
            self._interrupted.discard(run.stream)

    # -- tools ---------------------------------------------------------------------------------------------------

    async def _call_tools(self, run: ActiveRun, command: CallTools) -> None:
        intents = [self._tool_intent(run, index) for index in command.calls]
        seqs: list[int] = []
        for intent in intents:
            run.plan(intent)
            seqs.append(run.state.seq)
        if not await run.flush():
            return
        self._perform.bus.touch(run.stream)
        point("after_tool_intent", run.stream)
        await self._effect(run, lambda: self._attempts(run, list(zip(seqs, intents, strict=True))))
        point("after_tool_effect", run.stream)

    def _tool_intent(self, run: ActiveRun, index: int) -> ToolIntended:
        state, c = run.state, run.state.calls[index]
        spec = run.definition.spec(c.call.tool)
        timeout_us = int((spec.timeout_s if spec else 30.0) * 1_000_000)
        args = c.answer_ref if c.answer == "approve" and c.answer_ref else c.call.args
        return ToolIntended(
            decision=state.reply_seq, call=index, step=state.step, attempt=c.attempts + 1, tool=c.call.tool,
            effect=c.call.effect, args=args, deadline=self._clock.now_us() + timeout_us, epoch=run.epoch,
        )  # fmt: skip

    async def _attempts(self, run: ActiveRun, attempts: list[tuple[int, ToolIntended]]) -> None:
        """One call runs in place; several run together, and outcomes are facts in the order of their arrival."""
        if len(attempts) == 1:
            of, intent = attempts[0]
            run.fact(await self._perform.tool(run, of, intent))
            return

        async def one(of: int, intent: ToolIntended) -> None:
            run.fact(await self._perform.tool(run, of, intent))

        async with asyncio.TaskGroup() as group:
            for of, intent in attempts:
                group.create_task(one(of, intent))

    def _closed(self, run: ActiveRun, command: CloseCall) -> CallClosed:
        c = run.state.calls[command.call]
        if command.closing == "happened" and c.answer_ref is not None:
            shown = c.answer_ref
        else:
            shown = run.seal(_closing(run, command.closing, command.code))
        return CallClosed(run.state.reply_seq, command.call, command.closing, shown, c.answer_ref, command.code)

    # -- endings -------------------------------------------------------------------------------------------------

    def _finished(self, run: ActiveRun, command: Finish) -> RunFinished:
        reply = run.state.reply
        assert reply is not None, "only a final decision finishes a run"
        assert reply.answer is not None, "a final decision has an answer"
        events = [event for event, _, _ in run.placed_with_plans()]
        released = released_answer(run.definition, reply, events, run.texts)
        answer = reply.answer if released.text == run.texts[reply.answer] else run.seal(released.text)
        output = None if released.output is None else run.seal(released.output)
        return RunFinished(command.of, answer, output, released.verdicts, released.degraded)

    def _failed(self, run: ActiveRun, command: Fail) -> RunFailed:
        failure = run.state.last_failure
        detail = run.texts.get(failure.message, "") if failure is not None and failure.message else ""
        return RunFailed(command.code, command.status, run.seal(fault_text(command.code, run.definition.lang, detail)))


def _closing(run: ActiveRun, closing: str, code: str) -> str:
    texts = _CLOSING_TEXT[run.definition.lang]
    return texts.get(closing, texts["not_run"]).format(code=code)
