"""Port to the knowledge that runs answer from: clauses of dated revisions, found and filtered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from devassist.core.scope import Scope

POLICIES, DOCS = "policies", "docs"
"""The collections that ``get_policy`` and, unless another is named, ``search_docs`` look in."""
RELEVANCE_THRESHOLD = 0.55
"""The share (``best_score``) from which a library counts as knowing what a question is about.

One rare term by coincidence gives 0.50 at most, so the threshold lies just above. Measured with 50 unrelated
questions (tests/knowledge/questions.py) and lay questions over real statutes: over 13 laws (1,331 articles) no
unrelated question passes and 16 of 706 lay ones fail, 4 of them with a gold clause among the first ten; over 17 single
laws 0 of 850 pass; over all 135 laws (10,374 articles) 3 of 50 pass and 23 of 1,235 fail; over the samples 0 of 50.
"""

Arm = Literal["article", "lexical", "dense"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """That an arm found a hit, where in its own list (from 1), with which score of its own."""

    arm: Arm
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class ClauseHit:
    """One clause that answers a query. ``score`` is the ranking score, higher is better; ``why`` says which arms found
    it. ``effective_date`` and ``revision_date`` are ISO dates or None; ``text`` is the clause's canonical stored text.
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
    heading: str = ""
    chunk_index: int = 0
    text_sha256: str = ""
    latest_revision: str = ""
    effective_basis: str = "unknown"
    collection: str = POLICIES
    valid_from: str = ""
    valid_to: str | None = None
    why: tuple[Ranked, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for. ``as_of`` is an ISO date (None: today), ``known_at`` microseconds since the epoch (None:
    now). ``mode`` other than ``hybrid`` leaves an arm out. ``relevant``: no hit at all unless the library knows of what
    is asked (RELEVANCE_THRESHOLD, or a clause near enough by the embedder's measure). Empty tuples: any."""

    query: str
    collections: tuple[str, ...] = (POLICIES,)
    top_k: int = 5
    as_of: str | None = None
    known_at: int | None = None
    mode: Literal["hybrid", "lexical", "dense"] = "hybrid"
    relevant: bool = False
    doc_ids: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    langs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArmReport:
    """What became of an arm: how many it found, or the code of why it was left out (``off``, ``scripts_differ``,
    ``not_ready``, ``failed``, ``no_reference``)."""

    arm: Arm
    found: int
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What a search found, and everything needed to say later what it saw.

    ``reason`` says why there is no hit: ``nothing_found``, ``no_version_in_force`` (documents match, none of their
    revisions holds on that day), ``collection_empty``. ``share`` is the best hit's (``best_score``). ``rule`` names the
    version of the filter's rule; ``withheld`` how many clauses the caller's labels kept out, which only administrators
    may be shown. ``head_seq - applied_seq`` is how far the vector index lags behind the table.
    """

    hits: tuple[ClauseHit, ...]
    as_of: str
    known_at: int
    rule: str
    reason: str | None = None
    share: float = 0.0
    arms: tuple[ArmReport, ...] = ()
    index_version: str | None = None
    embedder: str | None = None
    applied_seq: int = 0
    head_seq: int = 0
    withheld: int = 0

    @property
    def index_lag(self) -> int:
        return max(0, self.head_seq - self.applied_seq)

    @property
    def dense_asked(self) -> bool:
        """Whether the vector arm was wanted, whatever came of it: else how far it lags is nobody's concern."""
        return any(arm.arm == "dense" and arm.left_out != "off" for arm in self.arms)

    def record(self) -> Mapping[str, Any]:
        """The JSON that a run keeps of it: ids, revisions, ranks, scores, arms, text hashes, filter, lag; no texts."""
        return {
            "as_of": self.as_of, "known_at": self.known_at, "rule": self.rule, "reason": self.reason,
            "withheld": self.withheld, "index_version": self.index_version, "embedder": self.embedder,
            "applied_seq": self.applied_seq, "head_seq": self.head_seq,
            "arms": [{"arm": a.arm, "found": a.found, "left_out": a.left_out} for a in self.arms],
            "hits": [_record_of(h, rank) for rank, h in enumerate(self.hits, 1)],
        }  # fmt: skip


def _record_of(hit: ClauseHit, rank: int) -> dict[str, Any]:
    return {
        "doc_id": hit.doc_id, "rev_id": hit.rev_id, "clause_id": hit.clause_id, "text_sha256": hit.text_sha256,
        "collection": hit.collection, "valid_from": hit.valid_from, "valid_to": hit.valid_to,
        "latest_revision": hit.latest_revision, "rank": rank, "score": round(hit.score, 6),
        "why": [{"arm": w.arm, "rank": w.rank, "score": round(w.score, 6)} for w in hit.why],
    }  # fmt: skip


class Library(Protocol):
    """Search over what is believed. Filters (day, time of knowledge, labels, collections) act before ranking."""

    async def search(self, scope: Scope, question: Question) -> Answered:
        """Raises CallerError (``blank_query``, ``invalid_date``), CollectionNotFound."""
        ...

    async def best_score(self, scope: Scope, query: str, collection: str = POLICIES) -> float:
        """How far today's best clause covers the query, 0..1 (share of the weight of its terms): never waits for
        vectors, and answers 0 for a blank query or a collection that is not there."""
        ...

    async def extent(self, scope: Scope) -> dict[str, tuple[int, int]]:
        """Documents and clauses of each collection that the scope sees."""
        ...
