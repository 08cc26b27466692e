"""What a watcher of a run sees: the messages of the event stream, made from journal events and token deltas.

One Watcher is one connection. Fed the same events it gives the same messages, whether they happen now or happened a
year ago. The id of a message is the seq of its event and stands on the last message made from that event only.

Every message is one JSON object with a ``type``; the fields of a step and of a problem stand beside it (so in ``error``
the ``type`` is the message's own; the problem's is ``urn:devassist:error:`` and its ``code``). ``answer.text`` and
``done.answer`` are whole up to 60,000 bytes of JSON, while their joined deltas always are: a longer text is cut in
both, named in ``truncated`` (which these two and ``status`` have only then), and whole in the deltas and the payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devassist.core.deltas import Heard
from devassist.core.events import Event, ModelFailed, RunAborted, RunFailed, RunFinished, RunStarted, ToolIntended
from devassist.core.run_state import RunState
from devassist.core.steps import StepBuilder
from devassist.core.view import RunView
from devassist.core.wire import Cutter, Text, fit, head_of, to_json

Message = dict[str, Any]

_ANSWER_BYTES = 60_000


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of the stream; ``id`` is the journal position that it completes, if any."""

    data: Message
    id: int | None = None

    def encode(self) -> bytes:
        """As server-sent event: one ``data`` line, whatever its texts hold."""
        head = "" if self.id is None else f"id: {self.id}\n"
        return f"{head}data: {to_json(self.data)}\n\n".encode()


RESYNC = Frame({"type": "resync"})
"""Goes before a full replay to a client whose position is not known."""


class Watcher:
    """Events and deltas in, messages out.

    ``text`` gives the text of a reference that an event named; ``admin`` sees what a gated run did not release.
    ``after`` is the position that the client has: what it completes is folded and not sent again. ``driven``: whether
    a run in INIT has its turn; otherwise the client is told that it waits.
    """

    def __init__(
        self, *, trace_id: str, text: Text, admin: bool = False, after: int = -1, driven: bool = True
    ) -> None:  # fmt: skip
        self._text = text
        self._after = after
        self._view = RunView(text, trace_id=trace_id, driven=driven)
        self._steps = StepBuilder(text, admin=admin)
        self._heard = Heard()
        self._void = 0  # the newest attempt that failed: what came of its text counts no more
        self._told: tuple[Any, ...] = ()

    @property
    def state(self) -> RunState | None:
        """The run's state after the events fed so far."""
        return self._view.state

    @property
    def attempt(self) -> int:
        """The run's newest model attempt; 0 before the first."""
        return self._view.state.attempts if self._view.state else 0

    @property
    def ended(self) -> bool:
        return self._view.end is not None

    def feed(self, event: Event, seq: int, at: int) -> list[Frame]:
        """The messages of one event, which must follow the one fed before. Raises IllegalTransition."""
        state = self._view.feed(event, seq, at)
        turns = self._steps.turns(event, at, state)
        now, known = self._view.fingerprint(), seq <= self._after
        changed, self._told = now != self._told, now
        if isinstance(event, ModelFailed):
            self._void = state.attempts
        if known:
            if isinstance(event, RunStarted):
                self._told = ()  # the client may have been told that the run waits for its turn
            return []
        void = self._heard.reset(state.attempts) if isinstance(event, ModelFailed) else []
        messages = self._begun(event) if isinstance(event, RunStarted) else self._moved(event, at, state, changed)
        text = self._view.answer() if isinstance(event, RunFinished) else None
        messages += [] if text is None else self._heard.settle(state.attempts, text)
        messages += [{"type": "step"} | self._steps.render(turn) for turn in turns]
        messages += self._end(event, text)
        return _frames(void) + [Frame(m, seq if i == len(messages) else None) for i, m in enumerate(messages, 1)]

    def partial(self, attempt: int, text: str) -> list[Frame]:
        """What the performing process has of a reply so far; empty where nothing is known. Call it once, after the
        replay and before any delta; later calls send what the connection lacks."""
        if self._deaf:
            return []
        return _frames(self._heard.partial(attempt, "" if self._gated or attempt <= self._void else text))

    def delta(self, attempt: int, offset: int, content: str) -> list[Frame]:
        """A piece of the reply of ``attempt``; repeated, overlapping and early pieces do no harm."""
        if self._deaf or self._gated or attempt <= self._void:
            return []
        return _frames(self._heard.delta(attempt, offset, content))

    def reset(self, attempt: int) -> list[Frame]:
        """What was sent of ``attempt`` counts no more."""
        return [] if self._deaf or self._gated else _frames(self._heard.reset(attempt))

    @property
    def _deaf(self) -> bool:
        return self._view.state is None or self.ended

    @property
    def _gated(self) -> bool:
        """Nothing of a gated run is shown before its verdict."""
        return self._view.started.release == "gated"

    def _begun(self, event: RunStarted) -> list[Message]:
        meta: Message = {"type": "meta"} | self._view.meta()
        return [meta] if self._view.status == "running" else [meta, self._status()]

    def _moved(self, event: Event, at: int, state: RunState, changed: bool) -> list[Message]:
        messages = [self._status()] if changed and not state.closed else []
        if isinstance(event, ToolIntended) and event.attempt == 1:
            messages.append(self._step_started(event, at, state))
        return messages

    def _status(self) -> Message:
        def build(cut: Cutter, left_out: int) -> Message:
            pending = self._view.pending(cut, leave_out=left_out > 0)
            message = {"type": "status", "status": self._view.status, "pending": pending}
            return _named(message | {"degraded": self._view.degraded()}, cut)

        return fit(build)

    def _step_started(self, event: ToolIntended, at: int, state: RunState) -> Message:
        thought = state.reply.thought if state.reply else None
        said, args = self._text(thought) if thought else None, self._text(event.args)

        def build(cut: Cutter, left_out: int) -> Message:
            return {
                "type": "step_started",
                "step_index": event.step,
                "call_index": event.call,
                "thought": cut.text(said, "/thought", thought),
                "tool_name": event.tool,
                "tool_args": cut.json(args, "/tool_args", event.args, leave_out=left_out > 0),
                "started_at_ms": at // 1000,
                "truncated": cut.cuts,
            }

        return fit(build)

    def _end(self, event: Event, text: str | None) -> list[Message]:
        match event:
            case RunFinished():
                return self._answer(event, text)
            case RunAborted():
                return [self._done(None, None, None)]
            case RunFailed():
                return [(self._view.problem() or {}) | {"type": "error"}]
            case _:
                return []

    def _answer(self, event: RunFinished, text: str | None) -> list[Message]:
        """The settled answer and the end."""
        output = self._text(event.output) if event.output else None

        def build(cut: Cutter, left_out: int) -> Message:
            message = {
                "type": "answer",
                "text": self._whole(text, event.answer, "/text", cut),
                "output": cut.json(output, "/output", event.output, leave_out=left_out > 0),
                "ref": event.answer,
                "verdicts": list(event.verdicts),
            }
            return _named(message, cut)

        return [fit(build), self._done(text, output, event)]

    def _done(self, text: str | None, output: str | None, event: RunFinished | None) -> Message:
        def build(cut: Cutter, left_out: int) -> Message:
            message = {
                "type": "done",
                "status": self._view.status,
                "answer": self._whole(text, event.answer, "/answer", cut) if event else None,
                "output": cut.json(output, "/output", event.output, leave_out=left_out > 0) if event else None,
                "usage": self._view.usage(),
                "degraded": self._view.degraded(),
            }
            return _named(message, cut)

        return fit(build)

    @staticmethod
    def _whole(text: str | None, ref: str, path: str, cut: Cutter) -> str | None:
        if text is None:
            return None
        shown = head_of(text, _ANSWER_BYTES)
        if len(shown) < len(text):
            cut.note(path, ref, len(text))
        return shown


def _named(message: Message, cut: Cutter) -> Message:
    return message | {"truncated": cut.cuts} if cut.cuts else message


def _frames(messages: list[Message]) -> list[Frame]:
    return [Frame(m) for m in messages]
