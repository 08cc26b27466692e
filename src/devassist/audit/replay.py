"""Replay: every decision of a run derived again from its recorded replies, by the same core that drove it.

What happened outside (replies, outcomes, signals) is taken from the record; what was decided on the strength of it is
derived and compared: each next step, what each reply means, each prompt's shape, and what was released. Wording is no
decision: how a correction is put to the model or an ending to people may be improved, and old runs still replay.
Nothing is appended, called or waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from devassist.audit.due import JITTER_US, Due, due, is_fact, tool_due
from devassist.audit.record import Placed, Recorded, definition_text, recorded
from devassist.core.commands import CallTools, Wait
from devassist.core.decide import decide
from devassist.core.definition import Definition
from devassist.core.degraded import degradations
from devassist.core.errors import DevAssistError, IllegalTransition
from devassist.core.events import (
    Event,
    ModelIntended,
    ModelReplied,
    RunFinished,
    RunStarted,
    WaitBegun,
)
from devassist.core.grounding import released_answer, texts_needed
from devassist.core.interpret import Draft, interpret
from devassist.core.messages import ModelReply
from devassist.core.prompt import assemble, estimate_tokens, native_calls
from devassist.core.run_state import RunState
from devassist.core.scope import Scope
from devassist.core.signals import SIGNALS
from devassist.core.transitions import apply
from devassist.ports.audit import Difference, ReplayReport
from devassist.ports.journal import Journal
from devassist.ports.tools import ArgumentChecker

_SHOWN = 300
"""Characters of a value that a difference shows."""
_COPIED = ("agent", "limits", "protocol", "release", "on_unknown", "parallel", "grounded")
"""What INIT repeats of the definition."""


async def replay(journal: Journal, scope: Scope, stream: bytes, checker: ArgumentChecker) -> ReplayReport:
    """Raises RunNotFound, and JournalCorrupt where the record cannot be read: verify it first."""
    return await asyncio.to_thread(rederive, await recorded(journal, scope, stream), checker)


def rederive(run: Recorded, checker: ArgumentChecker) -> ReplayReport:
    """Derive the decisions of ``run`` again. Pure. Raises JournalCorrupt where its definition cannot be read."""
    walk = _Replay(run, checker)
    walk.all()
    return ReplayReport(
        run.stream.hex(), not walk.differences, walk.derived, walk.skipped, tuple(walk.differences)
    )  # fmt: skip


class _Erased(Exception):
    """A text that a derivation needs was erased."""


class _Replay:
    def __init__(self, run: Recorded, checker: ArgumentChecker) -> None:
        self.differences: list[Difference] = []
        self.derived = 0
        self.skipped = 0
        self._placed, self._texts = run.placed, run.texts
        self._definition = Definition.from_json(definition_text(run))
        self._checker = checker
        self._together: list[int] = []
        self._seq = 0

    def all(self) -> None:
        state: RunState | None = None
        for index, (event, seq, at) in enumerate(self._placed):
            self._seq = seq
            before = self._placed[:index] if isinstance(event, RunFinished) else ()
            if state is not None:
                self._decided(state, event)
            try:
                after = apply(state, event, seq, at)
            except IllegalTransition as error:
                self._differ("kind", event.kind, error.detail)
                return
            self._derived(event, state, after, before)
            state = after

    # -- what was decided ----------------------------------------------------------------------------------------

    def _decided(self, state: RunState, event: Event) -> None:
        """Compare with what ``decide`` says, unless the event is a fact."""
        if event.kind in SIGNALS:
            return
        if self._together and event.kind == "tool_intended":
            self._same(tool_due(state, self._together.pop(0)), event)
            return
        if self._together:
            self._differ("kind", event.kind, f"tool_intended of call {self._together[0]}")
            self._together.clear()
        command = decide(state)
        if is_fact(event, command):
            return
        if isinstance(command, CallTools):
            self._together = list(command.calls[1:])
        self._same(due(command, state, self._definition), event)
        if isinstance(command, Wait) and isinstance(event, WaitBegun):
            spread = event.until - command.until
            if not 0 <= spread <= max(JITTER_US, command.jitter):
                self._differ("until", event.until, command.until)

    def _same(self, expected: Due | None, event: Event) -> None:
        self.derived += 1
        if expected is None or expected.kind != event.kind:
            self._differ("kind", event.kind, "nothing to do" if expected is None else expected.kind)
            return
        for name, value in expected.fields.items():
            self._compare(name, getattr(event, name), value)

    # -- what was derived from texts -----------------------------------------------------------------------------

    def _derived(self, event: Event, before: RunState | None, after: RunState, placed: Sequence[Placed]) -> None:
        match event:
            case RunStarted():
                found = self._init(event)
            case ModelIntended():
                found = self._prompt(event, after)
            case ModelReplied() if before is not None:
                found = self._reply(event, before)
            case RunFinished() if before is not None:
                found = self._release(event, before, placed)
            case _:
                return
        try:
            pairs = list(found)
        except _Erased:
            self.skipped += 1
            return
        self.derived += 1
        for name, recorded_value, value in pairs:
            self._compare(name, recorded_value, value)

    def _init(self, event: RunStarted) -> Iterator[tuple[str, Any, Any]]:
        for name in _COPIED:
            yield name, getattr(event, name), getattr(self._definition, name)

    def _prompt(self, event: ModelIntended, after: RunState) -> Iterator[tuple[str, Any, Any]]:
        prompt = assemble(
            after.transcript, self._definition, self._text, lambda ref: estimate_tokens(self._text(ref)), after.ceiling
        )  # fmt: skip
        yield "tokens", event.tokens, prompt.tokens
        yield "left_history", event.left_history, prompt.left_history
        yield "left", event.left, prompt.left

    def _reply(self, event: ModelReplied, before: RunState) -> Iterator[tuple[str, Any, Any]]:
        try:
            calls = native_calls(self._text(event.native)) if event.native else ()
            reply = ModelReply(self._text(event.reply), calls, event.finish, event.input_tokens, event.output_tokens)
            draft = interpret(reply, self._definition, self._checker.check, before)
        except (DevAssistError, ValueError, TypeError) as error:
            yield "decision", event.decision, f"cannot be derived: {error}"
            return
        yield "decision", event.decision, draft.decision
        yield "thought", self._text(event.thought), draft.thought
        yield "answer", self._text(event.answer), draft.answer
        yield "correction", event.correction is not None, bool(draft.correction)
        for name in ("unstructured", "code", "tool", "discarded"):
            yield name, getattr(event, name), getattr(draft, name)
        yield from self._calls(event, draft)

    def _calls(self, event: ModelReplied, draft: Draft) -> Iterator[tuple[str, Any, Any]]:
        yield "calls", len(event.calls), len(draft.calls)
        for index, (call, derived) in enumerate(zip(event.calls, draft.calls, strict=False)):
            yield f"calls/{index}/tool", call.tool, derived.tool
            yield f"calls/{index}/effect", call.effect, derived.effect
            yield f"calls/{index}/args", self._text(call.args), derived.args
            yield f"calls/{index}/native_id", call.native_id, derived.native_id

    def _release(
        self, event: RunFinished, before: RunState, placed: Sequence[Placed]
    ) -> Iterator[tuple[str, Any, Any]]:  # fmt: skip
        reply = before.reply
        if reply is None or reply.answer is None:
            yield "of", event.of, "no final answer"
            return
        for ref in texts_needed(reply, placed):
            self._text(ref)
        try:
            released = released_answer(self._definition, reply, placed, self._texts)
        except (ValueError, TypeError, KeyError) as error:
            yield "answer", self._text(event.answer), f"cannot be derived: {type(error).__name__}: {error}"
            return
        yield "answer", self._text(event.answer), released.text
        yield "output", self._text(event.output), released.output or ""
        yield "verdicts", event.verdicts, released.verdicts
        yield "checks", self._text(event.checks), released.checks or ""
        events = [e for e, _, _ in placed]
        yield "degraded", event.degraded, degradations(before.started, events, reply, released.degraded)

    # ------------------------------------------------------------------------------------------------------------

    def _text(self, ref: str | None) -> str:
        """The text of a reference, "" where an event names none."""
        if ref is None:
            return ""
        text = self._texts.get(ref)
        if text is None:
            raise _Erased
        return text

    def _compare(self, name: str, recorded_value: Any, value: Any) -> None:
        if recorded_value != value:
            self._differ(name, recorded_value, value)

    def _differ(self, name: str, recorded_value: object, value: object) -> None:
        left, right = str(recorded_value), str(value)
        start = max(next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0) - 40, 0)
        self.differences.append(Difference(self._seq, name, _cut(left, start), _cut(right, start)))


def _cut(text: str, start: int) -> str:
    """The part of a long text in which the difference lies."""
    if len(text) <= _SHOWN:
        return text
    end = start + _SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
