"""Why a run answered as it did, read from its record: no model narrates it, and each entry names its seq."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from devassist.audit.columns import unhex
from devassist.audit.record import Recorded, definition_text, recorded
from devassist.core.citations import quotations
from devassist.core.definition import Definition, Request
from devassist.core.events import (
    BreakerSeen,
    CallClosed,
    Event,
    Held,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    ModelSwitched,
    RunAborted,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.grounding import clauses_of
from devassist.core.run_state import RunState
from devassist.core.scope import Scope
from devassist.core.signals import ApprovalGiven, CancelRequested, LateOutcome, RunRestored, SettlementGiven
from devassist.core.transitions import fold
from devassist.ports.journal import Journal
from devassist.ports.vault import DomainName, Vault


async def explain(journal: Journal, vault: Vault, scope: Scope, stream: bytes) -> dict[str, Any]:
    """The run's decisions and what they rested on, in order. Erased texts are null. Raises RunNotFound."""
    run = await recorded(journal, scope, stream)
    actors = {a for event, _, _ in run.placed if (a := getattr(event, "actor", None)) is not None}
    ids = {actor: raw for actor in actors if (raw := unhex(actor)) is not None and len(raw) == 16}
    names = await vault.load(frozenset(ids.values()))
    return _Story(run, {actor: names.get(raw) for actor, raw in ids.items()}).told()


class _Story:
    def __init__(self, run: Recorded, names: Mapping[str, DomainName | None]) -> None:
        self._run, self._names = run, names
        self._definition = Definition.from_json(definition_text(run))
        self._step = -1
        self._model = ""

    def told(self) -> dict[str, Any]:
        state = fold(self._run.placed)
        entries = [
            {"seq": seq, "at": at, "time": _time(at), "what": what, **fields}
            for event, seq, at in self._run.placed
            for what, fields in self._entries(event)
        ]
        return {
            "trace_id": self._run.stream.hex(),
            "state": None if state is None else str(state.state),
            "agent": self._definition.agent,
            "prompt_version": self._definition.prompt_version,
            "erased": self._run.started.message not in self._run.texts,
            "entries": entries,
            "answer": self._answer(state),
        }

    def _answer(self, state: RunState | None) -> dict[str, Any] | None:
        last, seq, _ = self._run.placed[-1]
        if state is None or not isinstance(last, RunFinished):
            return None
        return {"seq": seq, "text": self._text(last.answer), "output": self._json(last.output)}

    def _entries(self, event: Event) -> Sequence[tuple[str, dict[str, Any]]]:
        tell = _TELL.get(type(event))
        return () if tell is None else (tell(self, event),)

    # -- one entry each ------------------------------------------------------------------------------------------

    def asked(self, e: RunStarted) -> tuple[str, dict[str, Any]]:
        text = self._text(e.request)
        request = None if text is None else Request.from_json(text)
        return "asked", {
            "actor": self._name(e.actor), "agent": e.agent, "prompt_version": self._definition.prompt_version,
            "model": self._definition.model, "model_kind": self._definition.model_kind,
            "message": self._text(e.message), "conversation_id": e.conversation,
            "route": request and request.route, "route_reason": request and request.route_reason,
            "as_of": request and request.as_of, "subject": request and request.subject,
            "tools": [t.name for t in self._definition.tools],
        }  # fmt: skip

    def prompted(self, e: ModelIntended) -> tuple[str, dict[str, Any]]:
        self._step, self._model = e.step, e.model
        return "model_asked", {
            "step": e.step, "attempt": e.attempt, "model": e.model, "model_kind": e.model_kind,
            "read_seqs": list(e.add), "history_messages": len(e.history), "history_left_out": e.left_history,
            "seqs_left_out": list(e.left),
        }  # fmt: skip

    def decided(self, e: ModelReplied) -> tuple[str, dict[str, Any]]:
        calls = [{"tool": c.tool, "args": self._json(c.args)} for c in e.calls]
        return "decided", {
            "step": self._step, "model": self._model, "of": e.of, "decision": e.decision,
            "thought": self._text(e.thought), "calls": calls, "answer": self._text(e.answer), "code": e.code,
            "tool": e.tool, "correction": self._text(e.correction), "unstructured": e.unstructured,
        }  # fmt: skip

    def model_failed(self, e: ModelFailed) -> tuple[str, dict[str, Any]]:
        return "model_failed", {"step": self._step, "of": e.of, "code": e.code, "message": self._text(e.message)}

    def switched(self, e: ModelSwitched) -> tuple[str, dict[str, Any]]:
        return "model_switched", {"model": e.model, "model_kind": e.model_kind, "reason": e.reason}

    def breaker(self, e: BreakerSeen) -> tuple[str, dict[str, Any]]:
        return "breaker_open", {"choice": e.choice, "until": e.until}

    def called(self, e: ToolIntended) -> tuple[str, dict[str, Any]]:
        return "called", {
            "step": e.step, "decision": e.decision, "call": e.call, "attempt": e.attempt, "tool": e.tool,
            "args": self._json(e.args),
        }  # fmt: skip

    def returned(self, e: ToolReturned | LateOutcome) -> tuple[str, dict[str, Any]]:
        return "late_outcome" if isinstance(e, LateOutcome) else "returned", {
            "of": e.of, "outcome": e.outcome, "code": e.code, "result": self._json(e.result),
            "shown": self._text(e.shown), "retrieval": self._json(e.retrieval),
        }  # fmt: skip

    def closed(self, e: CallClosed) -> tuple[str, dict[str, Any]]:
        return "call_closed", {
            "decision": e.decision, "call": e.call, "closing": e.closing, "code": e.code, "shown": self._text(e.shown)
        }  # fmt: skip

    def held(self, e: Held) -> tuple[str, dict[str, Any]]:
        return "held", {"reason": e.reason, "decision": e.decision, "call": e.call, "digest": e.digest}

    def waited(self, e: WaitBegun) -> tuple[str, dict[str, Any]]:
        return "waited", {"reason": e.reason, "until": e.until}

    def cancelled(self, e: CancelRequested) -> tuple[str, dict[str, Any]]:
        return "cancel_requested", {"actor": self._name(e.actor)}

    def approved(self, e: ApprovalGiven) -> tuple[str, dict[str, Any]]:
        return "approval", {
            "actor": self._name(e.actor), "digest": e.digest, "decision": e.decision, "note": self._text(e.note),
            "args": self._json(e.args), "new_digest": e.new_digest,
        }  # fmt: skip

    def settled(self, e: SettlementGiven) -> tuple[str, dict[str, Any]]:
        return "settlement", {
            "actor": self._name(e.actor), "digest": e.digest, "outcome": e.outcome, "note": self._text(e.note),
            "result": self._json(e.result),
        }  # fmt: skip

    def restored(self, e: RunRestored) -> tuple[str, dict[str, Any]]:
        return "restored", {"window_from": e.window_from, "window_to": e.window_to}

    def released(self, e: RunFinished) -> tuple[str, dict[str, Any]]:
        return "released", {
            "of": e.of, "answer": self._text(e.answer), "output": self._json(e.output), "verdicts": list(e.verdicts),
            "degraded": list(e.degraded), "quoted": self._quoted(e) if self._definition.grounded else [],
            "checks": self._json(e.checks),
        }  # fmt: skip

    def failed(self, e: RunFailed) -> tuple[str, dict[str, Any]]:
        return "failed", {"code": e.code, "status": e.status, "message": self._text(e.message)}

    def aborted(self, e: RunAborted) -> tuple[str, dict[str, Any]]:
        return "aborted", {"reason": e.reason}

    def _quoted(self, e: RunFinished) -> list[dict[str, Any]]:
        """Each quotation of the released answer with the clause in which it stands, and the seq that returned it."""
        sources = [
            (clause, seq)
            for event, seq, _ in self._run.placed
            if isinstance(event, ToolReturned) and event.outcome == "result"
            for clause in clauses_of([self._json(event.result)])
        ]
        found: list[dict[str, Any]] = []
        for quote in quotations(self._text(e.answer) or ""):
            clause, seq = next(((c, s) for c, s in sources if quote in c.text), (None, None))
            found.append(
                {"quote": quote, "title": clause and clause.title, "label": clause and clause.label, "seq": seq}
            )
        return found

    # ------------------------------------------------------------------------------------------------------------

    def _text(self, ref: str | None) -> str | None:
        return None if ref is None else self._run.texts.get(ref)

    def _json(self, ref: str | None) -> Any:
        text = self._text(ref)
        try:
            return None if text is None else json.loads(text)
        except ValueError:
            return text

    def _name(self, actor: str) -> str | None:
        known = self._names.get(actor)
        return None if known is None else known.name


def _time(at: int) -> str:
    """UTC, ISO 8601."""
    return datetime.fromtimestamp(at // 1_000_000, UTC).replace(microsecond=at % 1_000_000).isoformat()


_TELL: dict[type[Any], Callable[[_Story, Any], tuple[str, dict[str, Any]]]] = {
    RunStarted: _Story.asked, ModelIntended: _Story.prompted, ModelReplied: _Story.decided,
    ModelFailed: _Story.model_failed, ModelSwitched: _Story.switched, ToolIntended: _Story.called,
    ToolReturned: _Story.returned, LateOutcome: _Story.returned, CallClosed: _Story.closed, Held: _Story.held,
    WaitBegun: _Story.waited, BreakerSeen: _Story.breaker, CancelRequested: _Story.cancelled,
    ApprovalGiven: _Story.approved, SettlementGiven: _Story.settled, RunRestored: _Story.restored,
    RunFinished: _Story.released, RunFailed: _Story.failed, RunAborted: _Story.aborted,
}  # fmt: skip
