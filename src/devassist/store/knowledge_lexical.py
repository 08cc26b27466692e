"""The lexical arm: BM25 over a tenant's full-text index, at a cost that is bounded before it begins.

The price of a query is the number of places where its terms stand. Rare terms decide a ranking and cost little, so a
query is asked with its rarest terms within a budget (measured on 58,827 statute articles: a third of the time of all
terms, and slightly better answers). Only where a narrow filter leaves too few hits are the common ones asked too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import apsw

from devassist.core.terms import is_word
from devassist.ports.knowledge_store import Eligible, LexicalHit
from devassist.store.database import Database
from devassist.store.knowledge_filter import SQL, Filter, eligible

BUDGETS = 12_000, 400_000
"""Places where the terms of a first attempt, and of a second, may stand in all; the rarest term is always asked."""
MOST_TERMS = 64, 256
"""How many are asked at most, at first and then: each costs something at every place, its own or not."""
MOST_COUNTED = 400
"""How many terms of a query are looked at, in its order."""
MOST_CHARACTERS = 3
"""Of single CJK characters, which stand in so many places that few can be asked."""
NARROW = 0.05
"""A collection with less than this share of the clauses is filtered before anything is ranked."""
_TOKENIZER = ("unicode61", "remove_diacritics", "0", "categories", "L* M* N* Co", "tokenchars", "_.-/%")


class Lexical:
    """Over one connection, for one thread. Raises apsw.Error."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._stemmer = cast("Any", db).fts5_tokenizer("porter", list(_TOKENIZER))

    def search(self, tenant: int, terms: Sequence[str], wanted: Eligible, limit: int) -> list[LexicalHit]:
        """See ports.knowledge_store.KnowledgeStore.lexical."""
        counted = self._prices(tenant, terms)
        asked = sorted((t for t in counted if counted[t]), key=lambda term: (counted[term], term))
        if not asked or limit < 1:
            return []
        where = eligible(tenant, wanted, shown=False)  # what is hidden is not indexed
        few, many = (_within(asked[:most], counted, budget) for most, budget in zip(MOST_TERMS, BUDGETS, strict=True))
        if wanted.doc_ids:
            return self._ask(many, where, "filtered_then_ranked", "probe_set", limit)
        if wanted.collections and self._is_narrow(tenant, where):
            return self._ask(many, where, "filtered_then_ranked", "probe_collections", limit)
        found = self._ask(few, where, "ranked_then_filtered", "probe_each", limit)
        if len(found) < limit and len(few) < len(many):
            found = self._ask(many, where, "filtered_then_ranked", "probe_each", limit)
        return found

    def counts(self, tenant: int, terms: Sequence[str]) -> dict[str, int]:
        """In how many indexed clauses each of the distinct terms stands; a single CJK character in any term."""
        return {term: self._count(tenant, term) for term in dict.fromkeys(terms)}

    def indexed(self, tenant: int) -> int:
        """How many clauses the index holds."""
        row = self._db.execute(SQL["indexed"], (tenant,)).fetchone()
        return int(row[0]) if row else 0

    def _prices(self, tenant: int, terms: Sequence[str]) -> dict[str, int]:
        """``counts``, but for single characters, of which counting costs as much as asking: the first few are asked."""
        distinct = list(dict.fromkeys(terms))[:MOST_COUNTED]
        alone = [term for term in distinct if _is_character(term)][:MOST_CHARACTERS]
        return dict.fromkeys(alone, 1) | self.counts(tenant, [term for term in distinct if not _is_character(term)])

    def _ask(self, terms: Sequence[str], where: Filter, statement: str, probe: str, limit: int) -> list[LexicalHit]:
        tenant = str(where.values["tenant"])
        sql = where.fill(statement, tenant=tenant, probe=SQL[probe])
        values = where.values | {"match": " OR ".join(map(_quoted, terms)), "limit": limit}
        return [LexicalHit(key, score) for key, score in self._db.execute(sql, values)]

    def _count(self, tenant: int, term: str) -> int:
        if _is_character(term):
            sql, value = SQL["count_matches"], _quoted(term)
        else:
            stems = self._stemmer(term.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)
            if len(stems) != 1:  # the index keeps it as a phrase, or not at all
                sql, value = SQL["count_matches"], _quoted(term)
            else:
                sql, value = SQL["frequency"], stems[0][0]
        row = self._db.execute(sql.replace("{tenant}", str(tenant)), (value,)).fetchone()
        return int(row[0]) if row else 0

    def _is_narrow(self, tenant: int, where: Filter) -> bool:
        row = self._db.execute(SQL["collection_extent"], where.values).fetchone()
        return row is not None and (row[0] or 0) < NARROW * self.indexed(tenant)


def _within(terms: Sequence[str], counted: dict[str, int], budget: int) -> list[str]:
    """The rarest terms that stand in no more than ``budget`` places in all; the first in any case."""
    chosen: list[str] = []
    for term in terms:
        budget -= counted[term]
        if chosen and budget < 0:
            break
        chosen.append(term)
    return chosen


def _is_character(term: str) -> bool:
    return len(term) == 1 and not is_word(term)


def _quoted(term: str) -> str:
    """A term as an FTS5 string, in which nothing is syntax; every place of a character begins a term."""
    text = '"' + term.replace('"', '""') + '"'
    return text + " *" if _is_character(term) else text
