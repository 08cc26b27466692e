"""What a run's answer cites, what became of each citation, and whether its clause has changed since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from devassist.core.definition import Definition
from devassist.core.events import RunFinished, ToolReturned
from devassist.core.scope import Scope
from devassist.core.signals import LateOutcome
from devassist.ports.knowledge_store import Belief, KnowledgeStore
from devassist.runtime.view import RunView

Since = Literal["unchanged", "amended", "corrected", "repealed", "deleted", "unknown"]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a cited revision after it was cited. ``rev_id`` is the revision that came after it or in its
    place, ``day`` from when on that is so; both None where it does not apply."""

    state: Since
    rev_id: str | None = None
    day: str | None = None


def changed_since(rev_id: str, known_at: int, beliefs: Sequence[Belief]) -> Change:
    """Compare what is believed now of a document (``beliefs``: every row there ever was) with what was believed at
    ``known_at`` (microseconds), when ``rev_id`` was cited. Pure. ``unknown``: the revision is none of theirs."""
    mine = next((b for b in beliefs if b.rev_id == rev_id), None)
    if mine is None:
        return Change("unknown")
    then = {b.rev_id: b for b in beliefs if _believed(b, known_at)}
    now = {b.rev_id: b for b in beliefs if b.recorded_to is None and b.status == "published"}
    if not now:
        # A repeal from the first day on leaves nothing to believe either, but that is not what it was cited for.
        return Change("deleted")
    news = sorted((b for name, b in now.items() if name not in then), key=lambda b: b.valid_from)
    if rev_id not in now:
        instead = next((b for b in news if b.valid_from == mine.valid_from), None)
        return Change("corrected", instead.rev_id, instead.valid_from) if instead else Change("deleted")
    later = next((b for b in news if b.valid_from > mine.valid_from), None)
    if later is not None:
        return Change("amended", later.rev_id, later.valid_from)
    end, before = now[rev_id].valid_to, then[rev_id].valid_to if rev_id in then else None
    followed = any(b.valid_from == end for b in now.values())
    if end is not None and end != before and not followed:
        return Change("repealed", None, end)
    return Change("unchanged")


def _believed(belief: Belief, at: int) -> bool:
    return belief.recorded_from <= at and (belief.recorded_to is None or at < belief.recorded_to)


async def citations(view: RunView, scope: Scope, store: KnowledgeStore | None) -> dict[str, Any]:
    """The verdicts of a run as the journal has them, each with ``changed`` where a store can say it. Who is no
    administrator is not shown what was left out of the answer. ``rule`` is null for a run that was not checked."""
    end = view.events[-1]
    text = view.text(end.checks) if isinstance(end, RunFinished) and end.checks else None
    if text is None:
        return {"trace_id": view.stream.hex(), "rule": None, "citations": [], "removed": 0, "verdicts": []}
    checks = cast("dict[str, Any]", json.loads(text))
    shown = _shown(checks, _unsupported(view), admin=scope.is_admin)
    changes = await _changes(shown, scope, store)
    rows = [{**one, "changed": changes.get(_key(one))} for one in shown]
    assert isinstance(end, RunFinished), "only a finished run has checks"
    return {
        "trace_id": view.stream.hex(), "rule": checks["rule"], "citations": rows, "removed": checks["removed"],
        "verdicts": list(end.verdicts),
    }  # fmt: skip


def retrievals(view: RunView) -> list[dict[str, Any]]:
    """The record of each search of a run, with how many clauses were withheld: for administrators."""
    refs = [e.retrieval for e in view.events if isinstance(e, ToolReturned | LateOutcome)]
    texts = [view.text(ref) for ref in refs if ref is not None]
    return [json.loads(text) for text in texts if text is not None]


def _unsupported(view: RunView) -> str:
    text = view.text(view.state.started.definition)
    return "flag" if text is None else Definition.from_json(text).unsupported


def _shown(checks: Mapping[str, Any], unsupported: str, *, admin: bool) -> list[dict[str, Any]]:
    every = cast("list[dict[str, Any]]", checks["citations"])
    passed = {c["claim_id"] for c in cast("list[dict[str, Any]]", checks["claims"]) if c["verdict"] == "verified"}
    return [one for one in every if admin or unsupported == "flag" or one["claim_id"] in passed]


async def _changes(
    cited: Iterable[Mapping[str, Any]], scope: Scope, store: KnowledgeStore | None
) -> dict[tuple[str, str], dict[str, Any]]:
    if store is None:
        return {}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in cited:
        if one["doc_id"] and _key(one) not in found:
            beliefs = await store.beliefs(scope, one["doc_id"])
            found[_key(one)] = asdict(changed_since(one["rev_id"], _micros(one["known_at"]), beliefs))
    return found


def _key(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["rev_id"], one["known_at"]


def _micros(moment: str) -> int:
    at = datetime.fromisoformat(moment)
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
