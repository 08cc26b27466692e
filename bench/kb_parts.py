"""What the measurements of knowledge share: the measure, a table that is filled, and questions that are asked of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from devassist.core.scope import TENANT, Scope
from devassist.knowledge.asset_files import revision_of_asset
from devassist.knowledge.search import TableLibrary
from devassist.knowledge.timeline import plan_revision
from devassist.ports.curation import Given
from devassist.ports.library import Question
from devassist.runtime.clock import SystemClock
from devassist.store.knowledge_sqlite import SqliteKnowledge

SCOPE = Scope(TENANT, "bench", frozenset({"admin"}))
TODAY = "2026-01-01"
DEPTH = 10


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over questions."""

    ndcg: float
    recall: float
    count: int

    @classmethod
    def of(cls, found: Iterable[tuple[Sequence[str], frozenset[str]]]) -> Quality:
        ndcg, recall = list[float](), list[float]()
        for ranked, gold in found:
            gains = [1 / math.log2(n + 2) for n, one in enumerate(ranked[:DEPTH]) if one in gold]
            ideal = sum(1 / math.log2(n + 2) for n in range(min(len(gold), DEPTH)))
            ndcg.append(sum(gains) / ideal)
            recall.append(len(gains) / len(gold))
        return cls(sum(ndcg) / len(ndcg), sum(recall) / len(recall), len(ndcg))

    def cells(self, name: str) -> list[str]:
        return [name, f"{self.ndcg:.4f}", f"{self.recall:.4f}", str(self.count)]


async def fill(store: SqliteKnowledge, assets: Iterable[Mapping[str, Any]], collection: str) -> None:
    clock = SystemClock()
    for asset in assets:
        revision = revision_of_asset(asset, Given(collection))
        await store.commit(SCOPE, [plan_revision([], revision)], clock.now_us())


async def rank(
    library: TableLibrary, questions: Mapping[str, str], names: Mapping[str, str], question: Question
) -> dict[str, list[str]]:
    """qid -> the bundle's ids of what was found, best first."""
    ranked: dict[str, list[str]] = {}
    for qid, text in questions.items():
        answered = await library.search(SCOPE, replace(question, query=text))
        ranked[qid] = [names[hit.clause_id] for hit in answered.hits]
    return ranked


def progress_of(what: str) -> Callable[[int, int], None]:
    def show(done: int, todo: int) -> None:
        print(f"\r{what} {done}/{todo}", end="" if done < todo else "\n", file=sys.stderr, flush=True)

    return show


def p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]
