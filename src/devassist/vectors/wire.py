"""Requests to the workers of an index: clauses as columns, filters, and pages of keys."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from devassist.core.errors import VectorsUnavailable
from devassist.ports.knowledge_store import IndexItem
from devassist.ports.vectors import VectorFilter

BATCH = 256
"""Clauses of one request: what a search may have to wait for."""
PAGE = 4096
_DAYS = range(1, 99_999_999)


class Row(NamedTuple):
    """A clause as an index keeps it. ``labels`` is sorted and without repeats; empty: everybody may see it."""

    key: int
    stamp: str
    valid_from: int
    valid_to: int
    collection: str
    doc: str
    kind: str
    lang: str
    labels: tuple[str, ...]


def put(version: str, items: Sequence[IndexItem]) -> dict[str, Any]:
    """The header of an upsert. Raises VectorsUnavailable for a value of another type than its column has: one text
    among numbers would be left out by every filter, silently."""
    return {"op": "upsert", "version": version, "rows": [_row(item) for item in items]}


def _row(item: IndexItem) -> list[Any]:
    for name in ("valid_from", "valid_to"):
        day: object = getattr(item, name)
        if type(day) is not int or day not in _DAYS:
            raise VectorsUnavailable(f"Clause {item.key}: {name} must be a day as a number YYYYMMDD, not {day!r}")
    texts: list[object] = [item.collection, item.doc_id, item.kind, item.lang]
    labels: Sequence[object] = item.labels
    for text in (*texts, *labels):
        if not isinstance(text, str | None):
            raise VectorsUnavailable(f"Clause {item.key}: {text!r} stands where a text belongs")
    return [
        item.key, item.stamp, item.valid_from, item.valid_to, *(text or "" for text in texts),
        sorted({str(label) for label in labels if label}),
    ]  # fmt: skip


def rows(header: Mapping[str, Any]) -> list[Row]:
    """What ``put`` encoded."""
    given: list[list[Any]] = header["rows"]
    return [Row._make([*row[:-1], tuple(row[-1])]) for row in given]


def latest(items: Sequence[IndexItem], vectors: Sequence[bytes]) -> tuple[list[IndexItem], list[bytes]]:
    """Each key once, with what was given for it last."""
    last = {item.key: at for at, item in enumerate(items)}
    kept = sorted(last.values())
    return [items[at] for at in kept], [vectors[at] for at in kept]


def look(version: str, k: int, wanted: VectorFilter) -> dict[str, Any]:
    """The header of a search."""
    return {
        "op": "search", "version": version, "k": k, "day": wanted.day, "collection": list(wanted.collections),
        "doc": list(wanted.doc_ids), "kind": list(wanted.kinds), "lang": list(wanted.langs),
        "labels": None if wanted.labels is None else sorted(wanted.labels),
    }  # fmt: skip


def may_see(labels: Sequence[str], granted: Sequence[str]) -> bool:
    """Whether one who has the labels ``granted`` sees what carries ``labels``."""
    return not labels or not set(granted).isdisjoint(labels)


class KeyPages:
    """Keys with their stamps in pages, all of one moment: of the one when the first page was asked for."""

    def __init__(self, read: Callable[[str], dict[int, str]]) -> None:
        self._read = read
        self._version = ""
        self._found: list[tuple[int, str]] | None = None

    def page(self, version: str, after: int | None) -> list[tuple[int, str]]:
        """The next ones above ``after`` (None: the first); a page of fewer than ``PAGE`` is the last."""
        if after is None or self._found is None or version != self._version:
            self._version, self._found = version, sorted(self._read(version).items())
        start = 0 if after is None else bisect.bisect_right(self._found, after, key=lambda pair: pair[0])
        page = self._found[start : start + PAGE]
        if len(page) < PAGE:
            self._found = None
        return page
