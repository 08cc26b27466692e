"""Performing effects: one function per command kind that turns what came of it into a fact."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from devassist.core.answer import AnswerCleaner
from devassist.core.chain import call_id
from devassist.core.codec import cut_middle, json_text, sound
from devassist.core.errors import CallerError, ProviderError, ServiceFault, TooLarge
from devassist.core.event_parts import DecidedCall, Outcome
from devassist.core.events import ModelFailed, ModelReplied, ToolIntended, ToolReturned
from devassist.core.interpret import Check, Draft, interpret
from devassist.core.messages import ModelReply, NativeCall, with_safe_ids
from devassist.core.prompt import Prompt, native_json
from devassist.core.release import ReleaseFilter
from devassist.core.retrieved import number_hits
from devassist.core.tooling import ToolFailure, ToolNeedsApproval, ToolOutcome, ToolResult, ToolRetry
from devassist.ports.bus import Bus
from devassist.ports.clock import Clock
from devassist.ports.model import Model, ModelRequest
from devassist.ports.tools import CallContext, ToolBox
from devassist.runtime.run import ActiveRun

_WORD = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
SHOWN_LIMIT = 20_000
"""Characters of a result that a model is shown; the whole result is stored."""

Cost = Callable[[str, int, int], int | None]
"""(model, input tokens, output tokens) -> micro-units, None when no price is known."""


@dataclass(frozen=True, slots=True)
class Performer:
    """The outside world of a driver."""

    tools: ToolBox
    check: Check
    bus: Bus
    clock: Clock
    cost: Cost

    async def model(self, run: ActiveRun, model: Model, prompt: Prompt) -> None:
        """One model attempt; its reply, or that there was none, becomes a fact of ``run``."""
        started = self.clock.now_us()
        of = run.state.open_model
        try:
            async with asyncio.timeout(_seconds_left(run)):
                reply = await model.complete(run.scope, self._request(run, prompt), self._stream(run))
        except ProviderError as error:
            run.fact(self._failed(run, of, error, started))
            return
        except TimeoutError:
            took = self.clock.now_us() - started
            run.fact(ModelFailed(of, "deadline_exceeded", 504, retryable=False, took=took))
            return
        finally:
            self.bus.end(run.stream)
        reply = _storable(reply)
        draft = interpret(reply, run.definition, self.check, run.state)
        run.fact(self._replied(run, of, reply, draft, self.clock.now_us() - started))

    def _request(self, run: ActiveRun, prompt: Prompt) -> ModelRequest:
        d, state = run.definition, run.state
        native = d.protocol == "tools"
        limit = d.max_reply_tokens or None
        last = _last_reply(run)
        if last is not None and last.code == "reply_truncated":
            # The bound that cut this reply, given or the provider's own, would cut it again.
            limit = 2 * max(limit or 0, last.output_tokens) or None
        return ModelRequest(
            messages=prompt.messages,
            tools=tuple(_openai_tool(t.name, t.description, t.parameters) for t in d.tools) if native else (),
            tool_names=tuple(t.name for t in d.tools),
            max_tokens=limit,
            trace_id=run.stream.hex(),
            attempt=state.attempts,
            agent=d.agent,
            lang=d.lang,
        )

    def _stream(self, run: ActiveRun) -> Callable[[str], None] | None:
        """Deltas flow only where the agent releases live, its protocol shows what is answer, and somebody watches."""
        d = run.definition
        plain = d.protocol == "tools" and not d.tools
        if d.release != "live" or not (plain or d.protocol == "text") or not self.bus.watched(run.stream):
            return None
        self.bus.begin(run.stream, run.state.attempts)
        keep = AnswerCleaner(protocol=False) if plain else ReleaseFilter()
        return lambda chunk: self.bus.add(run.stream, keep.feed(chunk))

    def _failed(self, run: ActiveRun, of: int, error: ProviderError, started: int) -> ModelFailed:
        return ModelFailed(
            of, error.code, error.status, error.retryable, self.clock.now_us() - started,
            message=run.seal(error.detail), retry_after=(error.retry_after_ms or 0) * 1000,
            input_tokens=error.input_tokens, output_tokens=error.output_tokens,
            cost=self._cost(run.state.model, error.input_tokens, error.output_tokens),
        )  # fmt: skip

    def _cost(self, model: str, input_tokens: int, output_tokens: int) -> int:
        cost = self.cost(model, input_tokens, output_tokens)
        return -1 if cost is None else cost

    def _replied(self, run: ActiveRun, of: int, reply: ModelReply, draft: Draft, took: int) -> ModelReplied:
        def sealed(text: str) -> str | None:
            return run.seal(text) if text else None

        return ModelReplied(
            of=of, reply=run.seal(reply.text), decision=draft.decision, took=took, finish=reply.finish_reason,
            input_tokens=reply.input_tokens, output_tokens=reply.output_tokens,
            cost=self._cost(run.state.model, reply.input_tokens, reply.output_tokens),
            native=run.seal(native_json(reply.calls)) if reply.calls else None,
            reasoning=sealed(reply.reasoning), thought=sealed(draft.thought),
            calls=tuple(DecidedCall(c.tool, c.effect, run.seal(c.args), c.native_id) for c in draft.calls),
            answer=run.seal(draft.answer) if draft.decision == "final" else None, unstructured=draft.unstructured,
            code=draft.code, tool=draft.tool, correction=sealed(draft.correction), discarded=draft.discarded,
        )  # fmt: skip

    async def tool(self, run: ActiveRun, of: int, intent: ToolIntended, not_after: int) -> ToolReturned:
        """One attempt of a call, which is not begun at or after ``not_after`` (CLOCK_BOOTTIME, which a sleeping host
        cannot stop): from then on a successor may repeat it."""
        started = self.clock.now_us()
        approved = run.state.calls[intent.call].approved
        context = CallContext(
            run.stream.hex(), call_id(run.stream, intent.decision, intent.call), run.epoch, intent.attempt,
            run.request.as_of, approved, known_at=run.request.known_at_us, collection=run.request.collection,
        )  # fmt: skip
        args: dict[str, Any] = json.loads(run.texts[intent.args])
        spec = run.definition.spec(intent.tool)
        if spec is not None and spec.needs_approval and not approved:
            return _returned(run, of, ToolNeedsApproval("this tool needs a person's approval"), 0)
        if self.clock.boottime_us() >= not_after:
            said = f"{intent.tool} was not run: its time was over before it began."
            late = ToolFailure("tool_not_started", said, 503)
            return _returned(run, of, late, 0)
        try:
            outcome = await self.tools.call(run.caller, intent.tool, args, context)
        except CallerError as error:
            # The registry refused: the tool is gone, or its schema changed since the run began.
            outcome = ToolFailure(error.code, error.detail, error.status)
        except ServiceFault as error:
            if intent.effect == "once":
                # The effect may have happened before the fault: that is a doubt, not a failure.
                return ToolReturned(of, "unknown", self.clock.now_us() - started, code=error.code)
            return ToolReturned(of, "fault", self.clock.now_us() - started, code=error.code, status=error.status)
        took = self.clock.now_us() - started
        try:
            return _returned(run, of, outcome, took)
        except TooLarge as error:
            return _returned(run, of, ToolFailure("tool_result_too_large", error.detail, error.status), took)


def _returned(run: ActiveRun, of: int, outcome: ToolOutcome, took: int) -> ToolReturned:
    kind: Outcome = "unknown"
    code, status = "outcome_unknown", 0
    match outcome:
        case ToolResult(value, text, retrieval):
            whole = json_text(value)
            result, record = run.seal(whole), None
            if retrieval is not None:
                kept, led = number_hits(retrieval, value, run.numbers)
                record = run.seal(json_text(kept))
                if text is None and run.definition.citations == "numbered":
                    text = json_text(led)
            shown = whole if text is None else text
            return ToolReturned(of, "result", took, result, result if shown == whole and len(whole) <= SHOWN_LIMIT
                                else run.seal(cut_middle(shown, SHOWN_LIMIT)), retrieval=record)  # fmt: skip
        case ToolRetry(message):
            kind, code, status, shown = "retry", "tool_retry", 400, message
        case ToolFailure(code, message, status):
            kind, shown = "failed", message
        case ToolNeedsApproval(reason):
            kind, code, shown = "needs_approval", "needs_approval", reason
        case _:
            shown = outcome.reason
    return ToolReturned(of, kind, took, None, run.seal(shown), code, status)


def _storable(reply: ModelReply) -> ModelReply:
    """What is acted on is what is stored: no half characters, and where a body will hold the provider's word
    (finish reason, call ids) a word, not a text."""
    finish, text, reasoning = reply.finish_reason, sound(reply.text), sound(reply.reasoning)
    if finish is not None and not _WORD.fullmatch(finish):
        finish = "other"
    if text is reply.text and reasoning is reply.reasoning and finish is reply.finish_reason and not reply.calls:
        return reply
    calls = tuple(NativeCall(sound(c.id), sound(c.name), sound(c.arguments)) for c in reply.calls)
    return replace(reply, text=text, reasoning=reasoning, calls=with_safe_ids(calls), finish_reason=finish)


def _seconds_left(run: ActiveRun) -> float:
    return max(run.state.started.limits.deadline_ms / 1000 - run.state.driven / 1_000_000, 0.001)


def _last_reply(run: ActiveRun) -> ModelReplied | None:
    return next((e for e, _, _ in reversed(run.placed) if isinstance(e, ModelReplied)), None)


def _openai_tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
