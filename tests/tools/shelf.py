"""A small library of fixed clauses for tests: labels and days are kept, ranking is by shared characters."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from devassist.core.errors import CallerError, CollectionNotFound
from devassist.core.scope import Scope
from devassist.core.terms import has_words, terms
from devassist.ports.library import DOCS, POLICIES, Answered, ArmReport, ClauseHit, Question, Ranked


def passage(doc_id: str, number: int, text: str, **fields: object) -> ClauseHit:
    """A clause of a document of one revision, in force from 2024 on."""
    rev_id = f"{doc_id}@2024-01-01"
    made = ClauseHit(
        doc_id, rev_id, doc_id.title(), f"{rev_id}#s-{number}", f"Part {number}", text, "2024-01-01", None,
        f"https://docs.example/{doc_id}", 1.0, f"Guide > Part {number}", number, sha256(text.encode()).hexdigest(),
        rev_id, collection=DOCS, valid_from="2024-01-01",
    )  # fmt: skip
    return replace(made, **fields)


class Shelf:
    """Keeps every question. ``secret`` maps a clause id to the label that opens it; ``withheld`` counts the others."""

    def __init__(self, *clauses: ClauseHit, secret: dict[str, str] | None = None, today: str = "2026-01-01") -> None:
        self.clauses, self.secret, self.today = list(clauses), secret or {}, today
        self.asked: list[Question] = []
        self.scopes: list[Scope] = []

    async def search(self, scope: Scope, question: Question) -> Answered:
        self.asked.append(question)
        self.scopes.append(scope)
        if not has_words(question.query):
            raise CallerError("The query holds no word to search for.", code="blank_query")
        there = await self.extent(scope)
        for name in question.collections:
            if name not in (DOCS, POLICIES) and name not in there:
                raise CollectionNotFound(f"There is no collection {name}.")
        day = question.as_of or self.today
        fits = [c for c in self.clauses if c.valid_from <= day and (c.valid_to is None or day < c.valid_to)]
        fits = [c for c in fits if c.collection in question.collections]
        open_ = [c for c in fits if self._opens(scope, c)]
        wanted = set(terms(question.query))
        ranked = sorted(open_, key=lambda c: (-len(wanted & set(terms(c.text))), c.clause_id))[: question.top_k]
        hits = [replace(c, why=(Ranked("lexical", n, c.score),)) for n, c in enumerate(ranked, 1)]
        return Answered(
            tuple(hits), day, question.known_at or 1_700_000_000_000_000, "eligible/1",
            None if hits else "nothing_found", 1.0, (ArmReport("lexical", len(hits)),),
            withheld=len(fits) - len(open_),
        )  # fmt: skip

    def _opens(self, scope: Scope, clause: ClauseHit) -> bool:
        label = self.secret.get(clause.clause_id)
        return label is None or scope.sees is None or label in scope.sees

    async def best_score(self, scope: Scope, query: str, collection: str = POLICIES) -> float:
        wanted = set(terms(query))
        shares = [
            len(wanted & set(terms(c.text))) / len(wanted)
            for c in self.clauses
            if wanted and c.collection == collection and self._opens(scope, c)
        ]
        return max(shares, default=0.0)

    async def extent(self, scope: Scope) -> dict[str, tuple[int, int]]:
        seen = [c for c in self.clauses if self._opens(scope, c)]
        names = {c.collection for c in seen}
        return {
            name: (len({c.doc_id for c in seen if c.collection == name}), sum(c.collection == name for c in seen))
            for name in sorted(names)
        }
