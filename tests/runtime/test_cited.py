"""Whether a cited revision has changed since: a pure comparison of what is believed now with what was then."""

from __future__ import annotations

import pytest

from devassist.ports.knowledge_store import Belief
from devassist.runtime.cited import Change, changed_since

THEN = 100
"""When the clause was cited."""


def row(rev: str, valid_from: str, valid_to: str | None = None, *, at: int = 1, until: int | None = None) -> Belief:
    return Belief(at, "law", f"law@{rev}", "published", valid_from, valid_to, at, until)


CASES: dict[str, tuple[list[Belief], Change]] = {
    "nothing happened": ([row("2020", "2020-01-01")], Change("unchanged")),
    "a later revision came": (
        [
            row("2020", "2020-01-01", until=200), row("2020", "2020-01-01", "2026-01-01", at=200),
            row("2026", "2026-01-01", at=200),
        ],
        Change("amended", "law@2026", "2026-01-01"),
    ),
    "the later revision was known then": (
        [row("2020", "2020-01-01", "2026-01-01", at=50), row("2026", "2026-01-01", at=50)], Change("unchanged"),
    ),
    "a third revision after a known second": (
        [
            row("2020", "2020-01-01", "2024-01-01"), row("2024", "2024-01-01", until=200),
            row("2024", "2024-01-01", "2027-01-01", at=200), row("2027", "2027-01-01", at=200),
        ],
        Change("amended", "law@2027", "2027-01-01"),
    ),
    "an earlier revision was found late": (
        [row("2020", "2020-01-01"), row("2010", "2010-01-01", "2020-01-01", at=200)], Change("unchanged"),
    ),
    "it was corrected": (
        [row("2020", "2020-01-01", until=200), row("2020.1", "2020-01-01", at=200)],
        Change("corrected", "law@2020.1", "2020-01-01"),
    ),
    "it was repealed": (
        [row("2020", "2020-01-01", until=200), row("2020", "2020-01-01", "2026-05-01", at=200)],
        Change("repealed", None, "2026-05-01"),
    ),
    "it was repealed before it was cited": ([row("2020", "2020-01-01", "2021-01-01", at=50)], Change("unchanged")),
    "it was deleted": ([row("2020", "2020-01-01", until=200)], Change("deleted")),
    "it is of another document": ([row("1999", "1999-01-01")], Change("unknown")),
    "nothing is known of it": ([], Change("unknown")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_became_of_a_cited_revision(name: str) -> None:
    """Only what came after the citation counts, on either axis of time."""
    beliefs, expected = CASES[name]
    assert changed_since("law@2020", THEN, beliefs) == expected
