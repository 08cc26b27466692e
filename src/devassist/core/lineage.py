"""Which journal it is and where it stands, and how a journal that was put back to an earlier state is told.

A database that was put back looks sound by itself. It shows by what stands apart from it: its *incarnation* (an id, new
after every restore) and its newest event, as they were last seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

How = Literal["restored", "by_hand", "replaced", "copied"]
"""By ``devassist restore``; an earlier state of the same journal without it; another journal, or a new one in place of
a lost one; a copy that ``devassist backup`` made, which nobody has put back yet."""


class Place(NamedTuple):
    """Which journal, and its newest event: row, time (microseconds) and hash (hex); 0, -1 and "" where it has none."""

    incarnation: str
    row: int
    at: int
    hash: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """What happened between ``window_from`` and ``window_to`` (microseconds) is not in the journal. ``known``: the end
    is where the lost journal is known to have stood; else it is when the rewind was noticed. ``incarnation`` is the
    journal's since then, ``previous`` that of the lost one."""

    how: How
    incarnation: str
    previous: str
    window_from: int
    window_to: int
    known: bool = True


def contradiction(remembered: Place | None, now: Place, hash_there: str | None) -> How | None:
    """What the memory holds against a journal that stands at ``now`` and has an event of ``hash_there`` in the
    remembered row. A row that was given anew has another hash, however far the journal has grown since."""
    if remembered is None:
        return None
    if remembered.incarnation != now.incarnation:
        return "replaced"
    return "by_hand" if remembered.row and remembered.hash != hash_there else None


def noticed(
    mark: Rewind | None, remembered: Place | None, place: Place, hash_there: str | None, *, now: int, fresh: str
) -> Rewind | None:  # fmt: skip
    """What a look at a journal that stands at ``place`` finds: the rewind that is marked in it, one that nobody has
    seen yet, which makes it the incarnation ``fresh``, or none. A marked copy was put back by hand."""
    if mark is not None and mark.how != "copied":
        return mark
    how = contradiction(remembered, place, hash_there) if mark is None else "by_hand"
    since = None if mark is None else mark.window_from
    return None if how is None else lost(how, remembered, place, since=since, noticed=now, incarnation=fresh)


def lost(
    how: How, remembered: Place | None, now: Place, *, since: int | None, noticed: int, incarnation: str
) -> Rewind:
    """The rewind of a journal that stands at ``now``. ``since``: the time up to which it is whole, where that is not
    its newest event's; ``noticed``: the end of the window where it is not remembered."""
    start = max(now.at if since is None else since, 0)
    known = remembered is not None and remembered.at >= start
    end = remembered.at if remembered is not None and known else max(noticed, start)
    previous = now.incarnation if remembered is None else remembered.incarnation
    return Rewind(how, incarnation, previous, start, end, known)
