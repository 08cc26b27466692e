"""Conformance of a store to the port KnowledgeStore: beliefs, commits, and what is kept of them.

An adapter's test subclasses ``KnowledgeSuite``, ``KnowledgeListSuite``, ``KnowledgeSearchSuite`` and
``KnowledgeTimeSuite`` and gives a fixture ``store`` that yields an empty one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from devassist.core.errors import InvalidRequest, KnowledgeConflict
from devassist.ports.knowledge_rows import Ingested, Quarantined
from devassist.ports.knowledge_store import Change, ClauseNumber, HistoryEntry, KnowledgeStore, Opening, Plan
from devassist.testing.knowledge_kit import (
    ALICE,
    NOW,
    STRANGER,
    T0,
    amendment,
    clause,
    digest,
    first,
    found,
    keys,
    put,
    revision,
)

V1 = revision("rules", "2024-01-01", "alpha one", "alpha two", "alpha three")
V2 = revision("rules", "2025-01-01", "alpha one", "beta two")


async def everything(store: KnowledgeStore) -> Any:
    """What a refused commit must not have changed."""
    return (
        await store.beliefs(ALICE, "rules"), await store.revision(ALICE, V2.rev_id), await store.head(),
        await store.changes(0, 100), await store.frequencies(ALICE, ["alpha", "beta"]),
        await store.documents(ALICE, NOW), await store.raw(ALICE, digest("raw")),
    )  # fmt: skip


class KnowledgeSuite:
    # -- beliefs -------------------------------------------------------------------------------------------------

    async def test_an_amendment_closes_a_belief_and_opens_two(self, store: KnowledgeStore) -> None:
        """The old row keeps what was believed, the old revision is believed until the new one holds."""
        await put(store, V1)
        await put(store, V2, at=T0 + 5)
        beliefs = await store.beliefs(ALICE, "rules")
        assert [(b.rev_id, b.valid_from, b.valid_to, b.recorded_from, b.recorded_to) for b in beliefs] == [
            (V1.rev_id, "2024-01-01", None, T0, T0 + 5),
            (V1.rev_id, "2024-01-01", "2025-01-01", T0 + 5, None),
            (V2.rev_id, "2025-01-01", None, T0 + 5, None),
        ]

    async def test_recorded_time_rises_strictly_in_a_tenant(self, store: KnowledgeStore) -> None:
        """A clock that stands, or was put back, records just after the last; the plans of one commit follow on."""
        for doc_id in ("a", "b"):
            await put(store, revision(doc_id, "2024-01-01", "x"))
        await store.commit(ALICE, [first(revision(d, "2024-01-01", "x")) for d in ("c", "d")], T0 - 9)
        await store.commit(STRANGER, [first(revision("e", "2024-01-01", "x"))], T0)
        changes = await store.changes(0, 10)
        assert [(c.doc_id, c.at) for c in changes] == [
            ("a", T0),
            ("b", T0 + 1),
            ("c", T0 + 2),
            ("d", T0 + 3),
            ("e", T0),
        ]

    async def test_a_plan_from_another_state_is_refused(self, store: KnowledgeStore) -> None:
        """Of two plans made from the same state one is carried out, and the other changes nothing."""
        await put(store, V1)
        plan = await amendment(store, V2)
        other = await amendment(store, revision("rules", "2026-01-01", "gamma"))
        await store.commit(ALICE, [plan], T0)
        before = await everything(store)
        with pytest.raises(KnowledgeConflict):
            await store.commit(ALICE, [other], T0)
        assert await everything(store) == before

    @pytest.mark.parametrize(
        ("begins", "ends"), [("2024-06-01", None), ("2023-01-01", "2024-01-02"), ("2023-01-01", None)]
    )
    async def test_two_revisions_never_hold_on_one_day(
        self, store: KnowledgeStore, begins: str, ends: str | None
    ) -> None:
        """Overlapping intervals are refused, wherever they overlap, and change nothing."""
        await put(store, V1)
        before = await everything(store)
        made = replace(V2, valid_from=begins)
        plan = Plan("rules", 1, open=(Opening(made.rev_id, "published", begins, ends),), add=made, raw=b"raw")
        with pytest.raises(KnowledgeConflict):
            await store.commit(ALICE, [plan], T0)
        assert await everything(store) == before

    async def test_intervals_that_touch_do_not_overlap(self, store: KnowledgeStore) -> None:
        """One revision ends on the day on which the next begins."""
        await put(store, V1)
        early = revision("rules", "2023-01-01", "older")
        opened = Opening(early.rev_id, "published", "2023-01-01", "2024-01-01")
        await store.commit(ALICE, [Plan("rules", 1, open=(opened,), add=early)], T0)
        assert len(await store.beliefs(ALICE, "rules")) == 2

    @pytest.mark.parametrize(
        "opening",
        [
            Opening(V2.rev_id, "published", "2025-02-30", None),
            Opening(V2.rev_id, "published", "1.1.2025", None),
            Opening(V2.rev_id, "published", "2025-01-01", "2025-01-01"),
            Opening(V2.rev_id, "repealed", "2025-01-01", None),
            Opening("rules@1999-01-01", "published", "2025-01-01", None),
        ],
    )
    async def test_a_belief_that_makes_no_sense_is_refused(self, store: KnowledgeStore, opening: Opening) -> None:
        """No such day, an empty interval, a repeal without an end, a revision that is not stored."""
        await put(store, V1)
        (belief,) = await store.beliefs(ALICE, "rules")
        before = await everything(store)
        with pytest.raises(KnowledgeConflict):
            await store.commit(ALICE, [Plan("rules", 1, (belief.belief_id,), (opening,), V2)], T0)
        assert await everything(store) == before

    async def test_a_belief_is_closed_once_and_by_its_own_document(self, store: KnowledgeStore) -> None:
        """Closing what is closed, or what is another document's, is refused."""
        await put(store, V1, V2, revision("other", "2024-01-01", "x"))
        closed = (await store.beliefs(ALICE, "rules"))[0].belief_id
        others = (await store.beliefs(ALICE, "other"))[0].belief_id
        for belief in (closed, others, 10**9):
            with pytest.raises(KnowledgeConflict):
                await store.commit(ALICE, [Plan("rules", 3, (belief,))], T0)

    async def test_a_commit_is_whole_or_nothing(self, store: KnowledgeStore) -> None:
        """Where the last of several plans is refused, nothing of the others is there; and neighbours are untouched."""
        await put(store, V1)
        before = await everything(store)
        good = [first(revision(f"doc{n}", "2024-01-01", "alpha")) for n in range(3)]
        mixed = store.commit(ALICE, [*good, Plan("rules", 99)], T0)
        other = store.commit(ALICE, [first(revision("fine", "2024-01-01", "delta"))], T0)
        refused, _ = await asyncio.gather(mixed, other, return_exceptions=True)
        assert isinstance(refused, KnowledgeConflict)
        assert await found(store, "delta") == ["fine@2024-01-01#c-0"]
        assert [d.doc_id for d in (await store.documents(ALICE, NOW))[0]] == ["fine", "rules"]
        assert (await store.frequencies(ALICE, ["alpha", "beta"]))[1] == before[4][1]

    # -- what is kept --------------------------------------------------------------------------------------------

    async def test_a_revision_comes_back_as_it_was_given(self, store: KnowledgeStore) -> None:
        """Every field, for as long as there is a store."""
        history = (
            HistoryEntry("2023-12-01", "assembly", "adopted", "Order 1", (), "stated_in_source"),
            HistoryEntry(
                "2024-03-01", "assembly", "amended", None, (Change("renumber", "1", "2", 0.75),), "computed_diff"
            ),
        )
        rich = clause(
            "law@2024-05-01", 1, "乙 text", kind="paragraph", number=ClauseNumber(16, 1, 3, 2),
            headings=("第一章", "甲"), parent_id="law@2024-05-01#c-0", page=7, start=10, end=16, refs=("other#1",),
        )  # fmt: skip
        made = revision("law", "2024-05-01", "甲 text", history=history, issuer="assembly", promulgated_on="2024-03-01")
        made = replace(
            made, clauses=(*made.clauses, rich), labels=("hr",), extra={"a": {"b": [1, None]}}, lang="en",
            effective_date="2024-05-01", effective_basis="stated", supersedes="law@2020-01-01",
            source=replace(made.source, charset="gb18030", licence="public"),
        )  # fmt: skip
        raw = bytes(range(256)) * 100
        await store.commit(ALICE, [replace(first(made), raw=raw)], T0)
        assert await store.revision(ALICE, made.rev_id) == made
        stored = await store.clause(ALICE, rich.clause_id)
        assert stored is not None
        assert (stored.clause, stored.doc_id, stored.url, stored.labels) == (rich, "law", made.source.url, ("hr",))
        assert (stored.revision_date, stored.effective_date, stored.effective_basis) == (
            "2024-03-01", "2024-05-01", "stated",
        )  # fmt: skip
        assert await store.raw(ALICE, sha256(raw).hexdigest()) == raw

    async def test_the_same_revision_again_is_kept_once(self, store: KnowledgeStore) -> None:
        """Fetched on another day it is the same; with another text, title or label under its id it is refused."""
        await put(store, V1)
        seen = 1
        refetched = replace(V1, source=replace(V1.source, retrieved_at="2027-01-01T00:00:00Z"))
        await store.commit(ALICE, [Plan("rules", seen, add=refetched)], T0)
        assert await store.revision(ALICE, V1.rev_id) == V1
        assert (await store.frequencies(ALICE, ["alpha"])) == (3, {"alpha": 3})
        for other in (
            revision("rules", "2024-01-01", "altered"),
            replace(V1, title="Another"),
            replace(V1, labels=("secret",)),
        ):
            with pytest.raises(KnowledgeConflict):
                await store.commit(ALICE, [Plan("rules", seen, add=other)], T0)

    async def test_clauses_need_places_of_their_own(self, store: KnowledgeStore) -> None:
        """Two clauses with one ordinal, or one id, are refused."""
        twice = (clause("d@2024-01-01", 0, "x"), clause("d@2024-01-01", 0, "y"))
        with pytest.raises(InvalidRequest):
            await store.commit(ALICE, [first(revision("d", "2024-01-01", clauses=twice))], T0)
        named = (twice[0], replace(twice[1], ordinal=1))
        with pytest.raises(KnowledgeConflict):
            await store.commit(ALICE, [first(revision("d", "2024-01-01", clauses=named))], T0)

    async def test_tenants_share_no_name_and_no_statistics(self, store: KnowledgeStore) -> None:
        """The same ids in two tenants are two documents, and neither sees the other's in any way."""
        await store.commit(ALICE, [replace(first(V1), raw=b"one")], T0)
        theirs = revision("rules", "2024-01-01", "alpha theirs")
        assert await store.titles(STRANGER) == []
        assert await store.frequencies(STRANGER, ["alpha"]) == (0, {"alpha": 0})
        await store.commit(STRANGER, [first(theirs)], T0)
        assert await store.revision(STRANGER, theirs.rev_id) == theirs
        assert await store.revision(ALICE, V1.rev_id) == V1
        assert await store.frequencies(STRANGER, ["alpha", "two"]) == (1, {"alpha": 1, "two": 0})
        assert await store.raw(STRANGER, digest("one")) is None
        mine = await keys(store, [c.clause_id for c in V1.clauses])
        assert await store.clauses(STRANGER, mine, NOW) == []
        assert await found(store, "three", scope=STRANGER) == []

    async def test_files_are_remembered_by_collection_and_name(self, store: KnowledgeStore) -> None:
        """What was ingested is found again; what failed is listed with its latest reason until it is ingested."""
        await put(store, V1)
        bad = Quarantined("a.pdf", "0" * 64, "no_text", "only images", T0, "policies")
        await store.quarantine(ALICE, [bad, replace(bad, name="b.pdf", at=T0 + 1)])
        await store.quarantine(ALICE, [replace(bad, code="encrypted", at=T0 + 2)])
        assert [(q.name, q.code) for q in await store.quarantined(ALICE)] == [
            ("a.pdf", "encrypted"),
            ("b.pdf", "no_text"),
        ]
        assert [q.name for q in await store.quarantined(ALICE, 1)] == ["a.pdf"]
        assert await store.quarantined(STRANGER) == []
        done = Ingested("a.pdf", "1" * 64, "pdf/2", V1.rev_id)
        await store.note_ingested(ALICE, [done])
        assert await store.ingested(ALICE, "policies", "a.pdf") == done
        assert await store.ingested(ALICE, "docs", "a.pdf") is None
        assert await store.ingested(STRANGER, "policies", "a.pdf") is None
        assert [q.name for q in await store.quarantined(ALICE)] == ["b.pdf"]
        with pytest.raises(KnowledgeConflict):
            await store.note_ingested(ALICE, [done, replace(done, rev_id="nobody@2020-01-01")])

    async def test_files_are_listed_by_the_beginning_of_their_names_and_forgotten(self, store: KnowledgeStore) -> None:
        """Letter for letter, in one collection of one tenant; what a forgotten file became stays."""
        await put(store, V1)
        names = ["dir/a", "dir/b", "dir%c", "dirs/d", "DIR/e"]
        await store.note_ingested(ALICE, [Ingested(name, "1" * 64, "kit/1", V1.rev_id) for name in reversed(names)])

        async def below(prefix: str) -> list[str]:
            return [file.name for file in await store.ingested_below(ALICE, "policies", prefix)]

        assert await below("dir/") == ["dir/a", "dir/b"]
        assert await below("dir%") == ["dir%c"]
        assert await below("") == sorted(names)
        assert (
            await store.ingested_below(ALICE, "docs", "") == await store.ingested_below(STRANGER, "policies", "") == []
        )
        await store.forget_ingested(STRANGER, "policies", ["dir/a"])
        await store.forget_ingested(ALICE, "policies", ["dir/a", "nothing"])
        assert await below("dir/") == ["dir/b"]
        assert await store.ingested(ALICE, "policies", "dir/a") is None
        assert await store.revision(ALICE, V1.rev_id) == V1
