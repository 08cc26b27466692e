"""What a change does to the beliefs about a document."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.errors import CallerError, KnowledgeConflict
from devassist.knowledge.timeline import (
    believed,
    next_rev_id,
    plan_delete,
    plan_redate,
    plan_repeal,
    plan_revision,
    predecessor,
)
from devassist.ports.knowledge_store import Belief, Plan, Revision, Source

SOURCE = Source("file:///a.md", "2026-01-01T00:00:00Z", "text/markdown", "0" * 64, "test/1")


def revision(valid_from: str, rev_id: str = "") -> Revision:
    return Revision(
        "law", rev_id or f"law@{valid_from}", "policies", "Law", "en", "law", valid_from, SOURCE, (), (), "0" * 64
    )


def carry_out(beliefs: list[Belief], plan: Plan, at: int) -> list[Belief]:
    """The table after a plan, as a store would leave it."""
    assert plan.seen == len(beliefs)
    closed = [replace(b, recorded_to=at) if b.belief_id in plan.close else b for b in beliefs]
    opened = [
        Belief(len(beliefs) + n, plan.doc_id, o.rev_id, o.status, o.valid_from, o.valid_to, at, None)
        for n, o in enumerate(plan.open)
    ]
    return closed + opened


def table(beliefs: list[Belief]) -> list[tuple[str, str, str | None]]:
    return [(b.rev_id, b.valid_from, b.valid_to) for b in believed(beliefs)]


def after(*days: str) -> list[Belief]:
    beliefs: list[Belief] = []
    for at, day in enumerate(days):
        beliefs = carry_out(beliefs, plan_revision(beliefs, revision(day)), at)
    return beliefs


def test_an_amendment_closes_the_old_belief_and_opens_two() -> None:
    """The amended revision holds until the new one begins, and the belief that it held for ever is closed, not lost."""
    beliefs = after("2014-01-01", "2025-01-01")
    assert table(beliefs) == [("law@2014-01-01", "2014-01-01", "2025-01-01"), ("law@2025-01-01", "2025-01-01", None)]
    assert [(b.rev_id, b.valid_to, b.recorded_from, b.recorded_to) for b in beliefs] == [
        ("law@2014-01-01", None, 0, 1),
        ("law@2014-01-01", "2025-01-01", 1, None),
        ("law@2025-01-01", None, 1, None),
    ]


@pytest.mark.parametrize("order", list(permutations(("2019-03-02", "2022-03-29", "2023-07-20"))))
def test_the_order_of_arrival_does_not_matter(order: tuple[str, ...]) -> None:
    """Revisions that arrive late or in any order end in the table that arrival in order gives."""
    assert table(after(*order)) == [
        ("law@2019-03-02", "2019-03-02", "2022-03-29"),
        ("law@2022-03-29", "2022-03-29", "2023-07-20"),
        ("law@2023-07-20", "2023-07-20", None),
    ]


def test_a_revision_of_the_same_day_corrects_the_other() -> None:
    """A correction takes the interval of what it corrects, under an id of its own."""
    beliefs = after("2019-01-01", "2022-01-01")
    name = next_rev_id(beliefs, "law", "2019-01-01")
    plan = plan_revision(beliefs, revision("2019-01-01", name))
    assert (name, plan.reason) == ("law@2019-01-01.1", "corrected")
    assert table(carry_out(beliefs, plan, 9)) == [
        ("law@2019-01-01.1", "2019-01-01", "2022-01-01"),
        ("law@2022-01-01", "2022-01-01", None),
    ]


def test_a_repeal_keeps_what_held_before() -> None:
    """After a repeal nothing holds from its day on; later revisions are believed no more, earlier days stay."""
    beliefs = after("2019-01-01", "2022-01-01", "2030-01-01")
    beliefs = carry_out(beliefs, plan_repeal(beliefs, "law", "2026-01-01"), 9)
    assert table(beliefs) == [
        ("law@2019-01-01", "2019-01-01", "2022-01-01"),
        ("law@2022-01-01", "2022-01-01", "2026-01-01"),
    ]
    with pytest.raises(CallerError) as refused:
        plan_repeal(beliefs, "law", "2026-01-01")
    assert refused.value.code == "nothing_to_repeal"


def test_a_late_revision_does_not_undo_a_repeal() -> None:
    """A revision that arrives after the repeal, and began before it, ends with it."""
    beliefs = after("2019-01-01")
    beliefs = carry_out(beliefs, plan_repeal(beliefs, "law", "2026-01-01"), 5)
    beliefs = carry_out(beliefs, plan_revision(beliefs, revision("2022-01-01")), 6)
    assert table(beliefs) == [
        ("law@2019-01-01", "2019-01-01", "2022-01-01"),
        ("law@2022-01-01", "2022-01-01", "2026-01-01"),
    ]


def test_a_delete_purges_every_revision_that_ever_was() -> None:
    """A deleted document is believed on no day, and all its revisions leave the search arms."""
    beliefs = after("2019-01-01", "2022-01-01")
    plan = plan_delete(beliefs, "law")
    assert table(carry_out(beliefs, plan, 9)) == []
    assert plan.purge == ("law@2019-01-01", "law@2022-01-01")


def test_an_end_that_reaches_into_a_later_revision_is_refused() -> None:
    """Two revisions of one document cannot be made to hold on one day."""
    beliefs = after("2022-01-01")
    with pytest.raises(KnowledgeConflict):
        plan_revision(beliefs, revision("2019-01-01"), valid_to="2022-01-02")
    with pytest.raises(KnowledgeConflict):
        plan_redate(after("2019-01-01", "2022-01-01"), "law", "law@2019-01-01", None)


def test_a_repeal_can_be_taken_back() -> None:
    """The end of a revision can be moved, and the earlier belief of its end stays on record."""
    beliefs = after("2019-01-01")
    beliefs = carry_out(beliefs, plan_repeal(beliefs, "law", "2026-01-01"), 5)
    beliefs = carry_out(beliefs, plan_redate(beliefs, "law", "law@2019-01-01", None), 6)
    assert table(beliefs) == [("law@2019-01-01", "2019-01-01", None)]
    assert len(beliefs) == 3


DAYS = st.integers(1, 12).map(lambda month: f"2020-{month:02}-01")


@given(st.lists(st.tuples(st.sampled_from(["revise", "repeal", "delete"]), DAYS), max_size=12))
def test_beliefs_never_overlap_and_never_change(moves: list[tuple[str, str]]) -> None:
    """Whatever happens in whatever order, at most one believed revision holds on a day, and beliefs are only closed."""
    beliefs: list[Belief] = []
    for at, (move, day) in enumerate(moves):
        if move == "revise":
            plan = plan_revision(beliefs, revision(day, next_rev_id(beliefs, "law", day)))
        elif move == "delete":
            plan = plan_delete(beliefs, "law")
        else:
            try:
                plan = plan_repeal(beliefs, "law", day)
            except CallerError:
                continue
        before = beliefs
        beliefs = carry_out(beliefs, plan, at)
        for old, new in zip(before, beliefs, strict=False):
            assert replace(new, recorded_to=None) == replace(old, recorded_to=None)
            assert old.recorded_to is None or new.recorded_to == old.recorded_to
        rows = believed(beliefs)
        assert all(a.valid_to is not None and a.valid_to <= b.valid_from for a, b in pairwise(rows))
        assert all(b.valid_to is None or b.valid_from < b.valid_to for b in rows)


def test_a_new_revision_goes_on_the_latest_that_began_before_it() -> None:
    """The diff of a late revision is made against what preceded it, not against the newest."""
    beliefs = after("2019-01-01", "2023-01-01")
    assert predecessor(beliefs, "2022-01-01") == "law@2019-01-01"
    assert predecessor(beliefs, "2018-01-01") is None
