"""Which clauses a run retrieved and cited: from the texts that its events name to rows of log.db.

The ids of clauses are nobody's secret and stand once each; that a run used one is its owner's, and stands as a link of
fixed size that an erasure blanks in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

import orjson

Used = Literal["retrieved", "cited"]
LINK_BYTES = 4
NO_LINK = bytes(LINK_BYTES)
"""What an erased link points to."""
_FIELDS: dict[str, tuple[str, str, Used]] = {
    "tool_returned": ("retrieval", "hits", "retrieved"),
    "late_outcome": ("retrieval", "hits", "retrieved"),
    "run_finished": ("checks", "citations", "cited"),
}
"""By kind of event: the field that names the text, the list in it, and what standing in that list means."""


class Mention(NamedTuple):
    """A clause that an event's text names; ``rank`` is its place among what was retrieved, 0 where it has none."""

    doc_id: str
    rev_id: str
    clause_id: str
    used: Used
    rank: int


def source_of(body: Mapping[str, Any]) -> str | None:
    """The reference of the text that says which clauses an event is about."""
    field = _FIELDS.get(body.get("k", ""))
    ref = body.get(field[0]) if field is not None else None
    return ref if isinstance(ref, str) else None


def mentions(kind: str, text: str) -> list[Mention]:
    """The clauses that a text names, each once; none where it is not what this build reads."""
    field = _FIELDS.get(kind)
    try:
        value: Any = orjson.loads(text)
    except ValueError:
        return []
    if field is None or not isinstance(value, dict):
        return []
    _, name, used = field
    listed: Any = cast("dict[str, Any]", value).get(name)
    found: dict[tuple[str, str], Mention] = {}
    for one in cast("list[Any]", listed) if isinstance(listed, list) else ():
        made = _mention(cast("dict[str, Any]", one), used) if isinstance(one, dict) else None
        if made is not None:
            found.setdefault((made.rev_id, made.clause_id), made)
    return list(found.values())


def _mention(value: Mapping[str, Any], used: Used) -> Mention | None:
    rev_id, clause_id = value.get("rev_id"), value.get("clause_id")
    if not isinstance(rev_id, str) or not isinstance(clause_id, str) or not rev_id:
        return None  # a citation of what nobody knows names no clause
    doc_id, rank = value.get("doc_id"), value.get("rank")
    known = doc_id if isinstance(doc_id, str) and doc_id else rev_id.partition("@")[0]
    return Mention(known, rev_id, clause_id, used, rank if isinstance(rank, int) and rank > 0 else 0)


def link(number: int) -> bytes:
    return number.to_bytes(LINK_BYTES)


def number(key: bytes) -> int:
    return int.from_bytes(key)
