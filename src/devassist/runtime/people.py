"""What people say to runs: whether a call may be made, and what became of one whose outcome is unknown.

The answer is a signal in the run's own stream, with who gave it; where the run has ended, a fact in its notes. It binds
to what was asked by digest, counts once, and the same answer a second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from devassist.core.codec import b64, json_text, sound
from devassist.core.definition import Definition
from devassist.core.errors import (
    AlreadyDecided,
    InvalidRequest,
    NotWaiting,
    PayloadErased,
    ToolArgumentsInvalid,
)
from devassist.core.holds import hold_digest
from devassist.core.questions import Question, Questions, questions
from devassist.core.scope import SYSTEM, Scope
from devassist.core.signals import ApprovalGiven, Fact, SettlementGiven
from devassist.core.tooling import ToolSpec
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Head, Heads, Journal
from devassist.ports.tools import ArgumentChecker
from devassist.ports.vault import Payload, Vault
from devassist.runtime.history import SETTLED
from devassist.runtime.ownership import own_head
from devassist.runtime.view import Placed, RunView, decoded, load

Decision = Literal["approve", "reject"]
Outcome = Literal["happened", "repeat", "abandon"]
_ANSWERED = {
    "approve": "it was approved", "reject": "it was rejected", "happened": "it was settled as having happened",
    "repeat": "it was settled by repeating it", "abandon": "it was given up",
}  # fmt: skip

_WENT_ON = "the run went on without this call, so it cannot be repeated; its model may call again"
_ENDED = "the run has ended, so the call cannot be repeated; it can be settled as happened, or abandoned"


class Given(NamedTuple):
    """A result that somebody knows; any JSON value, null too."""

    value: Any


class Decided(NamedTuple):
    """``question`` with the answer that counts, and the run right after it. ``again``: the same was said before."""

    question: Question
    view: RunView
    again: bool


class People:
    """``wake`` makes a run that was answered go on, where it is driven here."""

    def __init__(
        self, journal: Journal, heads: Heads, vault: Vault, clock: Clock, checker: ArgumentChecker,
        wake: Callable[[bytes], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._journal, self._heads, self._vault, self._clock = journal, heads, vault, clock
        self._checker, self._wake = checker, wake

    # -- reading -------------------------------------------------------------------------------------------------

    async def questions(self, scope: Scope, view: RunView) -> Questions:
        """What the run asked, and what was answered, also after its end."""
        found = questions(view.placed)
        if not found.doubts or not found.state.closed:
            return found
        return found.settled(_settlements(await self.notes(replace(SYSTEM, tenant=_tenant(found)), view.stream)))

    async def notes(self, scope: Scope, stream: bytes) -> list[Placed]:
        """The facts that were noted of a run after its end; whether the caller may see it was asked before."""
        head = await self._heads.named(scope, "notes", stream.hex())
        return [] if head is None else decoded(await self._journal.read(SYSTEM, head.stream))

    async def texts(self, view: RunView, found: Questions) -> dict[str, str]:
        """The run's texts, and those of what was said after its end; without what was erased."""
        said = [q.answer for q in found.all if isinstance(q.answer, SettlementGiven)]
        missing = [r for a in said for r in (a.result, a.note) if r is not None and r not in view.texts]
        notes = await self._heads.named(replace(SYSTEM, tenant=_tenant(found)), "notes", view.stream.hex())
        if not missing or notes is None:
            return view.texts
        try:
            return view.texts | await self._journal.payloads(SYSTEM, notes.stream, missing)
        except PayloadErased:
            return view.texts

    async def _read(self, scope: Scope, stream: bytes, head: Head) -> tuple[RunView, Questions]:
        view = replace(await load(self._journal, scope, stream), driven=head.driving)
        return view, await self.questions(scope, view)

    # -- approvals -----------------------------------------------------------------------------------------------

    async def approve(
        self, scope: Scope, stream: bytes, digest: str, decision: Decision, *, note: str | None = None,
        args: dict[str, Any] | None = None,
    ) -> Decided:  # fmt: skip
        """Decide on the call that waits under ``digest``; ``args`` take the place of its arguments.

        Raises RunNotFound, ApprovalNotFound, NotWaiting, AlreadyDecided, InvalidRequest (arguments that do not fit the
        tool's schema, each with its path), PayloadErased.
        """
        head = await own_head(self._heads, self._vault, scope, stream)
        if args is not None and decision != "approve":
            errors = (("/tool_args", "only with 'approve'"),)
            raise InvalidRequest("arguments can only be changed with 'approve'", errors=errors)
        view, found = await self._read(scope, stream, head)
        asked = found.approval(digest)
        payloads = [] if args is None else [await self._seal(view, self._args(view, asked, args))]
        changed = b64(payloads[0].ref) if payloads else None
        changed = None if changed == asked.args else changed

        def same(q: Question) -> bool:
            said = q.answer
            return isinstance(said, ApprovalGiven) and said.decision == decision and said.args == changed

        if asked.answer is not None:
            return Decided(await self._agreed(asked, same), view, again=True)
        if not asked.open:
            raise NotWaiting("the run does not wait for this approval any more: it went on, or ended")
        payloads += [await self._seal(view, note)] if note else []
        event = ApprovalGiven(
            found.signal_id("approval", digest), await self._who(scope), digest, decision,
            b64(payloads[-1].ref) if note else None, changed,
            hold_digest(found.state, asked.call, changed) if changed else None,
        )  # fmt: skip
        await self._signal(scope, stream, event, payloads)
        view, found = await self._read(scope, stream, head)
        return Decided(await self._agreed(found.approval(digest), same), view, again=False)

    def _args(self, view: RunView, asked: Question, args: dict[str, Any]) -> str:
        """The text of checked arguments. Raises InvalidRequest."""
        try:
            return json_text(self._checker.check(_spec(view, asked.tool), args))
        except ToolArgumentsInvalid as error:
            errors = tuple((f"/tool_args{path}", message) for path, message in error.errors)
            raise InvalidRequest(error.detail, errors=errors) from None

    # -- settlements ---------------------------------------------------------------------------------------------

    async def settle(
        self, scope: Scope, stream: bytes, step: int, outcome: Outcome, *, result: Given | None = None,
        note: str | None = None, call: int | None = None, digest: str | None = None,
    ) -> Decided:  # fmt: skip
        """Say what became of a call of ``step`` whose outcome is unknown; ``call`` where several are, ``digest`` to
        answer that question and no later one about the same call.

        Raises RunNotFound, DoubtNotFound, NotWaiting, AlreadyDecided, PayloadErased, and InvalidRequest: which call is
        meant is not clear, or the result does not fit what the tool declares.
        """
        head = await own_head(self._heads, self._vault, scope, stream)
        if result is not None and outcome != "happened":
            raise InvalidRequest(
                "a result can only be given with 'happened'", errors=(("/result", "only with 'happened'"),)
            )
        view, found = await self._read(scope, stream, head)
        asked = found.doubt(step, call, digest)
        payloads = [] if result is None else [await self._seal(view, self._result(view, asked, result))]
        known = b64(payloads[0].ref) if payloads else None

        def same(q: Question) -> bool:
            said = q.answer
            return isinstance(said, SettlementGiven) and said.outcome == outcome and said.result == known

        if asked.answer is not None:
            return Decided(await self._agreed(asked, same), view, again=True)
        if not asked.open:
            raise NotWaiting("the outcome of this call is in doubt no more: it came in")
        if asked.told and outcome == "repeat":
            raise NotWaiting(_ENDED if found.state.closed else _WENT_ON)
        payloads += [await self._seal(view, note)] if note else []
        event = SettlementGiven(
            found.signal_id("settlement", asked.digest), await self._who(scope), asked.digest, outcome, known,
            b64(payloads[-1].ref) if note else None,
        )  # fmt: skip
        if found.state.closed:
            await self._note(found, view, asked, event, payloads)
        else:
            await self._signal(scope, stream, event, payloads)
        view, found = await self._read(scope, stream, head)
        asked = next(q for q in found.all if q.kind == "settlement" and q.intent == asked.intent)
        return Decided(await self._agreed(asked, same), view, again=False)

    def _result(self, view: RunView, asked: Question, result: Given) -> str:
        """The text of a checked result. Raises InvalidRequest."""
        faults = self._checker.result_faults(_spec(view, asked.tool), result.value)
        if faults:
            path, message = faults[0]
            detail = f"this cannot be a result of {asked.tool}: {path or '/'}: {message}"
            raise InvalidRequest(detail, errors=tuple((f"/result{path}", said) for path, said in faults))
        return json_text(result.value)

    # -- writing -------------------------------------------------------------------------------------------------

    async def _signal(
        self, scope: Scope, stream: bytes, event: ApprovalGiven | SettlementGiven, payloads: Sequence[Payload]
    ) -> None:
        """Whether it is what counts is seen by reading: another may have come first, or the run have ended."""
        now = self._clock.now_us()
        await self._journal.signal(scope, stream, event.signal_id, Body.of(event), now, payloads)
        await self._wake(stream)

    async def _note(
        self, found: Questions, view: RunView, asked: Question, said: SettlementGiven, payloads: Sequence[Payload]
    ) -> None:
        """The run is closed, so it stands beside it."""
        data = {"of": str(asked.intent), "outcome": said.outcome, "result": said.result, "note": said.note}
        fact = Fact(SETTLED, said.actor, tuple((key, value) for key, value in data.items() if value is not None))
        scope = replace(SYSTEM, tenant=_tenant(found))
        await self._journal.note(scope, "notes", view.stream.hex(), [Body.of(fact)], self._clock.now_us(), payloads)

    async def _seal(self, view: RunView, text: str) -> Payload:
        """A payload of the run's domain. Raises PayloadErased, TooLarge."""
        domain = bytes.fromhex(view.state.started.domain)
        if (await self._vault.load(frozenset({domain}))).get(domain) is None:
            raise PayloadErased("the texts of this run were erased, so nothing can be added to them")
        return self._vault.seal(domain, sound(text))

    async def _who(self, scope: Scope) -> str:
        return (await self._vault.domain(scope, "user", scope.actor)).hex()

    async def _agreed(self, question: Question, same: Callable[[Question], bool]) -> Question:
        """The question, if it was answered so. Raises AlreadyDecided, NotWaiting."""
        said = question.answer
        if said is None:
            raise NotWaiting("the run ended or went on before this answer reached it")
        if same(question):
            return question
        word = said.decision if isinstance(said, ApprovalGiven) else said.outcome
        changed = " with other arguments" if isinstance(said, ApprovalGiven) and said.args else ""
        who = (await names_of(self._vault, [said.actor])).get(said.actor)
        raise AlreadyDecided(f"{_ANSWERED[word]}{changed}{f' by {who}' if who else ''}; an answer counts once")


async def names_of(vault: Vault, actors: Iterable[str]) -> dict[str, str]:
    """The names that the key store has for domain ids (hex); none for whoever was erased."""
    ids: dict[str, bytes] = {}
    for actor in actors:
        try:
            raw = bytes.fromhex(actor)
        except ValueError:
            continue  # the service itself
        if len(raw) == 16:
            ids[actor] = raw
    known = await vault.load(frozenset(ids.values()))
    return {actor: name.name for actor, raw in ids.items() if (name := known.get(raw)) is not None}


def _spec(view: RunView, tool: str) -> ToolSpec:
    spec = Definition.from_json(view.texts[view.state.started.definition]).spec(tool)
    assert spec is not None, "a call is of a tool that the definition has"
    return spec


def _tenant(found: Questions) -> str:
    return found.state.started.tenant


def _settlements(notes: Iterable[Placed]) -> Iterable[tuple[int, SettlementGiven, int]]:
    """What was said of a closed run's doubts, in the form that an open one's has it."""
    for event, _, at in notes:
        if isinstance(event, Fact) and event.name == SETTLED:
            data = dict(event.data)
            outcome = cast("Outcome", data.get("outcome", ""))
            said = SettlementGiven("", event.actor, "", outcome, data.get("result"), data.get("note"))
            yield int(data.get("of", "-1")), said, at
