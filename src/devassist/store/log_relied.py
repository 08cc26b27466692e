"""Which runs used a document or a revision, newest first, a page of runs at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

from devassist.core.errors import InvalidRequest
from devassist.ports.decision_log import Reliance
from devassist.store.database import Database
from devassist.store.log_query import MAX_LIMIT, SQL, Visible

_LONGEST = 200


class Asked(NamedTuple):
    """``where`` names the statement's condition that ``value`` fills; ``older_run`` is where an earlier page ended."""

    where: str
    value: str
    older_run: int | None
    limit: int


def checked(doc_id: str | None, rev_id: str | None, after: str | None, limit: int) -> Asked:
    """Raises InvalidRequest naming the field and what would be right."""
    given = [(name, value) for name, value in (("doc_id", doc_id), ("rev_id", rev_id)) if value is not None]
    wrong: list[tuple[str, str]] = []
    if len(given) != 1:
        wrong.append(("doc_id", "give either doc_id or rev_id"))
    elif not 1 <= len(given[0][1]) <= _LONGEST:
        wrong.append((given[0][0], f"must hold 1 to {_LONGEST} characters"))
    if not 1 <= limit <= MAX_LIMIT:
        wrong.append(("limit", f"must be between 1 and {MAX_LIMIT}"))
    if after is not None and not (after.isascii() and after.isdigit() and len(after) < 19):
        wrong.append(("after", "must be the `next` of an earlier page"))
    if wrong:
        raise InvalidRequest("; ".join(f"{name} {problem}" for name, problem in wrong), errors=tuple(wrong))
    name, value = given[0]
    return Asked(name, value, None if after is None else int(after), limit)


def relied(db: Database, asked: Asked, visible: Visible) -> tuple[list[Reliance], str | None]:
    """The rows of a page, and the place to go on from, None at the end."""
    which = SQL[f"where_{asked.where}"]
    values: dict[str, Any] = {asked.where: asked.value, "limit": asked.limit + 1}
    where = [which]
    for name, value in (("tenant", visible.tenant), ("own", visible.own)):
        if value is not None:
            where.append(SQL[f"where_{name}"])
            values[name] = value
    if asked.older_run is not None:
        where.append(SQL["where_older_run"])
        values["older_run"] = asked.older_run
    sql = SQL["relied"].replace("{where}", " AND ".join(where)).replace("{which}", which)
    found = db.execute(sql, values).fetchall()
    runs = list(dict.fromkeys(row[-1] for row in found))
    shown = set(runs[: asked.limit])
    following = str(runs[asked.limit - 1]) if len(runs) > asked.limit else None
    return [Reliance(*row[:-1]) for row in found if row[-1] in shown], following
