"""Search over the table of knowledge (adapter of ``ports.library``): two arms, one filter, and an account of both.

Whatever an arm finds is joined to the table under the same filter before it is used: an index that lags behind costs
recall, never correctness.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from devassist.core.document_numbers import numbers
from devassist.core.errors import CallerError, CollectionNotFound, Unavailable
from devassist.core.scope import Scope
from devassist.core.terms import has_words, query_terms, terms
from devassist.knowledge.assets import is_date
from devassist.knowledge.indexing import Dense
from devassist.knowledge.ranking import Fused, fuse, lead, share, weights
from devassist.knowledge.references import ParsedQuery, Titles
from devassist.knowledge.scripts import script_of
from devassist.ports.clock import Clock
from devassist.ports.knowledge_store import Eligible, KnowledgeStore, StoredClause
from devassist.ports.library import (
    DOCS,
    POLICIES,
    RELEVANCE_THRESHOLD,
    Answered,
    Arm,
    ArmReport,
    ClauseHit,
    Question,
    Ranked,
)
from devassist.ports.vectors import VectorFilter

log = logging.getLogger("devassist.knowledge")

RULE = "eligible/1"
"""The version of the filter's rule: half-open days and times, labels, collections; see ports.knowledge_store."""
DEPTH = 100
"""How far down each arm's list fusion looks."""
_MOST_TERMS = 400
_SHOWN = 20  # clauses whose texts are looked at for the share
_MOST_NAMED = 50
_MOST_NUMBERS = 8


@dataclass(frozen=True, slots=True)
class _Lexical:
    found: list[tuple[int, float]]
    left_out: str | None = None


class TableLibrary:
    """``today`` gives the day for questions without ``as_of``, as an ISO date. ``dense`` is None where no embedder is
    set."""

    def __init__(self, store: KnowledgeStore, clock: Clock, *, today: Callable[[], str], dense: Dense | None) -> None:
        self._store, self._clock, self._today, self._dense = store, clock, today, dense
        self._titles: tuple[tuple[str, ...], Titles] = ((), Titles(()))
        self._counted: Counter[tuple[str, str]] = Counter()

    def counted(self) -> Mapping[tuple[str, str], int]:
        """How often each arm took part in searches, by (arm, ``found``, ``nothing`` or why it was left out)."""
        return dict(self._counted)

    async def search(self, scope: Scope, question: Question) -> Answered:
        """See ports.library. Raises CallerError, CollectionNotFound."""
        if not has_words(question.query):
            raise CallerError("The query holds no word to search for.", code="blank_query")
        if question.as_of is not None and not is_date(question.as_of):
            raise CallerError(f"as_of {question.as_of[:40]!r} is not a date; write YYYY-MM-DD.", code="invalid_date")
        await self._require(scope, question.collections)
        now = max(self._clock.now_us(), await self._store.recorded())
        day = question.as_of or self._today()
        eligible = Eligible(
            day, question.collections, question.known_at, scope.sees, question.doc_ids, question.kinds, question.langs
        )
        head = await self._store.head()
        parsed = (await self._titles_of(scope)).parse(question.query)
        alone = bool(parsed.references) and not any(len(term) > 1 for term in query_terms(parsed.rest))
        named = await self._named(scope, parsed, eligible)
        lexical, asked = await self._lexical(scope, question, parsed, eligible, alone=alone)
        dense, state = await self._nearest(question, eligible, alone=alone)
        held = await self._holding(scope, question.query, eligible)
        fused = lead(self._fused(parsed, named, lexical, dense, alone=alone), held)
        exact = replace(eligible, known_at=now if question.known_at is None else question.known_at)
        rows = await self._store.clauses(scope, [f.key for f in fused[: max(question.top_k * 4, DEPTH)]], exact)
        hits = _hits(rows, fused, question.top_k)
        covered = await self._covered(scope, asked, rows, named if parsed.references else ())
        if question.relevant and not self._knows(covered, dense, hits):
            hits = []
        reports = (
            ArmReport("article", len(named) + len(held), None if parsed.references or held else "no_reference"),
            ArmReport("lexical", len(lexical.found), lexical.left_out),
            ArmReport("dense", len(dense), state.left_out),
        )
        for report in reports:
            outcome = report.left_out or ("found" if report.found else "nothing")
            self._counted[report.arm, outcome] += 1
        reason = None if hits else await self._why_none(scope, asked, eligible)
        return Answered(
            tuple(hits), day, exact.known_at or now, RULE, reason, covered, reports, state.version, state.embedder,
            state.applied, head, await self._store.withheld(scope, exact),
        )  # fmt: skip

    async def best_score(self, scope: Scope, query: str, collection: str = POLICIES) -> float:
        """See ports.library."""
        if not has_words(query):
            return 0.0
        eligible = Eligible(self._today(), (collection,), labels=scope.sees)
        parsed = (await self._titles_of(scope)).parse(query)
        named = await self._named(scope, parsed, eligible)
        if named and any(reference.titles for reference in parsed.references):
            return 1.0
        asked = query_terms(parsed.text)[:_MOST_TERMS]
        found = await self._store.lexical(scope, asked, eligible, _SHOWN) if asked else []
        rows = await self._store.clauses(scope, [hit.key for hit in found], eligible)
        return await self._covered(scope, asked, rows, named if not asked else ())

    async def extent(self, scope: Scope) -> dict[str, tuple[int, int]]:
        """See ports.library."""
        return {name: (docs, clauses) for name, docs, clauses in await self._store.collections(scope, scope.sees)}

    # -- arms ----------------------------------------------------------------------------------------------------

    async def _named(self, scope: Scope, parsed: ParsedQuery, eligible: Eligible) -> list[int]:
        """The clauses that the query names by number; where it names documents, only theirs."""
        titled = any(reference.titles for reference in parsed.references)
        found: dict[int, None] = {}
        for reference in parsed.references:
            if titled and not reference.titles:
                continue
            number, titles = reference.article, sorted(reference.titles)
            keys = await self._store.articles(scope, titles, number.article, number.sub, eligible, _MOST_NAMED)
            found.update(dict.fromkeys(keys))
        return list(found)

    async def _holding(self, scope: Scope, query: str, eligible: Eligible) -> list[int]:
        """The clauses that hold a document's number that the query names, whatever language they are in. A number that
        stands in more clauses than a list is long says what they are about, and names none."""
        exact: list[str] = []
        for forms in numbers(query)[:_MOST_NUMBERS]:
            _, times = await self._store.frequencies(scope, forms)
            exact += [form for form in forms if times[form]][:1]
        found = await self._store.lexical(scope, exact, eligible, DEPTH + 1) if exact else []
        return [hit.key for hit in found] if len(found) <= DEPTH else []

    async def _lexical(
        self, scope: Scope, question: Question, parsed: ParsedQuery, eligible: Eligible, *, alone: bool
    ) -> tuple[_Lexical, list[str]]:
        asked = query_terms(parsed.text)[:_MOST_TERMS]
        if question.mode == "dense":
            return _Lexical([], "off"), asked
        if alone or not asked:
            return _Lexical([]), asked
        script = script_of(question.query)
        langs = tuple(lang for lang in (question.langs or ("zh", "en")) if script in (None, lang))
        wanted = replace(eligible, langs=langs) if script else eligible
        found = await self._store.lexical(scope, asked, wanted, DEPTH) if langs else []
        differ = script is not None and not found and not langs
        return _Lexical([(hit.key, hit.score) for hit in found], "scripts_differ" if differ else None), asked

    async def _nearest(
        self, question: Question, eligible: Eligible, *, alone: bool
    ) -> tuple[list[tuple[int, float]], _State]:
        dense = self._dense
        if dense is None:
            return [], _State("off")
        state = dense.state()
        found = _State(None, state.version, state.embedder, state.applied)
        if question.mode == "lexical" or alone:
            return [], replace(found, left_out="off")
        if question.known_at is not None:
            return [], replace(found, left_out="past")  # a vector index knows what is believed now only
        wanted = VectorFilter(
            int(eligible.day.replace("-", "")), eligible.collections, eligible.doc_ids, eligible.kinds, eligible.langs,
            eligible.labels,
        )  # fmt: skip
        try:
            hits = await dense.search(question.query, DEPTH, wanted)
        except Unavailable as error:
            log.warning("the vector arm is left out: %s", error.detail)
            return [], replace(found, left_out="failed")
        if hits is None:
            return [], replace(found, left_out="not_ready")
        return [(hit.key, hit.score) for hit in hits], found

    def _fused(
        self, parsed: ParsedQuery, named: Sequence[int], lexical: _Lexical, dense: list[tuple[int, float]], *,
        alone: bool,
    ) -> list[Fused]:  # fmt: skip
        """A number with its document's name, or all by itself, leads; a bare one among words only tips the balance."""
        leads = alone or any(reference.titles for reference in parsed.references)
        arms: dict[Arm, Sequence[tuple[int, float]]] = {"lexical": lexical.found, "dense": dense}
        if not leads and named:
            arms["article"] = [(key, 1.0 / rank) for rank, key in enumerate(named, 1)]
        return fuse(arms, named if leads else ())

    # -- what the question covers --------------------------------------------------------------------------------

    async def _covered(
        self, scope: Scope, asked: Sequence[str], rows: Sequence[StoredClause], sure: Sequence[int]
    ) -> float:
        """The share of the best of ``rows``; 1 where the question names one of them by number."""
        if sure and {row.key for row in rows} & set(sure):
            return 1.0
        if not asked or not rows:
            return 0.0
        weighted = weights(asked, *await self._store.frequencies(scope, asked))
        return max(share(weighted, _held(row, weighted)) for row in rows[:_SHOWN])

    def _knows(self, covered: float, dense: Sequence[tuple[int, float]], hits: Sequence[ClauseHit]) -> bool:
        near = self._dense is not None and bool(dense) and dense[0][1] >= self._dense.near
        return bool(hits) and (covered >= RELEVANCE_THRESHOLD or near)

    async def _why_none(self, scope: Scope, asked: Sequence[str], eligible: Eligible) -> str:
        names = {name for name, _, _ in await self._store.collections(scope, eligible.labels)}
        if not names & set(eligible.collections):
            return "collection_empty"
        held = await self._store.lexical(scope, asked, replace(eligible, day=self._today()), 1) if asked else []
        return "no_version_in_force" if held and eligible.day != self._today() else "nothing_found"

    async def _require(self, scope: Scope, names: Sequence[str]) -> None:
        """The two that tools look in by themselves may be empty; any other has to be there for this caller."""
        others = [name for name in names if name not in (POLICIES, DOCS)]
        if not others:
            return
        there = {name for name, _, _ in await self._store.collections(scope, scope.sees)}
        for name in others:
            if name not in there:
                known = ", ".join(sorted(there)) or "none"
                raise CollectionNotFound(f"There is no collection {name}; there are: {known}.")

    async def _titles_of(self, scope: Scope) -> Titles:
        titles = tuple(await self._store.titles(scope))
        if titles != self._titles[0]:
            self._titles = (titles, Titles(titles))
        return self._titles[1]


@dataclass(frozen=True, slots=True)
class _State:
    left_out: str | None
    version: str | None = None
    embedder: str | None = None
    applied: int = 0


def _held(row: StoredClause, weighted: dict[str, float]) -> frozenset[str]:
    """Which of the question's terms a clause holds; a single CJK character is held by any term that has it."""
    text = " ".join([row.title, *row.clause.headings, row.clause.text])
    own = frozenset(terms(text))
    return frozenset(term for term in weighted if term in own or (len(term) == 1 and term in text))


def _hits(rows: Sequence[StoredClause], fused: Sequence[Fused], top_k: int) -> list[ClauseHit]:
    found = {f.key: f for f in fused}
    return [_hit(row, found[row.key].score, found[row.key].why) for row in rows[:top_k]]


def _hit(row: StoredClause, score: float, why: tuple[Ranked, ...]) -> ClauseHit:
    clause = row.clause
    return ClauseHit(
        row.doc_id, row.rev_id, row.title, clause.clause_id, clause.label, clause.text, row.effective_date,
        row.revision_date, row.url, score, " > ".join(clause.headings), clause.ordinal, clause.text_sha256,
        row.latest_rev, row.effective_basis, row.collection, row.valid_from, row.valid_to, why,
    )  # fmt: skip
