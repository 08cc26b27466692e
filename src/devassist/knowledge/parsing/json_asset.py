"""A knowledge asset as JSON: checked by ``knowledge.assets``, and then taken as it is."""

from __future__ import annotations

from typing import Any

import orjson

from devassist.knowledge.assets import AssetInvalid, parse_asset
from devassist.knowledge.parsing.document import ClauseDraft, ParsedDocument, Refused
from devassist.ports.knowledge_store import Change, ClauseNumber, HistoryEntry


def read_asset(data: bytes, name: str, parser: str) -> ParsedDocument:
    """Raises Refused (``asset_invalid``, ``malformed``) with what is wrong, and where."""
    try:
        value: Any = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise Refused("malformed", f"This is no JSON in UTF-8: {error}") from None
    try:
        parse_asset(value, name)
    except AssetInvalid as error:
        raise Refused("asset_invalid", error.detail) from None
    source = value["source"]
    return ParsedDocument(
        title=value["title"],
        lang=value["lang"],
        kind=value["kind"],
        clauses=tuple(map(_clause, value["clauses"])),
        parser=parser,
        media_type="application/json",
        issuer=value.get("issuer"),
        promulgated_on=value.get("promulgated_on"),
        effective_date=value.get("effective_date"),
        effective_basis=value.get("effective_date_basis") or "unknown",
        history=tuple(map(_entry, value["revisions"])),
        charset=source.get("charset") or "utf-8",
        asset=value,
    )


def _clause(value: dict[str, Any]) -> ClauseDraft:
    number: dict[str, Any] | None = value.get("number")
    span: dict[str, Any] = value.get("source_span") or {}
    return ClauseDraft(
        kind=value["kind"],
        label=value["label"],
        text=value["text"],
        path=value["clause_id"].partition("#")[2],
        number=None if number is None else ClauseNumber(**{key: each or 0 for key, each in number.items()}),
        headings=tuple(value.get("heading_path", ())),
        page=span.get("page"),
        start=span.get("start"),
        end=span.get("end"),
    )


def _entry(value: dict[str, Any]) -> HistoryEntry:
    changes = tuple(
        Change(each["op"], each.get("from"), each.get("to"), each.get("similarity"))
        for each in value.get("changes", ())
    )
    return HistoryEntry(
        value["date"],
        value["by"],
        value["action"],
        value.get("instrument"),
        changes,
        value.get("changes_basis") or "unknown",
    )
