"""The vector arm follows the table: what it embeds, what it survives, and that it never decides what is true."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from devassist.core.errors import EmbedderUnavailable
from devassist.knowledge.indexing import Dense
from devassist.ports.knowledge_store import IndexItem
from devassist.testing.hashing import HashingEmbedder
from devassist.vectors.exact import ExactIndex
from tests.knowledge.shelf import ADMIN, Shelf, shelf
from tests.knowledge.test_curating import RULES


class Counting:
    """An embedder that counts the passages it was asked for, and fails as long as it is told to."""

    def __init__(self, name: str = "counting/1") -> None:
        self._made = HashingEmbedder()
        self.name = name
        self.passages: list[str] = []
        self.broken = False

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        if self.broken:
            raise EmbedderUnavailable("the embedder is away")
        if kind == "passage":
            self.passages += texts
        return await self._made.embed(texts, kind)

    async def close(self) -> None:
        await self._made.close()


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
async def books(tmp_path: Path, embedder: Counting) -> AsyncGenerator[Shelf]:
    async with shelf(tmp_path, embedder, ExactIndex()) as found:
        yield found


def of(books: Shelf) -> Dense:
    assert books.dense is not None
    return books.dense


async def test_an_amendment_embeds_only_what_it_changed(books: Shelf, embedder: Counting) -> None:
    """Of an amended document only the clauses with another text are embedded; the others come from the cache."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await of(books).catch_up()
    before = len(embedder.passages)
    await books.put("relief.md", RULES.format(amount=950), effective="2025-07-01")
    await of(books).catch_up()
    assert (before, len(embedder.passages) - before) == (3, 1)


async def test_a_renumbering_embeds_nothing(books: Shelf, embedder: Counting) -> None:
    """Clauses that only got another number have the vectors that they had."""
    text = RULES.format(amount=800)
    await books.put("relief.md", text, effective="2023-09-01")
    await of(books).catch_up()
    before = len(embedder.passages)
    moved = text.replace("第二条", "第五条").replace("第三条", "第六条")
    outcome = await books.put("relief.md", moved, effective="2025-07-01")
    await of(books).catch_up()
    assert outcome.changes == {"keep": 1, "renumber": 2}
    assert len(embedder.passages) == before


async def test_both_arms_say_where_they_had_a_hit(books: Shelf) -> None:
    """A hit tells its rank and score in each arm, and the answer how many each arm found and that nothing lags."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await of(books).catch_up()
    answered = await books.ask("临时救助标准是多少")
    assert {w.arm for w in answered.hits[0].why} == {"lexical", "dense"}
    assert {a.arm: a.left_out for a in answered.arms} == {"article": "no_reference", "lexical": None, "dense": None}
    assert answered.index_lag == 0


async def test_a_stale_index_costs_recall_and_no_truth(books: Shelf) -> None:
    """Between a delete and the index's next step the vector arm still holds the clause, and no search shows it."""
    put = await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await of(books).catch_up()
    await books.curator.delete(ADMIN, put.doc_id or "")
    answered = await books.ask("临时救助标准")
    assert answered.hits == ()
    assert answered.index_lag > 0


async def test_without_its_embedder_the_lexical_arm_answers(books: Shelf, embedder: Counting) -> None:
    """An embedder that is away leaves its arm out, says so, and is tried again later."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    answered = await books.ask("临时救助标准")
    assert answered.hits
    assert answered.arms[-1].left_out == "not_ready"
    await of(books).catch_up()
    embedder.broken = True
    answered = await books.ask("临时救助标准")
    assert answered.hits
    assert answered.arms[-1].left_out == "failed"


async def test_a_crash_between_vectors_and_note_repeats_harmlessly(books: Shelf) -> None:
    """When the vectors are in and the note of it is not, the next start neither loses nor doubles a clause."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await of(books).catch_up()
    version, index, embedder = of(books).state().version, of(books)._index, Counting()
    await books.put("other.md", RULES.replace("临时救助", "医疗救助").format(amount=500), effective="2023-09-01")
    items = await books.store.items(await books.store.all_keys(0, 100))
    await index.upsert(version, items, await embedder.embed([i.embed_text for i in items], "passage"))
    restarted = Dense(books.store, embedder, index, near=2.0)
    assert await restarted.catch_up() == await books.store.head()
    assert restarted.state().version == version
    assert len(await index.keys(version)) == 6


async def test_a_version_that_was_never_complete_is_made_anew(books: Shelf) -> None:
    """What a stop left half made is dropped: no search ever sees it."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    index, half = of(books)._index, of(books).state().version.replace("-0", "-1")
    await index.create(half)
    await of(books).catch_up()
    assert set(await index.versions()) == {of(books).state().version} != {half}
    assert len((await books.ask("临时救助标准", mode="dense")).hits) == 3


async def test_another_embedder_is_another_version(tmp_path: Path) -> None:
    """Vectors of one embedder are never searched with another's, and its own come from its own part of the cache."""
    async with shelf(tmp_path, old := Counting("old/1"), ExactIndex()) as books:
        await books.put("relief.md", RULES.format(amount=800))
        await of(books).catch_up()
        before = of(books).state().version
    async with shelf(tmp_path, new := Counting("new/1"), ExactIndex()) as books:
        await of(books).catch_up()
        assert of(books).state().version != before
        assert (len(old.passages), len(new.passages)) == (3, 3)
    async with shelf(tmp_path, again := Counting("old/1"), ExactIndex()) as books:
        await of(books).catch_up()
        assert again.passages == []


async def test_a_rebuilt_index_equals_the_one_before(books: Shelf, embedder: Counting) -> None:
    """A new version is made from the cache alone, is checked, and answers as the old one did."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await of(books).catch_up()
    before, made = await books.ask("临时救助标准", mode="dense"), len(embedder.passages)
    state = of(books).state()
    assert await of(books).rebuild() == 3
    after = await books.ask("临时救助标准", mode="dense")
    assert [(h.clause_id, h.why) for h in after.hits] == [(h.clause_id, h.why) for h in before.hits]
    assert of(books).state().version != state.version
    assert len(embedder.passages) == made


async def test_a_lost_index_is_filled_again_from_the_cache(books: Shelf, embedder: Counting) -> None:
    """When the index's process is gone, the next look fills a new one without embedding anything."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await of(books).catch_up()
    made = len(embedder.passages)
    await of(books)._index.drop(of(books).state().version)  # what is left after its process ended: nothing
    answered = await books.ask("临时救助标准")
    assert (bool(answered.hits), answered.arms[-1].left_out) == (True, "failed")
    await of(books).catch_up()
    assert len((await books.ask("临时救助标准", mode="dense")).hits) == 3
    assert len(embedder.passages) == made


async def test_the_reconciler_mends_what_is_missing_and_what_is_too_much(books: Shelf) -> None:
    """An index that lost a clause and holds one that is none is made to fit the table again."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await of(books).catch_up()
    index, version = of(books)._index, of(books).state().version
    (first, *_) = keys = sorted(await index.keys(version))
    stray = IndexItem(10_000, "x", 20200101, 99991231, "policies", "gone", "zh", "law", (), "x", "y")
    await index.remove(version, [first])
    await index.upsert(version, [stray], await HashingEmbedder().embed(["x"], "passage"))
    assert await of(books).reconcile() == (1, 1)
    assert sorted(await index.keys(version)) == keys


async def test_a_filtered_query_fills_its_places(books: Shelf) -> None:
    """Where most of the nearest clauses do not hold on the day, the search still finds as many as it should."""
    for number in range(30):
        text = f"# 办法{number}\n\n第一条 临时救助标准为每人每月八百元，第{number}号。\n"
        await books.put(f"old{number}.md", text, doc_id=f"old-{number}", effective="2020-01-01", valid_to="2021-01-01")
    for number in range(5):
        text = f"# 规定{number}\n\n第一条 救助对象由乡镇核定，编号{number}。\n"
        await books.put(f"new{number}.md", text, doc_id=f"new-{number}", effective="2022-01-01")
    await of(books).catch_up()
    for mode in ("hybrid", "dense"):
        answered = await books.ask("临时救助标准为每人每月八百元", mode=mode, top_k=5)
        assert sorted(hit.doc_id for hit in answered.hits) == [f"new-{n}" for n in range(5)]
