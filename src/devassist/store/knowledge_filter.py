"""What a search may see, as SQL: conditions over a belief and its revision that act before anything is ranked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from devassist.ports.knowledge_store import Eligible
from devassist.store.knowledge_rows import json_text
from devassist.store.sql_files import statements

SQL = statements("knowledge_search.sql")
NOW = (1 << 63) - 1
"""As a time of knowledge: only open beliefs are recorded beyond it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions, joined by AND, with the values of their names."""

    conditions: tuple[str, ...]
    values: dict[str, Any]

    @property
    def where(self) -> str:
        return " AND ".join(f"({SQL[name]})" for name in self.conditions)

    def fill(self, statement: str, **parts: str) -> str:
        """The statement ``statement`` with its ``{where}`` and other ``parts`` filled in."""
        sql = SQL[statement]
        for name, part in {**parts, "where": self.where}.items():
            sql = sql.replace("{" + name + "}", part)
        return sql

    def without(self, condition: str) -> Filter:
        return replace(self, conditions=tuple(c for c in self.conditions if c != condition))


def eligible(tenant: int, wanted: Eligible, *, on_day: bool = True, shown: bool = True) -> Filter:
    """``on_day``: only what holds on ``wanted.day``, not all that is believed. ``shown``: without what was deleted or
    withdrawn since, as every search has to."""
    conditions = ["holds" if on_day else "searchable", "believed"]
    values: dict[str, Any] = {"tenant": tenant, "known": NOW if wanted.known_at is None else wanted.known_at}
    if on_day:
        values["day"] = wanted.day
    for condition, name, chosen in (
        ("in_collections", "collections", wanted.collections),
        ("in_documents", "doc_ids", wanted.doc_ids),
        ("of_kinds", "kinds", wanted.kinds),
        ("in_langs", "langs", wanted.langs),
    ):
        if chosen:
            conditions.append(condition)
            values[name] = json_text(chosen)
    if wanted.labels is not None:
        conditions.append("open")
        values["labels"] = json_text(sorted(wanted.labels))
    if shown:
        conditions.append("shown")
    return Filter(tuple(conditions), values)
