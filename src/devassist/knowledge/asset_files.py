"""Revisions as knowledge assets and back (pure): the JSON form that files have (knowledge_asset.schema.json)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from devassist.ports.curation import Given
from devassist.ports.knowledge_store import Belief, Change, Clause, ClauseNumber, HistoryEntry, Revision, Source


def revision_of_asset(asset: Mapping[str, Any], given: Given) -> Revision:
    """A checked knowledge asset as a revision; its ids and dates are taken as they are, the times of belief are not:
    those are this service's own."""
    source = asset["source"]
    return Revision(
        asset["doc_id"], asset["rev_id"], given.collection, asset["title"], asset["lang"], asset["kind"],
        asset["valid_from"],
        Source(
            source["url"], source["retrieved_at"], source["media_type"], source["raw_sha256"], source["parser"],
            source.get("charset"), source.get("licence"),
        ),
        tuple(map(_asset_clause, asset["clauses"])), tuple(map(_asset_entry, asset["revisions"])),
        asset["content_sha256"], asset.get("issuer"), asset.get("promulgated_on"),
        asset.get("effective_date") or asset["valid_from"], asset.get("effective_date_basis", "unknown"),
        asset.get("supersedes"), tuple(sorted(given.labels or asset.get("extra", {}).get("labels", ()))),
        asset.get("extra", {}),
    )  # fmt: skip


def asset_of(revision: Revision, belief: Belief, iso: Callable[[int], str]) -> dict[str, Any]:
    """A believed revision as a knowledge asset that fits the packaged JSON Schema. ``iso`` turns microseconds into ISO
    8601."""
    extra = dict(revision.extra)
    if revision.labels:
        extra["labels"] = list(revision.labels)
    return {
        "schema_version": 1, "doc_id": revision.doc_id, "rev_id": revision.rev_id, "title": revision.title,
        "lang": revision.lang, "kind": revision.kind, "issuer": revision.issuer, "status": belief.status,
        "promulgated_on": revision.promulgated_on, "effective_date": revision.effective_date,
        "effective_date_basis": revision.effective_basis, "valid_from": belief.valid_from,
        "valid_to": belief.valid_to, "recorded_from": iso(belief.recorded_from),
        "recorded_to": None if belief.recorded_to is None else iso(belief.recorded_to),
        "supersedes": revision.supersedes,
        "source": {
            "url": revision.source.url, "retrieved_at": revision.source.retrieved_at,
            "media_type": revision.source.media_type, "charset": revision.source.charset,
            "raw_sha256": revision.source.raw_sha256, "parser": revision.source.parser,
            "licence": revision.source.licence,
        },
        "clauses": [_clause_out(clause) for clause in revision.clauses],
        "revisions": [_entry_out(entry) for entry in revision.history],
        "content_sha256": revision.content_sha256, "extra": extra,
    }  # fmt: skip


def _asset_clause(value: Mapping[str, Any]) -> Clause:
    number = value.get("number")
    span: dict[str, Any] = value.get("source_span") or {}
    return Clause(
        value["clause_id"], value["lineage_id"], value["ordinal"], value["kind"], value["label"], value["text"],
        value["text_sha256"],
        None if number is None else ClauseNumber(
            number["article"], number.get("sub") or 0, number.get("paragraph") or 0, number.get("item") or 0
        ),
        tuple(value.get("heading_path", ())), value.get("parent_id"), span.get("page"), span.get("start"),
        span.get("end"), tuple(value.get("refs", ())),
    )  # fmt: skip


def _asset_entry(value: Mapping[str, Any]) -> HistoryEntry:
    listed = cast("list[dict[str, Any]]", value.get("changes", []))
    made = tuple(Change(c["op"], c.get("from"), c.get("to"), c.get("similarity")) for c in listed)
    return HistoryEntry(
        value["date"], value["by"], value["action"], value.get("instrument"), made,
        value.get("changes_basis", "unknown"),
    )  # fmt: skip


def _clause_out(clause: Clause) -> dict[str, Any]:
    number, span = clause.number, (clause.page, clause.start, clause.end)
    return {
        "clause_id": clause.clause_id, "lineage_id": clause.lineage_id, "parent_id": clause.parent_id,
        "ordinal": clause.ordinal, "kind": clause.kind, "label": clause.label,
        "number": None if number is None else {
            "article": number.article, "sub": number.sub or None, "paragraph": number.paragraph or None,
            "item": number.item or None,
        },
        "heading_path": list(clause.headings), "text": clause.text, "text_sha256": clause.text_sha256,
        "source_span": None if span == (None, None, None) else dict(zip(("page", "start", "end"), span, strict=True)),
        "refs": list(clause.refs),
    }  # fmt: skip


def _entry_out(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "date": entry.date, "by": entry.by, "action": entry.action, "instrument": entry.instrument,
        "changes": [
            {"op": c.op, "from": c.before, "to": c.after}
            | ({} if c.similarity is None else {"similarity": c.similarity})
            for c in entry.changes
        ],
        "changes_basis": entry.basis,
    }  # fmt: skip
