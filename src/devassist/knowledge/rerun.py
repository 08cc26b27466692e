"""What a recorded search found beside what the same search finds today, and why they differ (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devassist.ports.rerun import Cause, Placed, Side


@dataclass(frozen=True, slots=True)
class Facts:
    """What the table says of one clause. ``then``: the recorded filter lets it through; ``then_any``: it would with
    every label; ``then_known``: it would with what is believed now, on the day of then; ``now`` and ``now_any``: the
    same of today's filter. ``believed``: anything is believed of its document; ``holds``: one of its document's
    revisions holds on today's day; ``seen``: the labels open anything of its document now."""

    then: bool
    then_any: bool
    then_known: bool
    now: bool
    now_any: bool
    believed: bool
    holds: bool
    seen: bool


def compared(
    recorded: Sequence[Placed], now: Sequence[Placed], facts: Mapping[str, Facts], *, same_index: bool
) -> list[Side]:
    """Both lists side by side, in the order of then and what is new after it. ``facts`` by clause id, of all of them;
    ``same_index``: the vector arm took part in both alike. A clause stands beside itself, or beside what it became."""
    sides: list[Side] = []
    left = {placed.clause_id: placed for placed in now}
    for placed in recorded:
        other = left.pop(placed.clause_id, None)
        if other is None:
            heir = next((n for n in left.values() if _heir(placed, n)), None)
            other = None if heir is None else left.pop(heir.clause_id)
        sides.append(Side(placed, other, _cause(placed, other, facts, same_index=same_index)))
    known = {placed.doc_id for placed in recorded}
    sides += [Side(None, placed, _came(placed, facts, known, same_index=same_index)) for placed in left.values()]
    return sides


def _heir(old: Placed, new: Placed) -> bool:
    same = old.lineage_id is not None and old.lineage_id == new.lineage_id
    return same and old.doc_id == new.doc_id and old.rev_id != new.rev_id


def _cause(old: Placed, new: Placed | None, facts: Mapping[str, Facts], *, same_index: bool) -> Cause | None:
    if new is not None and new.clause_id == old.clause_id:
        return None if new.rank == old.rank else _moved(same_index=same_index)
    if new is not None:
        return "new_revision"
    fact = facts[old.clause_id]
    if not fact.believed:
        return "deleted"
    if fact.now:
        return _moved(same_index=same_index)
    if fact.now_any or not fact.seen:
        return "rights"
    return "new_revision" if fact.holds else "repealed"


def _came(new: Placed, facts: Mapping[str, Facts], known: set[str], *, same_index: bool) -> Cause:
    """Why a clause is found today and was not then; ``known``: the documents that were found then."""
    fact = facts[new.clause_id]
    if fact.then:
        return _moved(same_index=same_index)
    if fact.then_any:
        return "rights"
    if fact.then_known and new.doc_id not in known:
        return "not_yet_known"
    return "new_revision"


def _moved(*, same_index: bool) -> Cause:
    return "ranking" if same_index else "index"
