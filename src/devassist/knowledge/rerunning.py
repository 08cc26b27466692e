"""Recorded searches against today's table (adapter of ``ports.rerun``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from devassist.core.errors import CallerError, CollectionNotFound, Forbidden
from devassist.core.scope import Right, Scope
from devassist.knowledge.rerun import Facts, compared
from devassist.knowledge.timeline import believed
from devassist.ports.knowledge_store import Eligible, KnowledgeStore
from devassist.ports.library import Answered, Library, Question
from devassist.ports.rerun import Placed, Rerun

_MODES: tuple[Literal["hybrid", "lexical", "dense"], ...] = ("hybrid", "lexical", "dense")
_MOST = 1000


@dataclass(frozen=True, slots=True)
class _Recorded:
    question: Question
    as_of: str
    known_at: int
    labels: tuple[str, ...] | None
    rule: str
    hits: tuple[Placed, ...]
    dense: tuple[object, ...]


class TableReruns:
    """``today`` gives the day as an ISO date."""

    def __init__(self, store: KnowledgeStore, library: Library, *, today: Callable[[], str]) -> None:
        self._store, self._library, self._today = store, library, today

    async def again(self, scope: Scope, record: Mapping[str, Any]) -> Rerun:
        """See ports.rerun."""
        if not scope.is_admin:
            raise Forbidden("Recorded searches are repeated by administrators.")
        then = _read(record)
        everything: frozenset[Right] = frozenset({"user", "admin"})
        as_asked = Scope(
            scope.tenant, scope.actor, everything if then.labels is None else frozenset({"user"}),
            frozenset(then.labels or ()),
        )  # fmt: skip
        answered, fault = await self._search(as_asked, then.question)
        day = then.question.as_of or self._today()
        found = () if answered is None else answered.hits
        now = [
            await self._placed(scope, Placed(rank, hit.doc_id, hit.rev_id, hit.clause_id))
            for rank, hit in enumerate(found, 1)
        ]
        recorded = [await self._placed(scope, hit) for hit in then.hits]
        was, today = _filters(then, day, as_asked.sees)
        facts = {p.clause_id: await self._facts(scope, p, was, today) for p in (*recorded, *now)}
        same = answered is None or _dense_of(answered.record()) == then.dense
        return Rerun(
            then.question.query, then.question.collections, then.as_of, day, then.known_at, then.labels, then.rule,
            tuple(compared(recorded, now, facts, same_index=same)), len(recorded),
            tuple(p.clause_id for p in recorded if not facts[p.clause_id].then), fault,
        )  # fmt: skip

    async def _search(self, scope: Scope, question: Question) -> tuple[Answered | None, str | None]:
        """A collection that is gone finds nothing; that is what the comparison then says of each clause."""
        try:
            return await self._library.search(scope, question), None
        except CollectionNotFound as error:
            return None, error.code

    async def _placed(self, scope: Scope, placed: Placed) -> Placed:
        stored = await self._store.clause(scope, placed.clause_id)
        return placed if stored is None else replace(placed, lineage_id=stored.clause.lineage_id)

    async def _facts(self, scope: Scope, placed: Placed, was: Eligible, today: Eligible) -> Facts:
        async def passes(wanted: Eligible) -> bool:
            return await self._store.is_eligible(scope, placed.clause_id, wanted)

        rows = believed(await self._store.beliefs(scope, placed.doc_id))
        document = Eligible(today.day, labels=today.labels, doc_ids=(placed.doc_id,))
        return Facts(
            then=await passes(was),
            then_any=await passes(replace(was, labels=None)),
            then_known=await passes(replace(was, known_at=None, labels=None)),
            now=await passes(today),
            now_any=await passes(replace(today, labels=None)),
            believed=bool(rows),
            holds=any(b.valid_from <= today.day and (b.valid_to is None or today.day < b.valid_to) for b in rows),
            seen=bool((await self._store.documents(scope, document, limit=1))[0]),
        )


def _filters(then: _Recorded, day: str, labels: frozenset[str] | None) -> tuple[Eligible, Eligible]:
    asked = then.question
    was = Eligible(
        then.as_of, asked.collections, then.known_at, labels, asked.doc_ids, asked.kinds, asked.langs
    )  # fmt: skip
    return was, replace(was, day=day, known_at=asked.known_at)


def _read(record: Mapping[str, Any]) -> _Recorded:
    """Raises CallerError (``not_repeatable``)."""
    try:
        asked, labels = record["question"], record["labels"]
        mode = asked.get("mode", "hybrid")
        question = Question(
            str(asked["query"]), _words(asked["collections"]), int(asked["top_k"]), asked.get("as_of"),
            asked.get("known_at"), _MODES[_MODES.index(mode)], bool(asked.get("relevant", False)),
            _words(asked.get("doc_ids", ())), _words(asked.get("kinds", ())), _words(asked.get("langs", ())),
        )  # fmt: skip
        listed = cast("Sequence[Mapping[str, Any]]", record["hits"])[:_MOST]
        hits = tuple(Placed(int(h["rank"]), str(h["doc_id"]), str(h["rev_id"]), str(h["clause_id"])) for h in listed)
        return _Recorded(
            question, str(record["as_of"]), int(record["known_at"]), None if labels is None else _words(labels),
            str(record["rule"]), hits, _dense_of(record),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CallerError(
            f"the record does not say what was asked ({type(error).__name__}: {error}), so it cannot be asked again",
            code="not_repeatable",
        ) from None


def _words(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _dense_of(record: Mapping[str, Any]) -> tuple[object, ...]:
    """How the vector arm took part."""
    left_out = next((arm["left_out"] for arm in record.get("arms", ()) if arm["arm"] == "dense"), "off")
    if left_out is not None:
        return (left_out,)
    lag = max(0, int(record.get("head_seq", 0)) - int(record.get("applied_seq", 0)))
    return None, record.get("embedder"), record.get("index_version"), lag
