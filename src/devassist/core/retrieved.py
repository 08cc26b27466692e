"""What a run retrieved: its clauses, numbered in the order in which the run first saw them (pure).

A number is given once, kept in the retrieval record of the call that brought the clause, and shown to the model beside
it. It means that clause of that revision for the rest of the run, whatever lists later come in which order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, cast

from devassist.core.citations import labels
from devassist.core.events import Event, ToolReturned
from devassist.core.signals import LateOutcome

_ARTICLE = re.compile(r"#art-(\d+)(?:-(\d+))?(?:[.]|$)")
_LISTS = ("hits", "matches")
_NAMED = 1000.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """A clause that this run retrieved. ``number`` is what [n] means; ``day`` the day that the call asked for and
    ``known_at`` (microseconds) the time of knowledge; ``text_sha256`` is as the record has it, not computed here."""

    number: int
    doc_id: str
    rev_id: str
    clause_id: str
    title: str
    label: str
    heading: str
    text: str
    text_sha256: str
    valid_from: str
    valid_to: str | None
    effective_date: str | None
    revision_date: str | None
    source: str
    day: str
    known_at: int
    strength: float
    leads: float
    retrieval: Mapping[str, Any] = field(default_factory=dict[str, Any])
    aliases: frozenset[tuple[str | int, ...]] = frozenset()

    @property
    def intact(self) -> bool:
        return sha256(self.text.encode()).hexdigest() == self.text_sha256

    def holds_on(self, day: str) -> bool:
        return self.valid_from <= day and (self.valid_to is None or day < self.valid_to)


def number_hits(
    record: Mapping[str, Any], value: Any, numbers: dict[tuple[str, str], int]
) -> tuple[dict[str, Any], Any]:
    """The record with the number of each hit, and the result as a model is shown it, each row led by its number.

    ``numbers`` holds those given so far by (rev_id, clause_id) and takes the new ones.
    """
    hits: list[dict[str, Any]] = []
    for hit in cast("Sequence[Mapping[str, Any]]", record.get("hits", ())):
        key = (str(hit.get("rev_id")), str(hit.get("clause_id")))
        hits.append({**hit, "n": numbers.setdefault(key, max(numbers.values(), default=0) + 1)})
    name, rows = _rows(value)
    if name is None or len(rows) != len(hits):
        return {**record, "hits": hits}, value
    shown = [{"n": hit["n"], **row} for hit, row in zip(hits, rows, strict=True)]
    return {**record, "hits": hits}, {**value, name: shown}


def numbers_in(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """The numbers that records have given."""
    return {
        (str(hit.get("rev_id")), str(hit.get("clause_id"))): int(hit["n"])
        for record in records
        for hit in cast("Sequence[Mapping[str, Any]]", record.get("hits", ()))
        if "n" in hit
    }


def evidence_of(events: Iterable[tuple[Event, int]], texts: Mapping[str, str]) -> list[Evidence]:
    """Every clause that calls of the run brought, by number; one that came twice is kept as it first was for each day.

    ``events`` are (event, time). A tool that keeps no retrieval record is taken at its word for what its rows say: its
    clauses are numbered here, and hold from ever on.
    """
    calls: list[tuple[list[dict[str, Any]], dict[str, Any] | None, int]] = []
    for event, at in events:
        if isinstance(event, ToolReturned | LateOutcome) and event.outcome == "result" and event.result is not None:
            given = _loaded(texts.get(event.retrieval)) if event.retrieval else None
            record = cast("dict[str, Any]", given) if isinstance(given, dict) else None
            calls.append((_rows(_loaded(texts.get(event.result)))[1], record, at))
    numbers = numbers_in(record for _, record, _ in calls if record is not None)
    found: dict[tuple[str, str, str, str], Evidence] = {}
    for rows, kept, at in calls:
        record = kept if kept is not None else number_hits(_made(rows, at), None, numbers)[0]
        for one in _clauses(record, rows):
            found.setdefault((one.rev_id, one.clause_id, one.text, one.day), one)
    return sorted(found.values(), key=lambda one: one.number)


def _rows(value: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """The list of clauses in a result, and under which name it stands."""
    if isinstance(value, dict):
        for name in _LISTS:
            rows = cast("dict[str, Any]", value).get(name)
            if isinstance(rows, list):
                return name, [cast("dict[str, Any]", r) for r in cast("list[Any]", rows) if isinstance(r, dict)]
    return None, []


def _loaded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _made(rows: Sequence[Mapping[str, Any]], at: int) -> dict[str, Any]:
    """A record for a tool that keeps none."""
    hits: list[dict[str, Any]] = []
    for row in rows:
        text, clause_id = row.get("text"), str(row.get("clause_id") or "")
        if not isinstance(text, str) or not isinstance(row.get("title"), str):
            continue
        digest = sha256(text.encode()).hexdigest()
        rev_id = str(row.get("rev_id") or clause_id.partition("#")[0])
        hits.append({"rev_id": rev_id, "clause_id": clause_id or f"sha256:{digest[:16]}", "text_sha256": digest})
    return {"as_of": _day(at), "known_at": at, "hits": hits}


def _clauses(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Evidence]:
    """The record's hits with the words of the result's rows; a row without a hit is nothing that was retrieved."""
    hits = cast("Sequence[Mapping[str, Any]]", record.get("hits", ()))
    usable = [row for row in rows if isinstance(row.get("text"), str) and isinstance(row.get("title"), str)]
    if len(usable) != len(hits):
        return []
    strong = [_strength(hit, row) for hit, row in zip(hits, usable, strict=True)]
    found: list[Evidence] = []
    for place, (hit, row) in enumerate(zip(hits, usable, strict=True)):
        others = [s for i, s in enumerate(strong) if i != place and hits[i].get("clause_id") != hit.get("clause_id")]
        label, clause_id = str(hit.get("label") or row.get("label") or ""), str(hit.get("clause_id") or "")
        found.append(
            Evidence(
                number=int(hit.get("n") or 0),
                doc_id=str(hit.get("doc_id") or row.get("doc_id") or ""),
                rev_id=str(hit.get("rev_id") or ""),
                clause_id=clause_id,
                title=str(row["title"]),
                label=label,
                heading=str(row.get("heading") or hit.get("heading") or ""),
                text=str(row["text"]),
                text_sha256=str(hit.get("text_sha256") or ""),
                valid_from=str(hit.get("valid_from") or ""),
                valid_to=_text(hit.get("valid_to")),
                effective_date=_text(row.get("effective_date")),
                revision_date=_text(row.get("revision_date") or hit.get("revision_date")),
                source=str(row.get("source") or ""),
                day=str(record.get("as_of") or ""),
                known_at=int(record.get("known_at") or 0),
                strength=strong[place],
                leads=max(others, default=0.0),
                retrieval=_brief(record, hit, place + 1),
                aliases=frozenset(labels(label)) | _by_id(clause_id),
            )
        )
    return found


def _by_id(clause_id: str) -> frozenset[tuple[str | int, ...]]:
    """The label that an id of an article stands for, where the result shows none."""
    match = _ARTICLE.search(clause_id)
    return frozenset() if match is None else frozenset({("条", int(match[1]), int(match[2] or 0))})


def _strength(hit: Mapping[str, Any], row: Mapping[str, Any]) -> float:
    """How well the words fit: the lexical arm's own score where there is one, since fused ones lie close together. What
    was asked for by its number leads whatever there is; what only the vectors found leads nothing."""
    why = {w.get("arm"): w.get("score") for w in cast("Sequence[Mapping[str, Any]]", hit.get("why", ()))}
    if "article" in why:
        return _NAMED
    score = why.get("lexical", 0.0 if why else row.get("score"))
    return float(score) if isinstance(score, int | float) else 0.0


def _brief(record: Mapping[str, Any], hit: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """What a citation repeats of the retrieval. Scores stay as the record has them."""
    asked = record.get("question")
    query = cast("dict[str, Any]", asked).get("query") if isinstance(asked, dict) else None
    arms = {str(w["arm"]): w["score"] for w in cast("Sequence[Mapping[str, Any]]", hit.get("why", ()))}
    given = {"query": query, "index_version": record.get("index_version"), "embedder": record.get("embedder")}
    return {"rank": int(hit.get("rank") or rank), "arms": arms} | {k: v for k, v in given.items() if v is not None}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _day(at: int) -> str:
    return datetime.fromtimestamp(at // 1_000_000, UTC).date().isoformat()
