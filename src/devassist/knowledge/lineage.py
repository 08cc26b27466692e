"""What changed between two revisions (pure), and which clause of the new one goes on which of the old.

The number of an article is no identity: an amendment that inserts three articles renumbers all that follow. So clauses
are matched by text first (equal texts, in order), then by likeness, and by number only to choose among equals. Likeness
is the Dice coefficient of character bigrams, white space aside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from devassist.ports.knowledge_store import Change, ClauseNumber

LIKE = 0.5
"""From this likeness on a clause counts as the old one, modified."""
SAME_NUMBER_LIKE = 0.3
"""The bar where number and heading are the same too."""


class Unit(NamedTuple):
    """A clause as the diff sees it: ``label`` and ``number`` as printed, ``lineage_id`` of an old one."""

    label: str
    number: ClauseNumber | None
    text: str
    text_sha256: str
    lineage_id: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a comparison. ``old`` and ``new`` are places in the two lists, None where there is none."""

    op: Literal["keep", "renumber", "modify", "add", "delete"]
    old: int | None
    new: int | None
    similarity: float


def compare(old: Sequence[Unit], new: Sequence[Unit]) -> list[Step]:
    """Every clause of both revisions exactly once, in the new one's order; deleted ones stand after what preceded
    them. ``keep`` and ``renumber`` mean equal texts, white space aside: copies of a statute differ in blanks that
    nobody enacted."""
    pairs = _equal_texts(old, new)
    pairs |= _alike(old, new, pairs)
    steps: list[Step] = []
    left = {i for i in range(len(old)) if i not in set(pairs.values())}
    before = -1
    for j, unit in enumerate(new):
        i = pairs.get(j)
        if i is None:
            steps.append(Step("add", None, j, 0.0))
            continue
        steps += [Step("delete", k, None, 0.0) for k in sorted(left) if before < k < i]
        left -= set(range(before + 1, i))
        before = max(before, i)
        if _plain(old[i].text) == _plain(unit.text):
            same = old[i].label == unit.label
            steps.append(Step("keep" if same else "renumber", i, j, 1.0))
        else:
            steps.append(Step("modify", i, j, round(likeness(old[i].text, unit.text), 3)))
    return steps + [Step("delete", k, None, 0.0) for k in sorted(left)]


def changes(old: Sequence[Unit], new: Sequence[Unit], steps: Sequence[Step]) -> tuple[Change, ...]:
    """The steps that changed something, as a history entry keeps them. A modified clause that also has another number
    shows both labels."""
    return tuple(
        Change(
            step.op,
            None if step.old is None else old[step.old].label,
            None if step.new is None else new[step.new].label,
            None if step.op in ("add", "delete") else step.similarity,
        )
        for step in steps
        if step.op != "keep"
    )


def lineages(doc_id: str, old: Sequence[Unit], new: Sequence[Unit], steps: Sequence[Step]) -> list[str]:
    """The lineage id of each new clause: that of the old one it goes on, or a new one made of its text. Two clauses of
    one revision never share one."""
    found: dict[int, str] = {
        step.new: old[step.old].lineage_id for step in steps if step.new is not None and step.old is not None
    }
    taken = set(found.values()) | {unit.lineage_id for unit in old}
    for j, unit in enumerate(new):
        if j in found:
            continue
        base = name = f"{doc_id}:{unit.text_sha256[:12]}"
        for n in range(2, len(new) + len(old) + 2):
            if name not in taken:
                break
            name = f"{base}-{n}"
        taken.add(name)
        found[j] = name
    return [found[j] for j in range(len(new))]


def likeness(left: str, right: str) -> float:
    """0 (nothing in common) to 1 (the same bigrams)."""
    return _dice(_bigrams(left), _bigrams(right))


def _equal_texts(old: Sequence[Unit], new: Sequence[Unit]) -> dict[int, int]:
    """New place -> old place of clauses whose texts are equal; where a text stands several times, those with the same
    label belong together first, then they go in order."""
    places: dict[str, list[int]] = defaultdict(list)
    for i, unit in enumerate(old):
        places[_plain(unit.text)].append(i)
    pairs: dict[int, int] = {}
    for exact in (True, False):
        for j, unit in enumerate(new):
            if j in pairs:
                continue
            same = places.get(_plain(unit.text), [])
            i = next((i for i in same if not exact or old[i].label == unit.label), None)
            if i is not None:
                same.remove(i)
                pairs[j] = i
    return pairs


def _alike(old: Sequence[Unit], new: Sequence[Unit], pairs: Mapping[int, int]) -> dict[int, int]:
    """The most alike of what is left first. Only clauses that share bigrams are compared."""
    used = set(pairs.values())
    grams = {i: _bigrams(unit.text) for i, unit in enumerate(old) if i not in used}
    holders: dict[str, list[int]] = defaultdict(list)
    for i, counts in grams.items():
        for gram in counts:
            holders[gram].append(i)
    scored: list[tuple[float, bool, int, int]] = []
    for j, unit in enumerate(new):
        if j in pairs:
            continue
        mine = _bigrams(unit.text)
        shared: Counter[int] = Counter()
        for gram, times in mine.items():
            for i in holders.get(gram, ()):
                shared[i] += min(times, grams[i][gram])
        for i, common in shared.items():
            value = 2 * common / (mine.total() + grams[i].total())
            same = old[i].number is not None and old[i].number == unit.number
            if value >= (SAME_NUMBER_LIKE if same else LIKE):
                scored.append((value, same, i, j))
    scored.sort(key=lambda s: (-s[0], not s[1], abs(s[2] - s[3]), s[3]))
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, i, j in scored:
        if i not in taken and j not in found:
            found[j] = i
            taken.add(i)
    return found


def _plain(text: str) -> str:
    return "".join(text.split())


def _bigrams(text: str) -> Counter[str]:
    plain = _plain(text)
    return Counter(map("".join, pairwise(plain))) if len(plain) > 1 else Counter([plain])


def _dice(left: Counter[str], right: Counter[str]) -> float:
    both = left.total() + right.total()
    return 2 * (left & right).total() / both if both else 1.0
