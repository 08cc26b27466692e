"""Plans what a change does to a document's beliefs (pure): amendments, late arrivals, corrections, repeals, deletes.

What is believed now is a row of half-open intervals of days that never overlap. Every change is the same operation:
close the beliefs that are wrong from now on, open what is believed instead. Nothing is ever overwritten, so "what did
we believe then" stays a question with one answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from devassist.core.errors import CallerError, KnowledgeConflict
from devassist.ports.knowledge_store import Belief, Opening, Plan, Revision


def believed(beliefs: Iterable[Belief]) -> list[Belief]:
    """What is believed now, by day."""
    return sorted((b for b in beliefs if b.recorded_to is None), key=lambda b: b.valid_from)


def next_rev_id(beliefs: Iterable[Belief], doc_id: str, valid_from: str) -> str:
    """The id of a revision that is new to the document: ``doc_id@valid_from``, with ``.n`` from the first correction
    on."""
    first = f"{doc_id}@{valid_from}"
    taken = {b.rev_id for b in beliefs}
    if first not in taken:
        return first
    return next(name for n in range(1, len(taken) + 2) if (name := f"{first}.{n}") not in taken)


def predecessor(beliefs: Iterable[Belief], valid_from: str) -> str | None:
    """The believed revision that a new one of ``valid_from`` follows or corrects: the latest that begins no later."""
    earlier = [b.rev_id for b in believed(beliefs) if b.valid_from <= valid_from]
    return earlier[-1] if earlier else None


def plan_revision(
    beliefs: Sequence[Belief], revision: Revision, *, raw: bytes | None = None, valid_to: str | None = None
) -> Plan:
    """A revision becomes believed from its ``valid_from`` on: until ``valid_to`` (exclusive), until the next believed
    revision begins, or for ever. One that begins on the day of another corrects it and takes its interval.

    Raises KnowledgeConflict when ``valid_to`` reaches into a later revision.
    """
    now, start = believed(beliefs), revision.valid_from
    corrected = next((b for b in now if b.valid_from == start), None)
    covering = next((b for b in now if b.valid_from < start and _holds(b, start)), None)
    following = next((b.valid_from for b in now if b.valid_from > start), None)
    end = valid_to
    if end is None:
        ends = corrected.valid_to if corrected else covering.valid_to if covering else None
        end = min((day for day in (ends, following) if day is not None), default=None)
    elif following is not None and end > following:
        raise KnowledgeConflict(
            f"{revision.rev_id} would hold until {end}, and another revision of the document holds from {following}"
        )
    opened = [Opening(revision.rev_id, "published", start, end)]
    closed = [b.belief_id for b in (corrected, covering) if b is not None]
    if covering is not None:
        opened.insert(0, Opening(covering.rev_id, covering.status, covering.valid_from, start))
    return Plan(
        revision.doc_id, len(beliefs), tuple(closed), tuple(opened), revision, raw,
        reason="corrected" if corrected else "ingested",
    )  # fmt: skip


def plan_repeal(beliefs: Sequence[Belief], doc_id: str, day: str) -> Plan:
    """From ``day`` on no revision holds; what held before still does. Raises CallerError (``nothing_to_repeal``)."""
    now = believed(beliefs)
    ended = [b for b in now if b.valid_to is None or b.valid_to > day]
    if not ended:
        raise CallerError(f"no revision of {doc_id} holds on {day} or later", code="nothing_to_repeal")
    cut = [Opening(b.rev_id, b.status, b.valid_from, day) for b in ended if b.valid_from < day]
    return Plan(doc_id, len(beliefs), tuple(b.belief_id for b in ended), tuple(cut), reason="repealed")


def plan_delete(beliefs: Sequence[Belief], doc_id: str) -> Plan:
    """Nothing is believed of the document any more, and none of its clauses can be found by any search, whatever day
    or time it asks about; the rows stay for the record."""
    return Plan(
        doc_id, len(beliefs), tuple(b.belief_id for b in believed(beliefs)),
        purge=tuple(dict.fromkeys(b.rev_id for b in beliefs)), reason="deleted",
    )  # fmt: skip


def plan_redate(beliefs: Sequence[Belief], doc_id: str, rev_id: str, valid_to: str | None) -> Plan:
    """Another end of a believed revision, such as a repeal that is taken back. Raises CallerError
    (``revision_not_believed``), KnowledgeConflict when it would reach into another."""
    now = believed(beliefs)
    row = next((b for b in now if b.rev_id == rev_id), None)
    if row is None:
        raise CallerError(f"{rev_id} is not believed of {doc_id} now", code="revision_not_believed")
    following = next((b.valid_from for b in now if b.valid_from > row.valid_from), None)
    if following is not None and (valid_to is None or valid_to > following):
        raise KnowledgeConflict(f"{rev_id} would reach into the revision that holds from {following}")
    opened = Opening(rev_id, row.status, row.valid_from, valid_to)
    return Plan(doc_id, len(beliefs), (row.belief_id,), (opened,), reason="redated")


def _holds(belief: Belief, day: str) -> bool:
    return belief.valid_from <= day and (belief.valid_to is None or day < belief.valid_to)
