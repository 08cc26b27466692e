"""The knowledge test bundle (../shared/kb) as policy files: real statutes, lay questions and their gold clauses."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from devassist.knowledge.assets import canonical_text, content_hash, text_hash
from devassist.knowledge.references import article_of_label

KB = Path(__file__).parents[1].parent / "shared" / "kb"
STATUTES = KB / "zh_statutes"
NO_BUNDLE = f"the knowledge bundle is not at {KB}; put the directory kb/ of the project's shared files there"


def need_bundle() -> None:
    """Skip the calling test when the bundle is absent."""
    if not STATUTES.is_dir():
        pytest.skip(NO_BUNDLE)


class Question(NamedTuple):
    """A lay question of the dev set, with the ids of its gold clauses in the assets made here."""

    qid: str
    query: str
    gold: tuple[str, ...]


@cache
def corpus() -> tuple[dict[str, Any], ...]:
    """Every article of the bundle's corpus, in its order."""
    with (STATUTES / "corpus.jsonl").open(encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


@cache
def full_corpus() -> tuple[dict[str, Any], ...]:
    """Every article of the 58,827 of the rebuilt corpus: law, title, art, chap, text, path."""
    with gzip.open(KB / "full_corpus_58827.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


def plain(text: str) -> str:
    """A text without its white space: what tells articles of the two corpora apart."""
    return "".join(text.split())


def core13_ids() -> frozenset[str]:
    """Corpus ids of the 13 laws, 1,331 articles, for which baselines were measured."""
    return frozenset((STATUTES / "core13_clause_ids.txt").read_text(encoding="utf-8").split())


def statute_assets(core_only: bool = True) -> list[dict[str, Any]]:
    """Knowledge assets of the 13 core laws (1,331 articles), or of all 135 (10,374 articles).

    Each asset's ``extra.corpus_ids`` maps our clause ids to those of the bundle.
    """
    core = core13_ids()
    by_law: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in corpus():
        if not core_only or row["clause_id"] in core:
            by_law[row["law"]].append(row)
    return [_asset(law, rows) for law, rows in by_law.items()]


def core50_assets() -> list[dict[str, Any]]:
    """Knowledge assets of the bundle's core of 50 laws, 3,886 articles."""
    by_law: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in corpus():
        if row["in_core"]:
            by_law[row["law"]].append(row)
    return [_asset(law, rows) for law, rows in by_law.items()]


def corpus_ids(assets: list[dict[str, Any]]) -> dict[str, str]:
    """Our clause id -> corpus id, over all assets."""
    return {ours: theirs for asset in assets for ours, theirs in asset["extra"]["corpus_ids"].items()}


def write_policy_dir(path: Path, assets: list[dict[str, Any]]) -> Path:
    """Write one file per asset below ``path`` and return it."""
    path.mkdir(parents=True, exist_ok=True)
    for asset in assets:
        (path / f"{asset['rev_id']}.json").write_text(json.dumps(asset, ensure_ascii=False), encoding="utf-8")
    return path


@cache
def dev_queries() -> dict[str, str]:
    """qid -> lay query."""
    with (STATUTES / "queries_dev.jsonl").open(encoding="utf-8") as lines:
        return {row["qid"]: row["query"] for row in map(json.loads, lines)}


@cache
def gold() -> dict[str, frozenset[str]]:
    """qid -> corpus ids that lawyers marked as relevant."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in (STATUTES / "qrels_dev.tsv").read_text(encoding="utf-8").splitlines():
        qid, clause_id, grade = line.split("\t")
        if grade != "0":
            found[qid].add(clause_id)
    return {qid: frozenset(ids) for qid, ids in found.items()}


def core13_qids() -> list[str]:
    """The 706 dev queries whose gold lies wholly within the 13 core laws."""
    return (STATUTES / "core13_qids_dev.txt").read_text(encoding="utf-8").split()


def make_asset(
    doc_id: str,
    title: str,
    clauses: list[tuple[str, str]],
    *,
    valid_from: str = "2020-01-01",
    valid_to: str | None = None,
    headings: list[list[str]] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A valid asset of (label, text) clauses; ``fields`` replace whole top-level keys."""
    rev_id = f"{doc_id}@{valid_from}"
    made: list[dict[str, Any]] = []
    seen: set[str] = set()
    for ordinal, (label, raw) in enumerate(clauses):
        text, article = canonical_text(raw), article_of_label(label)
        path = f"c-{ordinal}" if article is None else f"art-{article.article}" + (f".{article.sub}" * bool(article.sub))
        clause_id = f"{rev_id}#{path}" if f"{rev_id}#{path}" not in seen else f"{rev_id}#{path}-{ordinal}"
        seen.add(clause_id)
        made.append(
            {
                "clause_id": clause_id,
                "lineage_id": f"{doc_id}:{text_hash(text)[:8]}",
                "ordinal": ordinal,
                "kind": "article",
                "label": label,
                "number": None if article is None else {"article": article.article, "sub": article.sub or None},
                "heading_path": headings[ordinal] if headings else [],
                "text": text,
                "text_sha256": text_hash(text),
            }
        )
    return {
        "schema_version": 1,
        "doc_id": doc_id,
        "rev_id": rev_id,
        "title": title,
        "lang": "zh",
        "kind": "law",
        "status": "published",
        "effective_date": None,
        "effective_date_basis": "unknown",
        "valid_from": valid_from,
        "valid_to": valid_to,
        "recorded_from": "2026-01-01T00:00:00Z",
        "recorded_to": None,
        "source": {
            "url": f"https://example.org/{doc_id}",
            "retrieved_at": "2026-01-01T00:00:00Z",
            "media_type": "text/plain",
            "raw_sha256": hashlib.sha256(title.encode()).hexdigest(),
            "parser": "tests/1",
        },
        "clauses": made,
        "revisions": [{"date": valid_from, "by": "tests", "action": "imported"}],
        "content_sha256": content_hash(made),
    } | fields


def _asset(law: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    made = make_asset(
        "law-" + hashlib.sha256(law.encode()).hexdigest()[:10],
        rows[0]["title"],
        [(row["article"], row["text"]) for row in rows],
        valid_from=max((row["version_date"] for row in rows if row["version_date"]), default="2021-01-01"),
        headings=[re.split(r"\s*/\s*", row["chapter"]) if row["chapter"] else [] for row in rows],
    )
    ids = {clause["clause_id"]: row["clause_id"] for clause, row in zip(made["clauses"], rows, strict=True)}
    return made | {"extra": {"corpus_ids": ids}}


NOTHING_QUESTIONS = [
    "如何用Python写二分查找？",
    "今天天气怎么样？",
    "What is the capital of France?",
    "火星上的氧气浓度是多少？",
]
"""Questions that neither the statutes nor the samples say anything about."""


TEN_QUESTIONS = [
    Question(
        "stard-1173",
        "什么是代位继承？",
        ("law-21ee33d2af@2021-01-01#art-1128",),
    ),
    Question(
        "stard-259",
        "保管人能否擅自转移保管场所或改变保管方式？",
        ("law-e5c486b42a@2021-01-01#art-892",),
    ),
    Question(
        "stard-97",
        "变更姓名，我有哪些需要注意的情形？",
        (
            "law-cbf4c766a2@2021-01-01#art-1015",
            "law-cbf4c766a2@2021-01-01#art-1012",
            "law-cbf4c766a2@2021-01-01#art-1016",
        ),
    ),
    Question(
        "stard-1452",
        "乘坐飞机我带的行李有点大，不办理托运带上飞机放在行李架可以吗？",
        ("law-e5c486b42a@2021-01-01#art-817",),
    ),
    Question(
        "stard-1199",
        "立完遗嘱后想变更怎么办？",
        ("law-21ee33d2af@2021-01-01#art-1142",),
    ),
    Question(
        "stard-1185",
        "口头遗嘱有效吗？/临终遗言能否作为遗嘱？",
        ("law-21ee33d2af@2021-01-01#art-1138",),
    ),
    Question(
        "stard-842",
        "旅游经营者擅自改变旅游行程、遗漏旅游景点、减少旅游服务项目、降低旅游服务标准，旅游者如何救济？",
        ("law-ba64f1158c@2020-12-29#art-15",),
    ),
    Question(
        "stard-440",
        "如何认定劳动者不能胜任工作？",
        ("law-539d438856@2012-12-28#art-40",),
    ),
    Question(
        "stard-937",
        "以企业法定代表人或者负责人个人名义借款，出借人可以要求企业还款吗？",
        ("law-5ac19d83d3@2020-12-29#art-22",),
    ),
    Question(
        "stard-619",
        "他人公路上曝晒玉米、谷物等，造成通行不便，可以要求其停止行为吗？",
        ("law-374221e82e@2021-01-01#art-1256",),
    ),
]
"""Ten lay questions on seven of the core laws whose answer a lexical search finds."""
