"""What a run asks of people, and what they said: approvals, and calls in doubt, as its events have them.

A doubt that was told to the model, or that was still open when the run ended, is a question too: nothing waits for its
answer, and the tool is held up until there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from devassist.core.errors import ApprovalNotFound, DoubtNotFound, InvalidRequest, JournalCorrupt, NotWaiting
from devassist.core.event_parts import Ref
from devassist.core.events import Event, Held
from devassist.core.holds import doubt_digest
from devassist.core.run_state import RunState
from devassist.core.signals import ApprovalGiven, RunRestored, SettlementGiven
from devassist.core.states import State
from devassist.core.transitions import apply

Kind = Literal["approval", "settlement"]


class Question(NamedTuple):
    """One question about call ``call`` of step ``step``; ``intent`` is the seq of the attempt that is in doubt.

    ``open``: an answer to ``digest`` still counts. ``told``: nothing waits for it. ``answer`` stands at ``answered``.
    """

    kind: Kind
    digest: str
    step: int
    call: int
    tool: str
    args: Ref
    intent: int
    at: int
    open: bool = False
    told: bool = False
    answer: ApprovalGiven | SettlementGiven | None = None
    answered: int = -1


class Questions(NamedTuple):
    """Every question of a run in the order of asking. ``restores`` counts how often the journal was put back to an
    earlier state while the run was open: answers given before that are void."""

    all: tuple[Question, ...]
    state: RunState
    restores: int = 0

    @property
    def waiting(self) -> tuple[Question, ...]:
        """Those that the run waits for."""
        return tuple(q for q in self.all if q.open and not q.told)

    @property
    def doubts(self) -> tuple[Question, ...]:
        """Those that it went on from, or ended with, and that nobody has settled."""
        return tuple(q for q in self.all if q.open and q.told)

    def approval(self, digest: str) -> Question:
        """Raises ApprovalNotFound, and NotWaiting where the digest is that of a doubt."""
        asked = next((q for q in reversed(self.all) if q.digest == digest), None)
        if asked is None:
            those = ", ".join(q.digest for q in self.waiting if q.kind == "approval")
            now = f"it waits for one of {those}" if those else "it waits for none now"
            raise ApprovalNotFound(f"the run never asked for an approval of this digest; {now}")
        if asked.kind != "approval":
            raise NotWaiting("under this digest the run asks what became of a call: settle its step instead")
        return asked

    def doubt(self, step: int, call: int | None = None, digest: str | None = None) -> Question:
        """The newest question about the one call that is meant. Raises DoubtNotFound, and InvalidRequest where it could
        be several."""
        doubts = [q for q in self.all if q.kind == "settlement"]
        meant = {
            q.call: q for q in doubts if q.step == step and call in (None, q.call) and digest in (None, q.digest)
        }  # fmt: skip
        if not meant:
            those = ", ".join(f"step {q.step} call {q.call}" for q in doubts if q.open) or "none now"
            raise DoubtNotFound(f"no such call of step {step} was ever in doubt; open doubts of the run: {those}")
        candidates = [q for q in meant.values() if q.open] or list(meant.values())
        if len(candidates) > 1:
            those = ", ".join(f"{q.call} ({q.tool})" for q in candidates)
            errors = (("/call_index", f"one of {those}"),)
            raise InvalidRequest(f"several calls of step {step} could be meant: {those}", errors=errors)
        return candidates[0]

    def signal_id(self, kind: Kind, digest: str) -> str:
        """One answer to a question; another once the journal was put back to an earlier state, which voids it."""
        return f"{kind}:{digest}" + (f":{self.restores}" if self.restores else "")

    def settled(self, said: Iterable[tuple[int, SettlementGiven, int]]) -> Questions:
        """With what was said after the end of doubts, by their attempts; the first word counts."""
        answers: dict[int, tuple[SettlementGiven, int]] = {}
        for intent, answer, at in said:
            answers.setdefault(intent, (answer, at))
        found: list[Question] = []
        for q in self.all:
            if q.open and q.told and q.intent in answers:
                answer, at = answers[q.intent]
                q = q._replace(open=False, answer=answer, answered=at)
            found.append(q)
        return self._replace(all=tuple(found))


def questions(placed: Sequence[tuple[Event, int, int]]) -> Questions:
    """Read a run's (event, seq, at) triples from INIT on. Raises IllegalTransition, and JournalCorrupt without INIT."""
    state: RunState | None = None
    reader = _Reader()
    for event, seq, at in placed:
        before, state = state, apply(state, event, seq, at)
        if before is not None:
            reader.feed(before, event, state, at)
    if state is None:
        raise JournalCorrupt("a run without INIT")
    return reader.done(state)


class _Reader:
    """Questions by what they are about: an approval by its digest, a doubt by its attempt."""

    def __init__(self) -> None:
        self._found: dict[str | int, Question] = {}
        self._restores = 0

    def feed(self, before: RunState, event: Event, state: RunState, at: int) -> None:
        for _, intent in state.doubts:
            if intent not in self._found:
                self._doubt(state, intent, at)
        match event:
            case Held():
                self._held(event, state, at)
            case ApprovalGiven() | SettlementGiven():
                self._answered(before, event, state, at)
            case RunRestored():
                self._restores += 1
                waiting = _open_holds(state)
                for key, q in self._found.items():
                    if q.digest in waiting:
                        self._found[key] = q._replace(answer=None, answered=-1)
            case _:
                pass

    def _doubt(self, state: RunState, intent: int, at: int) -> None:
        index = next((i for i, c in enumerate(state.calls) if c.intent == intent), -1)
        if index >= 0:
            call = state.calls[index].call
            self._found[intent] = Question(
                "settlement", doubt_digest(state.started, intent), state.step, index, call.tool, call.args, intent, at
            )  # fmt: skip

    def _held(self, event: Held, state: RunState, at: int) -> None:
        c = state.calls[event.call]
        key = c.intent if event.reason == "settlement" else event.digest
        self._found[key] = Question(
            event.reason, event.digest, state.step, event.call, c.call.tool, c.call.args, c.intent, at
        )  # fmt: skip

    def _answered(self, before: RunState, event: ApprovalGiven | SettlementGiven, state: RunState, at: int) -> None:
        """Only what the run took for an answer is one."""
        taken = event.digest in _open_holds(before)
        for key, q in self._found.items():
            told = (q.tool, q.intent) in before.doubts and (q.tool, q.intent) not in state.doubts
            mine = q.digest == event.digest if taken else told and event.digest == doubt_digest(state.started, q.intent)
            if mine:
                self._found[key] = q._replace(answer=event, answered=at)
                return

    def done(self, state: RunState) -> Questions:
        waiting = _open_holds(state)
        found: list[Question] = []
        for q in self._found.values():
            if q.digest in waiting:
                q = q._replace(open=q.answer is None)
            elif q.kind == "settlement" and q.answer is None and (q.tool, q.intent) in state.doubts:
                q = q._replace(open=True, told=True, digest=doubt_digest(state.started, q.intent))
            found.append(q)
        return Questions(tuple(found), state, self._restores)


def _open_holds(state: RunState) -> frozenset[str]:
    """The digests that an answer binds to now."""
    if state.state is not State.AWAIT_APPROVAL:
        return frozenset()
    return frozenset(c.digest for c in state.calls if c.digest and c.phase != "done" and c.answer is None)
