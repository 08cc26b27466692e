"""Port to the decision log: the readable projection of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from devassist.core.scope import Scope


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Filters are ANDed. ``since``/``until`` are microseconds since the epoch, half-open. ``text`` is searched in
    inputs, outputs and messages, in any language. ``degraded`` is ``1`` for all answers that were marked, or a code
    that they were marked with. ``after`` is a page's ``next``; newest first unless ``oldest_first``."""

    trace_id: str | None = None
    kind: str | None = None
    state: str | None = None
    error_code: str | None = None
    degraded: str | None = None
    tool_name: str | None = None
    user_id: str | None = None
    conversation_id: str | None = None
    agent: str | None = None
    step: int | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    after: str | None = None
    oldest_first: bool = False
    limit: int = 50


@dataclass(frozen=True, slots=True)
class LogPage:
    """``rows`` hold the decision_log columns by name; ``next`` continues the page, None at the end; ``lag`` is how many
    journal rows the projection has not seen yet."""

    rows: list[dict[str, Any]]
    next: str | None
    lag: int


@dataclass(frozen=True, slots=True)
class Reliance:
    """That a run used a clause: ``cited`` it, or only ``retrieved`` it, at ``rank`` of what was found. ``at``:
    microseconds since the epoch. ``user_id`` is None once erased; ``state`` is the run's now."""

    trace_id: str
    at: int
    user_id: str | None
    conversation_id: str | None
    agent: str | None
    state: str | None
    doc_id: str
    rev_id: str
    clause_id: str
    used: Literal["cited", "retrieved"]
    rank: int | None


@dataclass(frozen=True, slots=True)
class ReliancePage:
    """All clauses of each run on the page, newest run first; ``next`` and ``lag`` as in LogPage."""

    rows: list[Reliance]
    next: str | None
    lag: int


class DecisionLog(Protocol):
    """Queries wait up to a second until the projection has passed the journal's end as of the request's arrival."""

    async def query(self, scope: Scope, query: LogQuery) -> LogPage:
        """Rows of the scope's tenant; a scope without admin rights sees its own rows only. Raises InvalidRequest."""
        ...

    async def relied(
        self, scope: Scope, *, doc_id: str | None = None, rev_id: str | None = None, after: str | None = None,
        limit: int = 50,
    ) -> ReliancePage:  # fmt: skip
        """Runs that used a document or a revision (exactly one is given), ``limit`` of them, under the same rules as
        ``query``; what was erased is not among them. Raises InvalidRequest."""
        ...

    async def rebuild(self) -> int:
        """Derive all rows again from the journal's beginning; return how many."""
        ...

    async def lag(self) -> int: ...
