"""The reading side of log.db: filters to SQL, and pages of decision_log rows.

A page is found by one of several paths. Which one is narrow is counted first, up to ``FEW``: a user with ten runs among
millions is found by his runs, one with most of them by walking the newest rows until the page is full.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import orjson

from devassist.core.errors import InvalidRequest
from devassist.core.events import KINDS
from devassist.core.states import TABLE, State
from devassist.ports.decision_log import LogQuery
from devassist.store.database import READING, Database, connect, register
from devassist.store.sql_files import statements

SQL = statements("log_query.sql")
COLUMNS: tuple[str, ...] = (
    "trace_id", "seq", "kind", "step", "state", "tenant", "user_id", "conversation_id", "agent", "tool_name",
    "input_text", "output_text", "duration_ms", "error_code", "error_message", "degraded", "metadata", "timestamp",
    "hash", "prev_hash",
)  # fmt: skip
FEW = 500
"""Up to so many runs or matching texts are looked up one by one and sorted."""
MAX_LIMIT, MAX_TEXT = 1000, 1000
COMMON_KINDS = frozenset({"model_intended", "model_replied", "tool_intended", "tool_returned"})

T = TypeVar("T")

_CODES = re.compile(r"1|[a-z][a-z_]{0,63}")
_TRACE = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"(-?\d{1,19})\.(\d{1,19})\.(\d{1,19})")
_LIKE_SPECIAL, _ESCAPED = re.compile(r"([%_\\])"), r"\\\1"
_BY_VALUE = (
    "trace_id", "kind", "state", "error_code", "tool_name", "user_id", "conversation_id", "agent", "step", "since",
    "until",
)  # fmt: skip
_OF_RUNS = ("own", "user_id", "conversation_id")
_ONLY_KIND: dict[str, str] = {
    str(state): kinds.pop()
    for state in State
    if len(kinds := {kind for (_, kind), after in TABLE.items() if after is state}) == 1 and state is not State.INIT
}
"""States that one kind of event alone leads to."""


@dataclass(frozen=True, slots=True)
class Visible:
    """Whose rows may be seen: a tenant's (None: all tenants'), and of one user only where ``own`` is his domain."""

    tenant: str | None
    own: bytes | None = None


def check(query: LogQuery) -> None:
    """Raises InvalidRequest naming the field and what would be right."""
    wrong: list[tuple[str, str]] = []
    if not 1 <= query.limit <= MAX_LIMIT:
        wrong.append(("limit", f"must be between 1 and {MAX_LIMIT}"))
    if query.kind is not None and query.kind not in KINDS:
        wrong.append(("kind", f"must be one of {', '.join(sorted(KINDS))}"))
    if query.state is not None and query.state not in set(State):
        wrong.append(("state", f"must be one of {', '.join(State)}"))
    if query.trace_id is not None and not _TRACE.fullmatch(query.trace_id):
        wrong.append(("trace_id", "must be 32 lower-case hex digits"))
    if query.degraded is not None and not _CODES.fullmatch(query.degraded):
        wrong.append(("degraded", "must be 1 for all answers that were marked, or a code such as model_switched"))
    if query.after is not None and not _PLACE.fullmatch(query.after):
        wrong.append(("after", "must be the `next` of an earlier page"))
    if query.text is not None and not 1 <= len(query.text.strip()) <= MAX_TEXT:
        wrong.append(("text", f"must hold 1 to {MAX_TEXT} characters"))
    for field in fields(query):
        value = getattr(query, field.name)
        if isinstance(value, str) and value.encode("utf-8", "ignore").decode() != value:
            wrong.append((field.name, "holds half a surrogate pair"))
        elif isinstance(value, int) and abs(value) >= 2**63:
            wrong.append((field.name, "is out of range"))
    if wrong:
        raise InvalidRequest("; ".join(f"{name} {problem}" for name, problem in wrong), errors=tuple(wrong))


class LogReader:
    """A connection for queries; all methods are for one thread. They raise apsw.Error."""

    def __init__(self, path: Path) -> None:
        self._db: Database = connect(path, query_only="ON", **READING)
        register(self._db, "contains_folded", _contains_folded)

    def close(self) -> None:
        self._db.close()

    def with_db(self, work: Callable[[Database], T]) -> T:
        return work(self._db)

    def page(self, query: LogQuery, visible: Visible) -> tuple[list[dict[str, Any]], str | None]:
        """Rows and the place to continue from, None at the end. The query has passed ``check``."""
        values: dict[str, Any] = {"few": FEW, "limit": query.limit + 1}
        where = _conditions(query, visible, values)
        path = self._path(query, where, values)
        keys = SQL[path].replace("{where}", " AND ".join(where.values()))
        sql = SQL["page"].replace("{keys}", keys).replace("{direction}", "ASC" if query.oldest_first else "DESC")
        found = self._db.execute(sql, values).fetchall()
        rows = [dict(zip(COLUMNS, row, strict=False)) for row in found[: query.limit]]
        if len(found) <= query.limit:
            return rows, None
        at, run, seq = found[query.limit - 1][-2], found[query.limit - 1][-1], found[query.limit - 1][1]
        return rows, f"{at}.{run}.{seq}"

    def _path(self, query: LogQuery, where: dict[str, str], values: dict[str, Any]) -> str:
        """The narrowest way to the page; a text that few rows hold becomes a list of its hits."""
        if query.trace_id is not None or self._few_runs(where, values):
            return "by_runs"
        if query.text is not None and (hits := self._few_hits(query.text, where, values)) is not None:
            where["text"] = SQL["where_hit"]
            values["hits"] = orjson.dumps(hits).decode()
            return "by_runs"
        if query.degraded is not None:
            return "by_degraded"
        if query.error_code is not None:
            return "by_code"
        if query.tool_name is not None:
            return "by_tool"
        if values.get("kind") is not None and values["kind"] not in COMMON_KINDS:
            return "by_rare_kind"
        return "by_time"

    def _few_runs(self, where: dict[str, str], values: dict[str, Any]) -> bool:
        narrow = [where[name] for name in _OF_RUNS if name in where]
        if not narrow:
            return False
        sql = SQL["count_runs"].replace("{where}", " AND ".join(narrow))
        (count,) = self._db.execute(sql, values).fetchone() or (0,)
        return count <= FEW

    def _few_hits(self, text: str, where: dict[str, str], values: dict[str, Any]) -> list[int] | None:
        """The texts that hold all words, or None when they are many."""
        _, terms = _terms(text)
        trigrams = [word[i : i + 3] for word in text.split() for i in range(len(word) - 2)]
        if trigrams:
            quoted = ('"{}"'.format(part.replace('"', '""')) for part in dict.fromkeys(trigrams[:200]))
            values["match"] = " ".join(quoted)
        sql = SQL["indexed_hits" if trigrams else "scanned_hits"].replace("{where}", terms)
        hits = [row[0] for row in self._db.execute(sql, values)]
        return hits if len(hits) <= FEW else None


def _conditions(query: LogQuery, visible: Visible, values: dict[str, Any]) -> dict[str, str]:
    """SQL conditions by name; their values are added to ``values``."""
    where = {"always": SQL["where_always"]}
    given: dict[str, Any] = {name: getattr(query, name) for name in _BY_VALUE}
    if query.state is not None and query.kind is None:
        given["kind"] = _ONLY_KIND.get(query.state)
    given |= {"tenant": visible.tenant, "own": visible.own}
    for name, value in given.items():
        if value is not None:
            where[name] = SQL[f"where_{name}"]
            values[name] = value
    if query.degraded is not None:
        where["degraded"] = SQL["where_any_degraded" if query.degraded == "1" else "where_degraded"]
        values["degraded"] = query.degraded
    if query.after is not None and (place := _PLACE.fullmatch(query.after)) is not None:
        where["place"] = SQL["where_after" if query.oldest_first else "where_before"]
        values |= zip(("at", "run", "seq"), map(int, place.groups()), strict=True)
    if query.text is not None:
        words, terms = _terms(query.text)
        where["text"] = SQL["where_text"].replace("{where}", terms)
        values |= words
    return where


def _terms(text: str) -> tuple[dict[str, str], str]:
    """One condition on ``t.body`` that all words of ``text`` stand in it, in upper or lower case."""
    values: dict[str, str] = {}
    conditions: list[str] = []
    for number, word in enumerate(text.replace("\0", "\u2400").split()):
        name = f"term{number}"
        if word.isascii() or word.upper() == word.lower():
            values[name] = f"%{_LIKE_SPECIAL.sub(_ESCAPED, word)}%"
            conditions.append(SQL["term_like"].replace("{term}", name))
        else:
            values[name] = word.casefold()
            conditions.append(SQL["term_folded"].replace("{term}", name))
    return values, " AND ".join(conditions)


def _contains_folded(body: str, word: str) -> bool:
    """For alphabets other than the Latin one, whose cases SQLite's LIKE tells apart."""
    return word in body.casefold()
