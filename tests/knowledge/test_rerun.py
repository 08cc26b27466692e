"""A recorded search beside today's: each difference with its cause, and eligibility as of then repeated exactly."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import CallerError, Forbidden
from devassist.core.scope import TENANT, Scope
from devassist.knowledge.rerun import Facts, compared
from devassist.knowledge.rerunning import TableReruns
from devassist.ports.library import Question
from devassist.ports.rerun import Placed, Rerun
from tests.knowledge.shelf import ADMIN, Shelf, shelf

RULES = """# 请假办法

（2023年8月1日云泽公司公布，自2023年9月1日起施行）

第一条 为规范请假，制定本办法。

第二条 年休假每年{days}天，由部门安排。
"""
LATER = RULES.replace("2023年8月", "2026年1月").replace("自2023年9月1日", "自2026年1月10日")


@pytest.fixture
async def books(tmp_path: Path) -> AsyncGenerator[Shelf]:
    async with shelf(tmp_path) as found:
        await found.put("leave.md", RULES.format(days=10), doc_id="leave")
        yield found


async def recorded(
    books: Shelf, query: str = "年休假", labels: frozenset[str] | None = None, **more: Any
) -> dict[str, Any]:
    """What a run keeps of a search."""
    scope = ADMIN if labels is None else Scope(TENANT, "reader", labels=labels)
    asked = Question(query, ("policies",), **more)
    answered = await books.library.search(scope, asked)
    return {**answered.record(), "question": asdict(asked), "labels": None if labels is None else sorted(labels)}


async def again(books: Shelf, record: dict[str, Any]) -> Rerun:
    reruns = TableReruns(books.store, books.library, today=books.clock.today)
    return await reruns.again(ADMIN, record)


def causes(found: Rerun) -> list[tuple[str | None, str | None, str | None]]:
    return [
        (s.recorded and s.recorded.clause_id, s.now and s.now.clause_id, s.cause)
        for s in found.sides
        if s.cause is not None
    ]


async def test_nothing_changed_nothing_differs(books: Shelf) -> None:
    """Both lists are the same, and so is eligibility."""
    found = await again(books, await recorded(books))
    assert (found.differs, found.equal, found.checked > 0) == (False, True, True)


async def test_an_amendment_is_a_new_revision_of_the_same_clause(books: Shelf) -> None:
    """The clause of then stands beside the one that it became."""
    record = await recorded(books, top_k=1)
    await books.put("leave.md", LATER.format(days=15), doc_id="leave")
    found = await again(books, record)
    assert causes(found) == [("leave@2023-09-01#art-2", "leave@2026-01-10#art-2", "new_revision")]
    assert found.equal


async def test_a_repeal_and_a_delete_are_told_apart(books: Shelf) -> None:
    """And what was eligible then is so still, when it is asked as of then."""
    record = await recorded(books, top_k=1)
    await books.curator.repeal(ADMIN, "leave", "2025-01-01")
    found = await again(books, record)
    assert causes(found) == [("leave@2023-09-01#art-2", None, "repealed")]
    await books.curator.delete(ADMIN, "leave")
    gone = await again(books, record)
    assert [cause for _, _, cause in causes(gone)] == ["deleted"]
    assert found.equal
    assert gone.equal


async def test_what_came_in_later_was_not_yet_known(books: Shelf) -> None:
    """A document that would have held on the day, and was not there."""
    record = await recorded(books)
    await books.put(
        "more.md", "# 年休假补充办法\n\n年休假按工龄另加，年休假不得折现。", doc_id="more", effective="2020-01-01"
    )
    found = await again(books, record)
    came = [cause for _, now, cause in causes(found) if now is not None and now.startswith("more@")]
    assert came
    assert set(came) == {"not_yet_known"}


async def test_labels_that_changed_are_rights(books: Shelf) -> None:
    """What the recorded labels do not open any more."""
    record = await recorded(books, labels=frozenset(), top_k=1)
    await books.put("leave.md", RULES.format(days=10), doc_id="leave", labels=("board",))
    found = await again(books, record)
    assert [cause for _, _, cause in causes(found)] == ["rights"]
    assert found.labels == ()


async def test_a_record_that_was_tampered_with_is_not_equal(books: Shelf) -> None:
    """A clause that the recorded filter never let through is named."""
    record = await recorded(books, top_k=1, as_of="2024-01-01")
    await books.put("leave.md", LATER.format(days=15), doc_id="leave")
    record["hits"][0]["rev_id"] = "leave@2026-01-10"
    record["hits"][0]["clause_id"] = "leave@2026-01-10#art-2"
    found = await again(books, record)
    assert not found.equal
    assert found.ineligible == ("leave@2026-01-10#art-2",)


async def test_a_record_without_its_question_cannot_be_repeated(books: Shelf) -> None:
    """It is refused with the reason, and so is who is no administrator."""
    record = await recorded(books)
    reruns = TableReruns(books.store, books.library, today=books.clock.today)
    for wrong in ({}, {**record, "question": None}, {**record, "hits": [{}]}, {**record, "question": {"query": "x"}}):
        with pytest.raises(CallerError) as caught:
            await reruns.again(ADMIN, wrong)
        assert caught.value.code == "not_repeatable"
    with pytest.raises(Forbidden):
        await reruns.again(Scope(TENANT, "reader"), record)


def facts(**changed: bool) -> Facts:
    return Facts(**dict.fromkeys(Facts.__slots__, True) | changed)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("fact", "cause"),
    [
        (facts(), "ranking"),
        (facts(now=False, believed=False, holds=False), "deleted"),
        (facts(now=False), "rights"),
        (facts(now=False, now_any=False, seen=False), "rights"),
        (facts(now=False, now_any=False), "new_revision"),
        (facts(now=False, now_any=False, holds=False), "repealed"),
    ],
)
def test_why_a_clause_is_gone(fact: Facts, cause: str) -> None:
    """From the table's facts alone."""
    old = Placed(1, "d", "d@2020-01-01", "d@2020-01-01#a")
    (side,) = compared([old], [], {old.clause_id: fact}, same_index=True)
    assert side.cause == cause


@pytest.mark.parametrize(
    ("fact", "cause"),
    [
        (facts(), "ranking"),
        (facts(then=False), "rights"),
        (facts(then=False, then_any=False), "not_yet_known"),
        (facts(then=False, then_any=False, then_known=False), "new_revision"),
    ],
)
def test_why_a_clause_is_new(fact: Facts, cause: str) -> None:
    """From the table's facts alone."""
    new = Placed(1, "d", "d@2020-01-01", "d@2020-01-01#a")
    (side,) = compared([], [new], {new.clause_id: fact}, same_index=True)
    assert (side.recorded, side.cause) == (None, cause)


def test_another_place_is_the_ranking_or_the_index() -> None:
    """By whether the vector arm took part in both alike."""
    old, new = Placed(1, "d", "d@1", "d@1#a"), Placed(2, "d", "d@1", "d@1#a")
    for same, cause in ((True, "ranking"), (False, "index")):
        (side,) = compared([old], [new], {old.clause_id: facts()}, same_index=same)
        assert side.cause == cause
