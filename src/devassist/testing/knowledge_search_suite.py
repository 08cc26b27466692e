"""Conformance of a store to the port KnowledgeStore: what a search finds, and what it never finds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from devassist.ports.knowledge_store import ClauseNumber, Eligible, KnowledgeStore
from devassist.testing.knowledge_kit import (
    ALICE,
    NOW,
    T0,
    clause,
    deletion,
    first,
    found,
    ids,
    keys,
    put,
    revision,
)


async def documents(store: KnowledgeStore, texts: dict[str, str]) -> None:
    """One document with one clause for each text."""
    await store.commit(ALICE, [first(revision(name, "2024-01-01", text)) for name, text in texts.items()], T0)


async def ranked(store: KnowledgeStore, query: str) -> list[str]:
    """The documents that a query finds, best first."""
    return [name.partition("@")[0] for name in await found(store, query)]


class KnowledgeSearchSuite:
    # -- filters act before ranking ------------------------------------------------------------------------------

    async def test_a_filter_never_starves_the_list(self, store: KnowledgeStore) -> None:
        """Three of two hundred clauses may be seen, all others match better: the three are found."""
        seen = [revision(f"seen-{n}", "2024-01-01", "target " + "filler " * 40) for n in range(3)]
        others = [revision(f"other-{n}", "2024-01-01", "target target", labels=("secret",)) for n in range(97)]
        old = [revision(f"old-{n}", "2020-01-01", "target target") for n in range(100)]
        await store.commit(ALICE, [first(r) for r in (*others[:50], *seen, *others[50:])], T0)
        await store.commit(ALICE, [first(r, "2021-01-01") for r in old], T0)
        wanted = replace(NOW, labels=frozenset({"mine"}))
        expected = [f"seen-{n}@2024-01-01#c-0" for n in range(3)]
        assert sorted(await found(store, "target", wanted, 3)) == expected
        assert len(await found(store, "target", NOW, 100)) == 100
        assert await store.withheld(ALICE, wanted) == 97

    async def test_each_filter_chooses(self, store: KnowledgeStore) -> None:
        """Collection, document, kind and language, alone and together."""
        await put(
            store,
            revision("a", "2024-01-01", "common"),
            revision("b", "2024-01-01", "common", collection="docs", lang="en", kind="guide"),
            revision("c", "2024-01-01", "common", collection="docs"),
        )
        for wanted, expected in (
            (NOW, ["a", "b", "c"]),
            (replace(NOW, collections=("docs",)), ["b", "c"]),
            (replace(NOW, collections=("docs", "policies")), ["a", "b", "c"]),
            (replace(NOW, doc_ids=("a", "c")), ["a", "c"]),
            (replace(NOW, kinds=("guide",)), ["b"]),
            (replace(NOW, langs=("zh",)), ["a", "c"]),
            (replace(NOW, collections=("docs",), langs=("zh",)), ["c"]),
            (replace(NOW, doc_ids=("a",), collections=("docs",)), []),
        ):
            assert sorted(n.partition("@")[0] for n in await found(store, "common", wanted)) == expected, wanted

    async def test_deleted_clauses_leave_room_for_live_ones(self, store: KnowledgeStore) -> None:
        """The best ten are deleted: the next five are found."""
        best = [revision(f"best-{n}", "2024-01-01", "target") for n in range(10)]
        live = [revision(f"live-{n:02}", "2024-01-01", "target among many other words") for n in range(20)]
        await store.commit(ALICE, [first(r) for r in (*best, *live)], T0)
        await store.commit(ALICE, [await deletion(store, r.doc_id) for r in best], T0)
        assert [name[:4] for name in await found(store, "target", NOW, 5)] == ["live"] * 5

    # -- terms ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "terms", [[], [""], [" "], ['"'], ["AND", "OR", "NOT"], ["*"], ["a'", "or", "1=1", "--"], ["(("], ["head:x"],
                  ["x*"], ["NEAR(a b)"], ["-"], ["^x"], ["{head}"], ["\u0001"], ["a" * 5000], ['"x" OR "alpha"']]
    )  # fmt: skip
    async def test_terms_are_never_syntax(self, store: KnowledgeStore, terms: list[str]) -> None:
        """Whatever stands in them, nothing fails and nothing is found that does not hold them."""
        await documents(store, {"one": "alpha beta", "two": "gamma delta"})
        assert await store.lexical(ALICE, terms, NOW, 10) == []
        assert (await store.frequencies(ALICE, terms))[0] == 2

    async def test_a_single_character_is_found_wherever_it_stands(self, store: KnowledgeStore) -> None:
        """At the beginning, in the middle, at the end and alone; and not where it does not stand."""
        await documents(
            store, {"d1": "增值税按季申报。", "d2": "税。", "d3": "运费由买方承担。", "d4": "应缴税", "d5": "免税的"}
        )
        assert sorted(await ranked(store, "税")) == ["d1", "d2", "d4", "d5"]
        assert (await store.frequencies(ALICE, ["税"]))[1] == {"税": 4}

    async def test_numbers_and_codes_are_found_whole(self, store: KnowledgeStore) -> None:
        """13%, 3% and 1.3% are three; a code is found by itself, and written otherwise it is the same."""
        await documents(
            store,
            {
                "d1": "加急件费率为13%。",
                "d2": "普通件费率为3%。",
                "d3": "折扣率1.3%。",
                "d4": "型号 AX-13 的上限为 130 件。",
            },
        )
        for query, best in (
            ("13%", "d1"),
            ("3%", "d2"),
            ("1.3%", "d3"),
            ("AX-13", "d4"),
            ("13 %", "d1"),
            ("１３％", "d1"),
        ):
            assert (await ranked(store, query))[0] == best, query

    async def test_english_words_are_found_by_their_stems(self, store: KnowledgeStore) -> None:
        """The form in which a question has a word need not be the text's."""
        await documents(store, {"d1": "Employees are reimbursed for travelling.", "d2": "Nothing of the kind."})
        assert await ranked(store, "reimbursement of a travelled employee") == ["d1"]
        assert (await store.frequencies(ALICE, ["employee", "travel", "reimburse"]))[1] == {
            "employee": 1, "travel": 1, "reimburse": 1,
        }  # fmt: skip

    async def test_titles_and_headings_are_searched(self, store: KnowledgeStore) -> None:
        """A clause is found by what stands above it."""
        headed = clause("law@2024-01-01", 0, "nothing more", headings=("Chapter one", "Annual leave"))
        await put(store, revision("law", "2024-01-01", clauses=(headed,), title="Labour code"))
        assert await found(store, "leave") == await found(store, "labour") == ids("law@2024-01-01", 0)

    async def test_scores_fall_and_the_best_comes_first(self, store: KnowledgeStore) -> None:
        """More of the terms, and rarer ones, are better."""
        await documents(
            store, {"d1": "red green blue", "d2": "red green", "d3": "red", **{f"n{n}": "red" for n in range(5)}}
        )
        hits = await store.lexical(ALICE, ["red", "green", "blue"], NOW, 10)
        assert len(hits) == 8
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert (await ranked(store, "red green blue"))[:2] == ["d1", "d2"]
        assert len(await store.lexical(ALICE, ["red"], NOW, 3)) == 3

    # -- numbers, titles, keys -----------------------------------------------------------------------------------

    async def test_articles_are_found_by_their_number(self, store: KnowledgeStore) -> None:
        """第十二条 is neither 第二十二条 nor 第一百一十二条, and 第十二条之一 is another; where a title is named, only
        documents of that title are looked at."""
        numbers = [ClauseNumber(11), ClauseNumber(12), ClauseNumber(22), ClauseNumber(112), ClauseNumber(12, 1)]
        for title in ("公司法", "合同法"):
            doc_id = "company" if title == "公司法" else "contract"
            rev_id = f"{doc_id}@2024-01-01"
            made = tuple(clause(rev_id, n, f"text {n}", number=number) for n, number in enumerate(numbers))
            await put(store, revision(doc_id, "2024-01-01", clauses=made, title=title))

        async def named(titles: list[str], article: int, sub: int = 0, wanted: Eligible = NOW) -> list[str]:
            rows = await store.clauses(ALICE, await store.articles(ALICE, titles, article, sub, wanted, 10), wanted)
            return [row.clause.clause_id for row in rows]

        assert await named(["公司法"], 12) == ids("company@2024-01-01", 1)
        assert await named([], 12) == ids("company@2024-01-01", 1) + ids("contract@2024-01-01", 1)
        assert await named(["合同法"], 12, 1) == ids("contract@2024-01-01", 4)
        assert await named(["刑法"], 12) == await named(["公司法"], 13) == []
        assert await named([], 12, 0, Eligible("2023-12-31")) == []
        assert await named([], 12, 0, replace(NOW, doc_ids=("contract",))) == ids("contract@2024-01-01", 1)
        assert len(await store.articles(ALICE, [], 12, 0, NOW, 1)) == 1

    async def test_titles_follow_every_change(self, store: KnowledgeStore) -> None:
        """What is believed now, each once, and nothing of what is gone."""
        assert await store.titles(ALICE) == []
        await put(
            store, revision("a", "2024-01-01", "x", title="Beta"), revision("b", "2024-01-01", "x", title="Alpha")
        )
        assert await store.titles(ALICE) == await store.titles(ALICE) == ["Alpha", "Beta"]
        await put(store, revision("c", "2024-01-01", "x", title="Alpha"))
        assert await store.titles(ALICE) == ["Alpha", "Beta"]
        await store.commit(ALICE, [await deletion(store, "a")], T0)
        assert await store.titles(ALICE) == ["Alpha"]

    async def test_clauses_come_in_the_order_of_their_keys(self, store: KnowledgeStore) -> None:
        """Those that are eligible, each as often as it is asked for; unknown keys are passed over."""
        await put(store, revision("a", "2024-01-01", "x", "y", "z"), revision("b", "2030-01-01", "w"))
        a, b, c = await keys(store, ids("a@2024-01-01", 0, 1, 2))
        (later,) = await keys(store, ids("b@2030-01-01", 0))
        rows = await store.clauses(ALICE, [c, later, 10**15, a, b], NOW)
        assert [row.key for row in rows] == [c, a, b]
        assert await store.clauses(ALICE, [], NOW) == []

    async def test_a_reader_never_sees_half_a_commit(self, store: KnowledgeStore) -> None:
        """While revisions follow one another, every search finds all clauses of exactly one."""
        await put(store, revision("rules", "2024-01-01", *["word"] * 20))
        done = asyncio.Event()

        async def write() -> None:
            for n in range(1, 15):
                await put(store, revision("rules", "2024-01-01", *["word"] * 20, rev_id=f"rules@2024-01-01.{n}"))
            done.set()

        async def read() -> int:
            times = 0
            while not done.is_set():
                hits = await store.lexical(ALICE, ["word"], NOW, 100)
                assert len(hits) == 20
                assert len({hit.key >> 20 for hit in hits}) == 1
                times += 1
            return times

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            readers = [tasks.create_task(read()) for _ in range(3)]
        assert all(reader.result() > 0 for reader in readers)
