"""Runs written by hand: a ``Script`` appends events with their texts, in order; each is legal where it stands."""

from __future__ import annotations

import json
from typing import Any

from devassist.core.definition import Definition, Request
from devassist.core.event_parts import DecidedCall, Limits
from devassist.core.events import (
    CallClosed,
    Event,
    Held,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
)
from devassist.core.run_state import RunState
from devassist.core.tooling import Effect, ToolSpec
from devassist.core.transitions import apply

TRACE = "0192f0c1a2b37c4d8e5f60718293a4b5"
T0 = 1_700_000_000_000_000
"""When every script begins, in microseconds."""
Wanted = tuple[str, dict[str, Any], Effect]


class Script:
    """One run. Methods named after what happens append the event and return its seq; each takes 10 ms."""

    def __init__(self, message: str = "hello", **changes: Any) -> None:
        self.placed: list[tuple[Event, int, int]] = []
        self.texts: dict[str, str] = {}
        self.erased: set[str] = set()
        self.state: RunState | None = None
        self._at = T0
        definition = Definition(
            agent="dev", system="You help.", prompt_version="v1", lang="en", model="m-1", model_kind="scripted",
            limits=Limits(), tools=(ToolSpec("search_docs", "Searches.", {}),),
            release=changes.get("release", "live"),
        )  # fmt: skip
        request = Request(user="local", route="agent", route_reason="asked for")
        first = RunStarted(
            tenant="default", domain="00" * 16, actor="00" * 16, agent="dev", definition=self.put(definition.to_json()),
            request=self.put(request.to_json()), message=self.put(message), conversation="c1", limits=Limits(),
        )  # fmt: skip
        self.add(_replaced(first, changes))

    @property
    def events(self) -> list[Event]:
        return [event for event, _, _ in self.placed]

    def put(self, text: str) -> str:
        ref = f"ref{len(self.texts)}"
        self.texts[ref] = text
        return ref

    def json(self, value: Any) -> str:
        return self.put(json.dumps(value, ensure_ascii=False))

    def text(self, ref: str) -> str | None:
        """As a journal would: None once erased."""
        return None if ref in self.erased else self.texts[ref]

    def add(self, event: Event, *, ms: int = 10) -> int:
        seq = len(self.placed)
        self._at += ms * 1000 if seq else 0
        self.state = apply(self.state, event, seq, self._at)
        self.placed.append((event, seq, self._at))
        return seq

    @property
    def now(self) -> RunState:
        assert self.state is not None
        return self.state

    def think(self, *, epoch: int = 1) -> int:
        state = self.now
        step = state.step + (state.reply is not None or state.step < 0)
        return self.add(ModelIntended(step, state.attempts + 1, "m-1", "scripted", epoch, (), 100))

    def calls(self, *wanted: Wanted, thought: str = "Let me look.", raw: str | None = None, **fields: Any) -> int:
        decided = tuple(DecidedCall(tool, effect, self.json(args)) for tool, args, effect in wanted)
        written = raw or "\n".join(f"Action: {tool}\nArgs: {json.dumps(args)}" for tool, args, _ in wanted)
        reply = ModelReplied(
            self.now.open_model, self.put(written), "calls", 7_000, thought=self.put(thought), calls=decided,
            input_tokens=10, output_tokens=5,
        )  # fmt: skip
        return self.add(_replaced(reply, fields))

    def final(self, answer: str, *, raw: str | None = None, thought: str | None = None, **fields: Any) -> int:
        reply = ModelReplied(
            self.now.open_model, self.put(raw or f"Action: final: {answer}"), "final", 7_000, answer=self.put(answer),
            thought=self.put(thought) if thought else None, input_tokens=10, output_tokens=5,
        )  # fmt: skip
        return self.add(_replaced(reply, fields))

    def fault(self, code: str, correction: str, *, raw: str = "???", tool: str | None = None) -> int:
        return self.add(
            ModelReplied(
                self.now.open_model,
                self.put(raw),
                "fault",
                7_000,
                code=code,
                correction=self.put(correction),
                tool=tool,
            )
        )

    def model_failed(self, code: str = "provider_error", status: int = 502) -> int:
        return self.add(ModelFailed(self.now.open_model, code, status, True, 3_000))

    def attempt(self, call: int = 0, *, args: Any = None, epoch: int = 1) -> int:
        state = self.now
        c = state.calls[call]
        ref = c.call.args if args is None else self.json(args)
        return self.add(
            ToolIntended(
                state.reply_seq, call, state.step, c.attempts + 1, c.call.tool, c.call.effect, ref, T0 * 2, epoch
            )
        )

    def returned(self, call: int = 0, value: Any = None, *, ms: int = 10, **fields: Any) -> int:
        shown = json.dumps(value, ensure_ascii=False)
        event = ToolReturned(self.now.calls[call].intent, "result", ms * 1000, self.json(value), self.put(shown))
        return self.add(_replaced(event, fields), ms=ms)

    def unknown(self, call: int = 0) -> int:
        return self.returned(call, outcome="unknown", result=None, shown=None, code="interrupted")

    def close(self, call: int, closing: Any, code: str, *, result: Any = None) -> int:
        ref = None if result is None else self.json(result)
        return self.add(CallClosed(self.now.reply_seq, call, closing, ref or self.put(f"{closing}."), ref, code))

    def held(self, call: int = 0, reason: Any = "settlement", digest: str = "d0") -> int:
        return self.add(Held(reason, self.now.reply_seq, call, digest))

    def finish(self, answer: str | None = None, *, output: Any = None, **fields: Any) -> int:
        reply = self.now.reply
        assert reply is not None and reply.answer is not None  # noqa: PT018
        released = reply.answer if answer is None else self.put(answer)
        event = RunFinished(self.now.reply_seq, released, None if output is None else self.json(output))
        return self.add(_replaced(event, fields))


def _replaced(event: Any, fields: dict[str, Any]) -> Any:
    return type(event)(**{name: getattr(event, name) for name in event.__slots__} | fields)
