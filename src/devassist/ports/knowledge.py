"""Port to structured knowledge: clauses of dated revisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from devassist.core.scope import Scope

RELEVANCE_THRESHOLD = 0.55
"""The share (``best_score``) from which a library counts as knowing what a question is about.

One rare term by coincidence gives 0.50 at most, so the threshold lies just above. Measured with 50 unrelated
questions (tests/knowledge/questions.py) and lay questions over real statutes: over 13 laws (1,331 articles) no
unrelated question passes and 16 of 706 lay ones fail, 4 of them with a gold clause among the first ten; over 17 single
laws 0 of 850 pass; over all 135 laws (10,374 articles) 3 of 50 pass and 23 of 1,235 fail; over the samples 0 of 50.
"""


@dataclass(frozen=True, slots=True)
class ClauseHit:
    """One clause that answers a query. ``score`` is the ranking score (BM25 as of this adapter), higher is better.

    ``effective_date`` and ``revision_date`` are ISO dates or None; ``text`` is the clause's canonical stored text.
    """

    doc_id: str
    rev_id: str
    title: str
    clause_id: str
    label: str
    text: str
    effective_date: str | None
    revision_date: str | None
    source: str
    score: float


class PolicyLibrary(Protocol):
    """Search over the current (or ``as_of``) revisions of policy assets."""

    async def search(self, scope: Scope, query: str, *, top_k: int = 5, as_of: str | None = None) -> list[ClauseHit]:
        """Best clauses first; an empty list when nothing matches. ``as_of`` is an ISO date; filters act before ranking.

        Raises CallerError (code ``blank_query``) for an empty query.
        """
        ...

    async def best_score(self, scope: Scope, query: str) -> float:
        """The normalised score in 0..1 of the best hit (share of the query's weight that the clause covers)."""
        ...

    def extent(self) -> tuple[int, int]:
        """How many documents and clauses can be found, on whatever day."""
        ...
