"""Conformance of a store to the port KnowledgeStore: what a search finds as of a day and of a time of knowledge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from devassist.core.errors import KnowledgeConflict
from devassist.core.terms import query_terms
from devassist.ports.knowledge_store import Eligible, KnowledgeStore, Opening, Plan
from devassist.testing.knowledge_kit import ALICE, NOW, T0, amendment, deletion, found, ids, keys, put, revision


class KnowledgeTimeSuite:
    # -- days and times ------------------------------------------------------------------------------------------

    async def test_a_revision_is_found_on_the_days_on_which_it_holds(self, store: KnowledgeStore) -> None:
        """Not before the first, on its first day, until the day before it ends; the text that matches best is no
        reason to find what does not hold."""
        old = revision("refund", "2024-01-01", "退货期限为七天。退货 退货 退货期限。")
        new = revision("refund", "2025-07-01", "退货期限为十五天。")
        await put(store, old, new)
        for day, expected in (
            ("2026-06-01", ids(new.rev_id, 0)), ("2025-06-30", ids(old.rev_id, 0)), ("2025-07-01", ids(new.rev_id, 0)),
            ("2024-01-01", ids(old.rev_id, 0)), ("2023-12-31", []), ("2023-01-01", []),
        ):  # fmt: skip
            assert await found(store, "退货期限", Eligible(day)) == expected, day
            for name in (*ids(old.rev_id, 0), *ids(new.rev_id, 0)):
                assert await store.is_eligible(ALICE, name, Eligible(day)) == (name in expected)
        (row,) = await store.clauses(ALICE, await keys(store, ids(old.rev_id, 0)), Eligible("2025-06-30"))
        assert (row.rev_id, row.valid_from, row.valid_to, row.latest_rev) == (
            old.rev_id, "2024-01-01", "2025-07-01", new.rev_id,
        )  # fmt: skip

    async def test_a_revision_of_the_future_waits_for_its_day(self, store: KnowledgeStore) -> None:
        """Invisible today, found by whoever asks about a day on which it holds."""
        await put(store, revision("law", "2030-01-01", "future words"))
        assert await found(store, "future") == []
        assert await found(store, "future", Eligible("2029-12-31")) == []
        assert await found(store, "future", Eligible("2030-01-01")) == ids("law@2030-01-01", 0)

    async def test_what_was_repealed_is_found_before_its_end(self, store: KnowledgeStore) -> None:
        """And never on its last day or later, whether its status says so or only its days."""
        for status in ("published", "repealed"):
            made = revision(status, "2020-01-01", "repealed words")
            opened = Opening(made.rev_id, status, "2020-01-01", "2022-01-01")
            await store.commit(ALICE, [Plan(status, 0, open=(opened,), add=made)], T0)
        for day, number in (("2021-12-31", 2), ("2022-01-01", 0), ("2026-06-01", 0)):
            assert len(await found(store, "repealed words", Eligible(day))) == number

    async def test_drafts_are_never_found(self, store: KnowledgeStore) -> None:
        """A draft may overlap what is published, and no search sees it."""
        made = revision("law", "2024-01-01", "draft words")
        await store.commit(
            ALICE, [Plan("law", 0, open=(Opening(made.rev_id, "draft", "2024-01-01", None),), add=made)], T0
        )
        assert await found(store, "draft words") == []
        assert await store.outbox(0, 10) == []
        opened = Opening(made.rev_id, "published", "2024-01-01", None)
        await store.commit(ALICE, [Plan("law", 1, open=(opened,))], T0)
        assert await found(store, "draft words") == ids(made.rev_id, 0)

    async def test_what_was_believed_then_is_found_as_of_then(self, store: KnowledgeStore) -> None:
        """A correction changes what is found now, and not what a question about an earlier time of knowledge finds."""
        wrong = revision("law", "2024-01-01", "the fee is ten")
        right = revision("law", "2024-01-01", "the fee is twelve", rev_id="law@2024-01-01.1")
        await put(store, wrong)
        (hit,) = await store.lexical(ALICE, query_terms("fee"), NOW, 5)
        then = replace(NOW, known_at=T0 + 10)
        before = await store.clauses(ALICE, [hit.key], then)
        await put(store, right, at=T0 + 100)
        assert await found(store, "fee") == ids(right.rev_id, 0)
        assert await found(store, "fee", then) == ids(wrong.rev_id, 0)
        assert await store.clauses(ALICE, [hit.key], then) == before
        for known_at, expected in ((T0 - 1, None), (T0, wrong), (T0 + 99, wrong), (T0 + 100, right)):
            wanted = replace(NOW, known_at=known_at)
            assert await found(store, "fee", wanted) == ([] if expected is None else ids(expected.rev_id, 0)), known_at
            for each in (wrong, right):
                assert await store.is_eligible(ALICE, f"{each.rev_id}#c-0", wanted) == (each is expected)

    async def test_what_is_not_yet_known_has_not_ended_the_old(self, store: KnowledgeStore) -> None:
        """As of an earlier knowledge the old revision is open-ended, and the latest is the latest of then."""
        old, new = revision("law", "2024-01-01", "same words"), revision("law", "2025-01-01", "same words")
        await put(store, old)
        await put(store, new, at=T0 + 100)
        (then,) = await store.clauses(ALICE, await keys(store, ids(old.rev_id, 0)), replace(NOW, known_at=T0))
        assert (then.valid_to, then.latest_rev) == (None, old.rev_id)
        assert await found(store, "same words", replace(NOW, known_at=T0)) == ids(old.rev_id, 0)

    # -- gone is gone --------------------------------------------------------------------------------------------

    async def test_a_shorter_revision_leaves_nothing_behind(self, store: KnowledgeStore) -> None:
        """Clauses that a revision no longer has are found only as of before; a refused commit changes nothing."""
        old = revision("rules", "2024-01-01", *(f"section {n}" for n in range(5)), "zebra-fee applies")
        new = revision("rules", "2025-01-01", "section one", "section two")
        await put(store, old)
        with pytest.raises(KnowledgeConflict):
            await store.commit(ALICE, [await amendment(store, new), Plan("rules", 0)], T0)
        assert await found(store, "zebra-fee") == ids(old.rev_id, 5)
        await put(store, new)
        assert await found(store, "zebra-fee") == []
        assert len(await found(store, "section")) == 2
        assert await found(store, "zebra-fee", Eligible("2024-12-31")) == ids(old.rev_id, 5)

    async def test_a_deleted_document_is_in_no_search(self, store: KnowledgeStore) -> None:
        """Not by terms, number or key, whatever day or time of knowledge; its twin of the same text stays, and the
        record of what was believed too."""
        await put(store, revision("d1", "2024-01-01", "twin text"), revision("d2", "2024-01-01", "twin text"))
        then = replace(NOW, known_at=T0 + 1)
        one, two = ids("d1@2024-01-01", 0), ids("d2@2024-01-01", 0)
        gone = await keys(store, one)
        await store.commit(ALICE, [await deletion(store, "d1")], T0 + 100)
        assert await found(store, "twin") == await found(store, "twin", then) == two
        assert await store.frequencies(ALICE, ["twin"]) == (1, {"twin": 1})
        await store.commit(ALICE, [await deletion(store, "d2")], T0 + 200)
        for wanted in (NOW, then):
            assert await store.lexical(ALICE, ["twin"], wanted, 10) == []
            assert await store.articles(ALICE, [], 1, 0, wanted, 10) == []
            assert await store.clauses(ALICE, gone, wanted) == []
        assert await store.titles(ALICE) == []
        assert await store.is_eligible(ALICE, one[0], then)
        assert not await store.is_eligible(ALICE, one[0], NOW)
        assert (await store.clause(ALICE, one[0])) is not None

    async def test_what_was_withdrawn_is_in_no_search(self, store: KnowledgeStore) -> None:
        """It was found before, and is not found any more, as of that time either; published again, it is."""
        made = revision("law", "2024-01-01", "withdrawn words")
        await put(store, made)
        (belief,) = await store.beliefs(ALICE, "law")
        withdrawn = Opening(made.rev_id, "withdrawn", "2024-01-01", None)
        await store.commit(ALICE, [Plan("law", 1, (belief.belief_id,), (withdrawn,))], T0 + 9)
        assert await found(store, "withdrawn") == await found(store, "withdrawn", replace(NOW, known_at=T0)) == []
        opened = replace(withdrawn, status="published")
        belief = (await store.beliefs(ALICE, "law"))[-1]
        await store.commit(ALICE, [Plan("law", 2, (belief.belief_id,), (opened,))], T0 + 99)
        assert await found(store, "withdrawn") == ids(made.rev_id, 0)
