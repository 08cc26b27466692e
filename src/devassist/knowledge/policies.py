"""The policy library over a directory of knowledge assets, held in memory (adapter of ``ports.library``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from devassist.core.errors import CallerError, CollectionNotFound
from devassist.core.scope import Scope
from devassist.core.terms import has_words
from devassist.knowledge.assets import Asset, Clause, is_date, load_directory
from devassist.knowledge.lexical import LexicalIndex, Match, Passage
from devassist.knowledge.references import Article, article_of_label
from devassist.ports.library import (
    DOCS,
    POLICIES,
    RELEVANCE_THRESHOLD,
    Answered,
    ArmReport,
    ClauseHit,
    Question,
    Ranked,
)

SAMPLES_DIR = Path(__file__).with_name("samples")
"""The packaged sample policies of an invented province."""

_DEPTH = 10


class PolicyFiles:
    """Loads once, at start; search is pure arithmetic in memory and never waits.

    One index covers every published revision, and the day's mask is applied before ranking: a revision that does not
    hold can neither be found nor take a place among the first k. ``today`` gives the day for searches without
    ``as_of``, as an ISO date.
    """

    def __init__(self, assets: Sequence[Asset], *, today: Callable[[], str]) -> None:
        self._today = today
        self._found: list[tuple[Asset, Clause]] = [
            (asset, clause)
            for asset in assets
            if asset.status == "published" and asset.believed
            for clause in asset.clauses
        ]
        self._index = LexicalIndex([_passage(asset, clause) for asset, clause in self._found])
        self._mask = lru_cache(maxsize=64)(self._mask_of)

    @classmethod
    def load(cls, directory: Path, *, today: Callable[[], str]) -> PolicyFiles:
        """Raises ConfigInvalid for a directory without files and AssetInvalid for a file that is wrong."""
        return cls(load_directory(directory), today=today)

    async def search(self, scope: Scope, query: str, *, top_k: int = 5, as_of: str | None = None) -> list[ClauseHit]:
        """Best clauses first; none at all when the library does not know what the query is about.

        Raises CallerError: ``blank_query``, or ``invalid_date`` for an ``as_of`` that is no ISO date.
        """
        if not has_words(query):
            raise CallerError("The query holds no word to search for.", code="blank_query")
        matches = self._matches(query, top_k, as_of)
        if max((match.share for match in matches), default=0.0) < RELEVANCE_THRESHOLD:
            return []
        return [self._hit(match) for match in matches[:top_k]]

    async def best_score(self, scope: Scope, query: str) -> float:
        """How far the best of today's clauses covers the query; compare it with RELEVANCE_THRESHOLD."""
        return max((match.share for match in self._matches(query, 1, None)), default=0.0)

    def extent(self) -> tuple[int, int]:
        """Documents and clauses, of all revisions that hold on some day."""
        return len({asset.doc_id for asset, _ in self._found}), len(self._found)

    def _matches(self, query: str, top_k: int, as_of: str | None) -> list[Match]:
        """At least ``_DEPTH`` candidates, so that what is relevant does not depend on how many are asked for."""
        if as_of is not None and not is_date(as_of):
            raise CallerError(f"as_of {as_of[:40]!r} is not a date; write YYYY-MM-DD.", code="invalid_date")
        allowed = self._mask(as_of or self._today())
        return self._index.search(query, top_k=max(top_k, _DEPTH), allowed=allowed)

    def _mask_of(self, day: str) -> bytearray:
        return bytearray(asset.holds_on(day) for asset, _ in self._found)

    def _hit(self, match: Match) -> ClauseHit:
        asset, clause = self._found[match.position]
        digest = sha256(clause.text.encode()).hexdigest()
        return ClauseHit(
            doc_id=asset.doc_id,
            rev_id=asset.rev_id,
            title=asset.title,
            clause_id=clause.clause_id,
            label=clause.label,
            text=clause.text,
            effective_date=asset.effective_date,
            revision_date=asset.revision_date,
            source=asset.source,
            score=match.score,
            heading=" > ".join(clause.headings),
            text_sha256=digest,
            latest_revision=asset.rev_id,
            valid_from=asset.valid_from,
            valid_to=asset.valid_to,
        )


class PolicyLibrary:
    """PolicyFiles as a Library of one collection, ``policies``. It knows one time of knowledge, and labels nothing."""

    def __init__(self, files: PolicyFiles, *, today: Callable[[], str], now_us: Callable[[], int]) -> None:
        self._files, self._today, self._now_us = files, today, now_us

    async def search(self, scope: Scope, question: Question) -> Answered:
        """See ports.library. Raises CallerError, CollectionNotFound."""
        for name in question.collections:
            if name not in (POLICIES, DOCS):
                raise CollectionNotFound(f"There is no collection {name}; there are: {POLICIES}.")
        found = await self._files.search(scope, question.query, top_k=question.top_k, as_of=question.as_of)
        hits = [replace(hit, why=(Ranked("lexical", rank, hit.score),)) for rank, hit in enumerate(found, 1)]
        there = POLICIES in question.collections
        return Answered(
            tuple(hits) if there else (), question.as_of or self._today(), question.known_at or self._now_us(),
            "eligible/1", None if hits and there else "nothing_found" if there else "collection_empty",
            arms=(ArmReport("lexical", len(hits) if there else 0),),
        )  # fmt: skip

    async def best_score(self, scope: Scope, query: str, collection: str = POLICIES) -> float:
        """See ports.library."""
        return await self._files.best_score(scope, query) if collection == POLICIES and has_words(query) else 0.0

    async def extent(self, scope: Scope) -> dict[str, tuple[int, int]]:
        """See ports.library."""
        return {POLICIES: self._files.extent()}


def _passage(asset: Asset, clause: Clause) -> Passage:
    if clause.article is None:
        article = article_of_label(clause.label)
    else:
        article = Article(clause.article, clause.sub)
    return Passage(asset.title, clause.headings, clause.text, article)
