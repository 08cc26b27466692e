"""What a run retrieved: numbers that stay, evidence from the record, tools that keep none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devassist.core.events import Event, ToolReturned
from devassist.core.retrieved import Evidence, evidence_of, number_hits, numbers_in
from devassist.core.signals import LateOutcome
from tests.core.clauses import AT


def hit(name: str, **fields: Any) -> dict[str, Any]:
    return {"doc_id": "d", "rev_id": "d@1", "clause_id": f"d@1#{name}", "text_sha256": "0" * 64, **fields}


def row(name: str, text: str = "text", **fields: Any) -> dict[str, Any]:
    return {"title": "T", "text": text, "clause_id": f"d@1#{name}", "score": 1.0, **fields}


def read(*calls: tuple[dict[str, Any], dict[str, Any] | None], late: bool = False) -> list[Evidence]:
    events: list[tuple[Event, int]] = []
    texts: dict[str, str] = {}
    for place, (value, record) in enumerate(calls):
        texts |= {f"v{place}": json.dumps(value), f"r{place}": json.dumps(record)}
        ref = None if record is None else f"r{place}"
        made: Event = ToolReturned(place, "result", 1, f"v{place}", retrieval=ref)
        if late:
            made = LateOutcome(f"s{place}", place, "result", f"v{place}", retrieval=ref)
        events.append((made, AT))
    return evidence_of(events, texts)


def test_numbers_go_by_the_first_retrieval_and_stay() -> None:
    """A second search gives new clauses the next numbers and known ones theirs, whatever the order of its list."""
    numbers: dict[tuple[str, str], int] = {}
    first, shown = number_hits({"hits": [hit("c3"), hit("c1")]}, {"hits": [row("c3"), row("c1")]}, numbers)
    again, later = number_hits(
        {"hits": [hit("c1"), hit("c4"), hit("c3")]}, {"hits": [row("c1"), row("c4"), row("c3")]}, numbers
    )
    assert [h["n"] for h in first["hits"]] == [1, 2]
    assert [r["n"] for r in shown["hits"]] == [1, 2]
    assert [(h["clause_id"], h["n"]) for h in again["hits"]] == [("d@1#c1", 2), ("d@1#c4", 3), ("d@1#c3", 1)]
    assert [r["n"] for r in later["hits"]] == [2, 3, 1]
    assert numbers_in([first, again]) == numbers


def test_another_revision_of_a_clause_has_a_number_of_its_own() -> None:
    """The number stands for clause and revision."""
    numbers: dict[tuple[str, str], int] = {}
    record, _ = number_hits({"hits": [hit("c1"), hit("c1", rev_id="d@2")]}, None, numbers)
    assert [h["n"] for h in record["hits"]] == [1, 2]


def test_a_result_of_another_shape_is_shown_as_it_is() -> None:
    """Rows that do not fit the record get no numbers."""
    value = {"found": 3}
    assert number_hits({"hits": [hit("c1")]}, value, {})[1] is value


@pytest.mark.parametrize("late", [False, True])
def test_evidence_joins_the_record_with_the_words_of_the_result(late: bool) -> None:
    """Text, title and dates come from the result; identity, hash, validity and number from the record."""
    record = {
        "as_of": "2026-01-01", "known_at": 7, "question": {"query": "q"}, "index_version": "v1",
        "hits": [
            hit("art-16-1", n=4, valid_from="2024-01-01", valid_to="2027-01-01", rank=1,
                why=[{"arm": "lexical", "rank": 1, "score": 8.5}])
        ],
    }  # fmt: skip
    (one,) = read(
        ({"hits": [row("art-16-1", "words", heading="A > B", effective_date="2024-01-01")]}, record), late=late
    )
    assert (one.number, one.rev_id, one.text, one.heading, one.day, one.known_at) == (
        4,
        "d@1",
        "words",
        "A > B",
        "2026-01-01",
        7,
    )
    assert (one.valid_to, one.effective_date, one.strength, one.intact) == ("2027-01-01", "2024-01-01", 8.5, False)
    assert one.retrieval == {"rank": 1, "arms": {"lexical": 8.5}, "query": "q", "index_version": "v1"}
    assert ("条", 16, 1) in one.aliases


def test_a_tool_without_a_record_is_taken_at_its_word() -> None:
    """Its rows are numbered and hold from ever on; what is no clause is passed over."""
    found = read(({"matches": [row("a", "one"), {"title": 1, "text": "x"}, row("b", "two")]}, None), ({"n": 1}, None))
    assert [(e.number, e.text, e.intact, e.holds_on("1900-01-01")) for e in found] == [
        (1, "one", True, True),
        (2, "two", True, True),
    ]


def test_rows_that_do_not_fit_the_record_are_no_evidence() -> None:
    """A result of more rows than were retrieved proves nothing."""
    assert read(({"hits": [row("a"), row("b")]}, {"hits": [hit("a", n=1)]})) == []


def test_a_clause_of_two_days_is_there_for_both() -> None:
    """The same clause asked for on two days is valid by either of them."""
    calls = [
        ({"hits": [row("a")]}, {"as_of": day, "known_at": 1, "hits": [hit("a", n=1)]})
        for day in ("2024-01-01", "2026-01-01")
    ]
    assert [e.day for e in read(*calls)] == ["2024-01-01", "2026-01-01"]
