"""A run as it reads from outside: status, pending, degraded, usage, error and meta, computed from its events.

``summary`` is the answer object of the API; the stream sends the same parts as they change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from devassist.core import errors
from devassist.core.definition import Definition, Lang, Request
from devassist.core.degraded import MODEL_SWITCHED, PROMPT_SHORTENED, UNSTRUCTURED
from devassist.core.errors import DevAssistError, JournalCorrupt
from devassist.core.events import (
    Event,
    Held,
    ModelReplied,
    ModelSwitched,
    RunAborted,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolIntended,
    WaitBegun,
)
from devassist.core.patience import BREAKER_OPEN
from devassist.core.run_state import CallState, RunState
from devassist.core.states import STATUS, State
from devassist.core.steps import StepBuilder, Turn
from devassist.core.transitions import apply
from devassist.core.wire import Cutter, Text, head_of, parse

_DEGRADED: dict[str, dict[Lang, str]] = {
    MODEL_SWITCHED: {
        "zh": "原定模型不可用，本次答复由备用模型 {model} 生成。",
        "en": "The agent's own model was not available; the fallback model {model} was used.",
    },
    PROMPT_SHORTENED: {
        "zh": "内容超出模型的上下文长度，较早的部分未提供给模型。",
        "en": "The model's context did not hold everything; earlier parts were left out of the prompt.",
    },
    "not_consulted": {
        "zh": "本次运行没有查询依据，答复未经核对。",
        "en": "Nothing was looked up in this run, so the answer rests on no source.",
    },
    "quote_not_verified": {
        "zh": "答复中的引文未能在检索到的条款原文中逐字核对。",
        "en": "A quotation in the answer was not found verbatim in the retrieved clauses.",
    },
    "claims_not_supported": {
        "zh": "答复中有内容未能在检索到的原文中核对。",
        "en": "Not everything in the answer was found in what was retrieved.",
    },
    "sentences_removed": {
        "zh": "答复中没有依据的句子已被略去。",
        "en": "Sentences that nothing retrieved supports were left out of the answer.",
    },
    UNSTRUCTURED: {
        "zh": "模型没有按格式作答，答复原样给出。",
        "en": "The model did not keep to the reply format; its answer is given as it stands.",
    },
}
_WAITING: dict[str, dict[Lang, str]] = {
    "provider_rate_limited": {
        "zh": "模型服务正在限流，到时会自动重试。",
        "en": "The model provider is throttling; the run tries again by itself.",
    },
    BREAKER_OPEN: {
        "zh": "模型服务近来出错或限流，暂不调用，到时会自动重试。",
        "en": "The model provider has failed or throttled of late; the run tries again by itself.",
    },
}
_FAILED: dict[Lang, str] = {
    "zh": "模型服务出错（{code}），到时会自动重试。",
    "en": "The model provider failed ({code}); the run tries again by itself.",
}
"""Why a run waits for its model: true of the moment, and no part of what is said of an answer."""
_TITLES: dict[str, str] = {
    BREAKER_OPEN: "The model provider is left alone for now",
    "cost_limit": "The run's cost limit was reached",
    "deadline_exceeded": "The run's time limit was reached",
    "model_interrupted": "The model call was interrupted too often",
    "outcome_unknown": "The outcome of a call is unknown",
    "step_limit": "The run's step limit was reached",
    "token_limit": "The run's token limit was reached",
} | {c.code: c.title for c in vars(errors).values() if isinstance(c, type) and issubclass(c, DevAssistError)}

_DETAIL_BYTES = 16_000
_PENDING_KEYS = ("step_index", "call_index", "tool_name", "tool_args", "digest", "since_ms", "wake_at_ms")
_WAITS = {"backoff": "timer", "breaker": "timer", "child": "child"}


def cost_text(micro: int) -> str | None:
    """Money micro-units as a decimal string; None where no price is known (negative)."""
    if micro < 0:
        return None
    whole, rest = divmod(micro, 1_000_000)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")


class RunView:
    """Folds a run's events and answers what the outside asks about it. ``driven``: a run in INIT has its turn."""

    def __init__(self, text: Text, *, trace_id: str, driven: bool) -> None:
        self._text = text
        self._trace_id = trace_id
        self._driven = driven
        self._held_at: dict[int, int] = {}
        self._args: dict[int, str] = {}
        self._wait = ("", 0)
        self._cause = ""
        self._began = 0
        self._model: str | None = None  # the fallback in use, or that gave a reply
        self._replied: str | None = None
        self._definition: Definition | None = None
        self.state: RunState | None = None
        self.end: RunFinished | RunFailed | RunAborted | None = None

    def feed(self, event: Event, seq: int, at: int) -> RunState:
        """Fold one event. Raises IllegalTransition and changes nothing."""
        state = self.state = apply(self.state, event, seq, at)
        match event:
            case RunStarted():
                self._began = at
            case RunFinished() | RunFailed() | RunAborted():
                self.end = event
            case Held():
                self._held_at[event.call] = at
            case ToolIntended():
                self._args[event.call] = event.args
            case WaitBegun():
                self._wait = (_WAITS[event.reason], at)
                failure = state.last_failure
                self._cause = BREAKER_OPEN if event.reason == "breaker" else failure.code if failure else ""
            case ModelReplied():
                self._replied = self._model
            case ModelSwitched():
                self._model = event.model if event.choice else self._replied
            case _:
                pass
        if not state.calls:
            self._args.clear()
        return state

    @property
    def started(self) -> RunStarted:
        return self._folded.started

    @property
    def _folded(self) -> RunState:
        if self.state is None:
            raise JournalCorrupt("a run without INIT")
        return self.state

    @property
    def status(self) -> str:
        state = self._folded.state
        answered = state is State.AWAIT_APPROVAL and not self._holds()
        return "running" if answered or (state is State.INIT and self._driven) else STATUS[state]

    def fingerprint(self) -> tuple[Any, ...]:
        """Equal as long as status, pending and degraded are; reads no text."""
        holds = tuple((i, c.phase, c.digest, c.attempts) for i, c in self._holds())
        wait = self._folded.wait_until if self._folded.state is State.WAIT else -1
        return self.status, holds, wait, self._degraded_codes()

    def _holds(self) -> list[tuple[int, CallState]]:
        """Calls that wait for a person; one whose answer is recorded does not wait any more."""
        if self._folded.state is not State.AWAIT_APPROVAL:
            return []
        return [(i, c) for i, c in enumerate(self._folded.calls) if c.digest and c.answer is None and c.phase != "done"]

    def pending(self, cut: Cutter, *, leave_out: bool = False) -> list[dict[str, Any]]:
        """What the run waits for."""
        state = self._folded
        if self.status == "waiting" and state.state is State.INIT:
            return [_pending("turn", since_ms=self._began // 1000)]
        if state.state is State.WAIT:
            kind, since = self._wait
            return [
                _pending(kind, step_index=state.step, since_ms=since // 1000, wake_at_ms=state.wait_until // 1000)
            ]  # fmt: skip
        found: list[dict[str, Any]] = []
        for index, call in self._holds():
            ref = self._args.get(index, call.call.args)
            path = f"/pending/{len(found)}/tool_args"
            args = cut.json(self._text(ref), path, ref, leave_out=leave_out)
            kind = "settlement" if call.phase == "doubt" else "approval"
            found.append(
                _pending(
                    kind, step_index=state.step, call_index=index, tool_name=call.call.tool, tool_args=args,
                    digest=call.digest, since_ms=self._held_at.get(index, state.at) // 1000,
                )
            )  # fmt: skip
        return found

    def _degraded_codes(self) -> tuple[str, ...]:
        codes = [] if self._model is None else [MODEL_SWITCHED]
        if self._cause and self._folded.state is State.WAIT:
            codes.append(self._cause)
        if isinstance(self.end, RunFinished):
            reply = self._folded.reply
            codes += [UNSTRUCTURED] if reply is not None and reply.unstructured else []
            codes += self.end.degraded
        return tuple(dict.fromkeys(codes))

    def degraded(self) -> list[dict[str, str]]:
        """What was done less well than asked, for people."""
        lang = self._lang()
        return [{"code": code, "detail": self._said(code, lang)} for code in self._degraded_codes()]

    def _said(self, code: str, lang: Lang) -> str:
        if code in _DEGRADED:
            return _DEGRADED[code][lang].replace("{model}", self._model or "")
        if code == self._cause and not self._folded.closed:
            return _WAITING.get(code, _FAILED)[lang].replace("{code}", code)
        return code.replace("_", " ")

    def usage(self) -> dict[str, Any]:
        state = self._folded
        return {
            "input_tokens": state.input_tokens,
            "output_tokens": state.output_tokens,
            "model_calls": state.attempts,
            "tool_calls": state.tool_calls,
            "cost": cost_text(state.cost),
        }

    def answer(self) -> str | None:
        """The released text, None where there is none (or it was erased)."""
        return self._text(self.end.answer) if isinstance(self.end, RunFinished) else None

    def problem(self) -> dict[str, Any] | None:
        """The problem object of a failed run."""
        end = self.end
        if not isinstance(end, RunFailed):
            return None
        title = _TITLES.get(end.code, "The run failed")
        return {
            "type": f"urn:devassist:error:{end.code}",
            "title": title,
            "status": end.status,
            "detail": head_of(self._text(end.message) or title, _DETAIL_BYTES),
            "instance": f"/runs/{self._trace_id}",
            "code": end.code,
            "trace_id": self._trace_id,
        }

    def _lang(self) -> Lang:
        definition = self.definition()
        return definition.lang if definition else "zh"

    def definition(self) -> Definition | None:
        """The resolved definition, None where its text cannot be had."""
        if self._definition is None and (text := self._text(self.started.definition)) is not None:
            self._definition = Definition.from_json(text)
        return self._definition

    def meta(self) -> dict[str, Any]:
        """What a client is told first. Fields whose text was erased are null; ``agent`` and ``rag`` never are."""
        started, definition = self.started, self.definition()
        text = self._text(started.request)
        request = Request.from_json(text) if text is not None else None
        return {
            "agent": request.route == "agent" if request else definition is not None and bool(definition.tools),
            "rag": bool(request and (request.rag or request.route == "rag")),
            "trace_id": self._trace_id,
            "conversation_id": started.conversation,
            "route": request.route if request else None,
            "route_reason": request.route_reason if request else None,
            "agent_name": started.agent,
            "model": definition.model if definition else None,
            "model_kind": definition.model_kind if definition else None,
            "prompt_version": definition.prompt_version if definition else None,
            "release": started.release,
        }


def _pending(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind} | {key: fields.get(key) for key in _PENDING_KEYS}


def summary(
    events: Iterable[tuple[Event, int, int]], text: Text, *, trace_id: str, admin: bool = False, driven: bool = False,
    first: int = 0, most: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The answer object of the run whose (event, seq, at) triples these are, from INIT on; nothing in ``answer`` and
    ``output`` is cut. ``driven``: whether a run still in INIT has its turn. Of its steps, at most ``most`` from number
    ``first`` on. Raises IllegalTransition."""
    view, builder, turns = RunView(text, trace_id=trace_id, driven=driven), StepBuilder(text, admin=admin), list[Turn]()
    for event, seq, at in events:
        turns += builder.turns(event, at, view.feed(event, seq, at))
    shown = turns[first:] if most is None else turns[first : first + most]
    output = view.end.output if isinstance(view.end, RunFinished) else None
    return {
        "trace_id": trace_id,
        "conversation_id": view.started.conversation,
        "status": view.status,
        "answer": view.answer(),
        "output": parse(text(output)) if output else None,
        "steps": [builder.render(turn) for turn in shown],
        "usage": view.usage(),
        "error": view.problem(),
        "pending": view.pending(Cutter()),
        "degraded": view.degraded(),
        "meta": view.meta(),
    }
