"""How the lists of several arms become one, and how far a clause covers a question (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devassist.ports.library import Arm, Ranked

RRF_K = 10
"""The constant of reciprocal rank fusion. The paper (Cormack, Clarke, Buettcher 2009) takes 60; 10 measured a little
better on statutes, where the first few ranks of either arm are worth more than a long tail of both."""
WEIGHTS: Mapping[Arm, float] = {"lexical": 1.0, "dense": 1.0}
ENOUGH_RARE_TERMS = 2.0
"""How much of a long question one clause has to cover, counted in terms as rare as one that stands in one clause only.

A lay question tells a story, and no clause covers all of it: demanding a share of the whole loses a quarter of the
good questions before it rejects the last unrelated one. Two rare terms in one clause are a topic, not chance.
"""


@dataclass(frozen=True, slots=True)
class Fused:
    """A clause with its fused score and where each arm had it."""

    key: int
    score: float
    why: tuple[Ranked, ...]


def fuse(
    arms: Mapping[Arm, Sequence[tuple[int, float]]], named: Sequence[int] = (), *, k: int = RRF_K,
    weights: Mapping[Arm, float] = WEIGHTS,
) -> list[Fused]:  # fmt: skip
    """Reciprocal rank fusion of lists of (key, score), best first each; ties go to the smaller key.

    ``named`` are clauses that the query names by number: they lead, in their order, whatever the arms say.
    """
    scores: dict[int, float] = {}
    why: dict[int, list[Ranked]] = {}
    for rank, key in enumerate(named, 1):
        scores[key] = 1.0 + 1.0 / rank
        why[key] = [Ranked("article", rank, 1.0 / rank)]
    for arm, found in arms.items():
        for rank, (key, score) in enumerate(found, 1):
            scores[key] = scores.get(key, 0.0) + weights.get(arm, 1.0) / (k + rank)
            why.setdefault(key, []).append(Ranked(arm, rank, score))
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return [Fused(key, scores[key], tuple(why[key])) for key in order]


def lead(fused: Sequence[Fused], held: Sequence[int]) -> list[Fused]:
    """Put the clauses that hold a number that the query names (``held``, best first) before all others: in their fused
    order, then those that no arm had."""
    place = {key: rank for rank, key in enumerate(held, 1)}
    missing = set(place) - {one.key for one in fused}
    whole = [*fused, *(Fused(key, 0.0, ()) for key in held if key in missing)]
    first = [
        Fused(one.key, one.score + 1.0, (Ranked("article", place[one.key], 1.0 / place[one.key]), *one.why))
        for one in whole if one.key in place
    ]  # fmt: skip
    return first + [one for one in whole if one.key not in place]


def weights(asked: Sequence[str], total: int, frequencies: Mapping[str, int]) -> dict[str, float]:
    """What each term of a question counts, in terms as rare as one that stands in one clause only; a term that stands
    nowhere counts as much as that."""
    rarest = _idf(total, 1)
    return {term: _idf(total, times) / rarest if (times := frequencies.get(term, 0)) else 1.0 for term in asked}


def share(weighted: Mapping[str, float], held: frozenset[str]) -> float:
    """How far a clause that holds the terms ``held`` covers the question, 0..1."""
    total = sum(weighted.values())
    covered = sum(weight for term, weight in weighted.items() if term in held)
    return min(1.0, covered / min(total, ENOUGH_RARE_TERMS)) if total else 0.0


def _idf(total: int, times: int) -> float:
    return math.log(1.0 + (total - times + 0.5) / (times + 0.5))
