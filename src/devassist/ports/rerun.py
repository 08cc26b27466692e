"""Port to searches that runs recorded: asked again today, and told apart from what was found then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from devassist.core.scope import Scope

Cause = Literal["new_revision", "repealed", "deleted", "not_yet_known", "rights", "ranking", "index"]
"""Why a clause stands elsewhere in the list, or in one list only:

- ``new_revision``: another revision of its document holds on the day asked for;
- ``repealed``: none of its document's revisions holds on that day any more;
- ``deleted``: nothing is believed of its document any more;
- ``not_yet_known``: it would have held, and was ingested only later;
- ``rights``: the labels of its document are others now, or it was searched with others;
- ``index``: the vector arm took part in another way (left out, lagging, another version or embedder);
- ``ranking``: eligible both times; statistics of the lexical index or its neighbours moved.
"""


@dataclass(frozen=True, slots=True)
class Placed:
    """A clause in a list of hits; ``rank`` is from 1. ``lineage_id`` is its identity across revisions, where known."""

    rank: int
    doc_id: str
    rev_id: str
    clause_id: str
    lineage_id: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """The same clause, or the one that it became, in both lists; ``cause`` is None where nothing differs."""

    recorded: Placed | None
    now: Placed | None
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Rerun:
    """One recorded search beside today's. ``as_of`` and ``known_at`` (microseconds) are the recorded ones, ``labels``
    the rights that both were made with (None: all); ``day_now`` is the day that today's was asked for. ``ineligible``
    names recorded clauses that the recorded filter does not let through when it is applied again: none, and the
    eligibility of then is repeated exactly. ``fault`` is the code that today's search was refused with."""

    query: str
    collections: tuple[str, ...]
    as_of: str
    day_now: str
    known_at: int
    labels: tuple[str, ...] | None
    rule: str
    sides: tuple[Side, ...]
    checked: int
    ineligible: tuple[str, ...]
    fault: str | None = None

    @property
    def equal(self) -> bool:
        """Whether the filter of then gives what it gave then."""
        return not self.ineligible

    @property
    def differs(self) -> bool:
        return any(side.cause is not None for side in self.sides)


class Reruns(Protocol):
    async def again(self, scope: Scope, record: Mapping[str, Any]) -> Rerun:
        """Search again for what a run's ``retrieval`` record says. Raises CallerError (``not_repeatable``) for a record
        that does not say what was asked, Forbidden for who is no administrator."""
        ...
