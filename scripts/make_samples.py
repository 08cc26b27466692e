"""Write the packaged sample policies from scripts/samples.toml, with their hashes.

``python scripts/make_samples.py`` writes, ``--check`` only says whether the files are what it would write (exit 1 if
not). The output depends on nothing but the source file: no clock, no order of a directory.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from devassist.knowledge.assets import canonical_text, content_hash, text_hash

SOURCE = Path(__file__).with_name("samples.toml")
TARGET = Path(__file__).parents[1] / "src" / "devassist" / "knowledge" / "samples"
_RECORDED = "2026-01-01T00:00:00Z"
_DIGITS = "零一二三四五六七八九"

Clause = dict[str, Any]
Asset = dict[str, Any]


def label(number: int) -> str:
    """第十二条 for 12; enough for a document of under a hundred articles."""
    tens, ones = divmod(number, 10)
    tens_text = "" if tens == 0 else "十" if tens == 1 else _DIGITS[tens] + "十"
    return f"第{tens_text}{_DIGITS[ones] if ones else ''}条"


def articles(text: str) -> Iterator[tuple[str, str]]:
    """(chapter, article) pairs of the source notation."""
    chapter, body = "", ""
    for line in text.strip().splitlines():
        if line.startswith("  "):
            body += "\n" + line.strip()
            continue
        if body:
            yield chapter, body
        chapter, body = (line[2:], "") if line.startswith("# ") else (chapter, line)
    if body:
        yield chapter, body


def _clause(rev_id: str, doc_id: str, number: int, chapter: str, text: str, first_text: str) -> Clause:
    """``lineage_id`` comes from the article's first wording, so it stays when the wording changes."""
    text = canonical_text(text)
    return {
        "clause_id": f"{rev_id}#art-{number}",
        "lineage_id": f"{doc_id}:{text_hash(canonical_text(first_text))[:8]}",
        "parent_id": None,
        "ordinal": number - 1,
        "kind": "article",
        "label": label(number),
        "number": {"article": number, "sub": None},
        "heading_path": [chapter],
        "text": text,
        "text_sha256": text_hash(text),
    }


def _history(policy: dict[str, Any], upto: int, rev_ids: list[str]) -> list[dict[str, Any]]:
    """The revisions[] of revision number ``upto``: one entry for itself and for each before it."""
    history: list[dict[str, Any]] = []
    for index, revision in enumerate(policy["revision"][: upto + 1]):
        entry: dict[str, Any] = {
            "date": revision["promulgated_on"],
            "by": policy["issuer"],
            "action": "amended" if index else "adopted",
            "instrument": revision["instrument"],
        }
        if index:
            entry["changes"] = [
                {"op": "modify", "from": f"{rev_ids[index - 1]}#art-{n}", "to": f"{rev_ids[index]}#art-{n}"}
                for n in sorted(map(int, revision["replace"]))
            ]
            entry["changes_basis"] = "computed_diff"
        history.append(entry)
    return history


def _asset(policy: dict[str, Any], index: int, rev_ids: list[str], clauses: list[Clause]) -> Asset:
    revisions = policy["revision"]
    revision = revisions[index]
    plain = "\n".join([policy["title"], *(f"{c['label']} {c['text']}" for c in clauses)]) + "\n"
    return {
        "schema_version": 1,
        "doc_id": policy["doc_id"],
        "rev_id": rev_ids[index],
        "title": policy["title"],
        "lang": "zh",
        "kind": "policy",
        "issuer": policy["issuer"],
        "status": "published",
        "promulgated_on": revision["promulgated_on"],
        "effective_date": revision["valid_from"],
        "effective_date_basis": "stated",
        "valid_from": revision["valid_from"],
        "valid_to": revisions[index + 1]["valid_from"] if index + 1 < len(revisions) else None,
        "recorded_from": _RECORDED,
        "recorded_to": None,
        "supersedes": rev_ids[index - 1] if index else None,
        "source": {
            "url": f"https://policies.yunze.example/{policy['doc_id']}/{revision['valid_from']}",
            "retrieved_at": _RECORDED,
            "media_type": "text/plain",
            "charset": "utf-8",
            "raw_sha256": hashlib.sha256(plain.encode()).hexdigest(),
            "parser": "make_samples/1",
            "licence": "invented text, Apache-2.0 like the rest of this repository",
        },
        "clauses": clauses,
        "revisions": _history(policy, index, rev_ids),
        "content_sha256": content_hash(clauses),
        "extra": {"sample": True, "notice": "虚构的示例政策，不是任何地方的现行规定。"},
    }


def assets(policy: dict[str, Any]) -> Iterator[Asset]:
    """Every revision of one policy, the oldest first."""
    dates = [revision["valid_from"] for revision in policy["revision"]]
    if any(later <= earlier for earlier, later in pairwise(dates)):
        raise ValueError(f"{policy['doc_id']}: revisions must be in order of valid_from")
    rev_ids = [f"{policy['doc_id']}@{day}" for day in dates]
    first = list(articles(policy["revision"][0]["text"]))
    current = list(first)
    for index, revision in enumerate(policy["revision"]):
        for number, text in revision.get("replace", {}).items():
            current[int(number) - 1] = (current[int(number) - 1][0], text)
        clauses = [
            _clause(rev_ids[index], policy["doc_id"], number, chapter, text, first[number - 1][1])
            for number, (chapter, text) in enumerate(current, start=1)
        ]
        yield _asset(policy, index, rev_ids, clauses)


def build() -> dict[str, str]:
    """File name -> content of every sample."""
    source = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    return {
        f"{asset['rev_id']}.json": json.dumps(asset, ensure_ascii=False, indent=1) + "\n"
        for policy in source["policy"]
        for asset in assets(policy)
    }


def main() -> int:
    files = build()
    present = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.json")}
    if "--check" in sys.argv[1:]:
        wrong = sorted(name for name in files.keys() | present.keys() if files.get(name) != present.get(name))
        print("\n".join(f"differs: {name}" for name in wrong) or "samples are up to date")
        return 1 if wrong else 0
    TARGET.mkdir(exist_ok=True)
    for name in present.keys() - files.keys():
        (TARGET / name).unlink()
    for name, text in files.items():
        (TARGET / name).write_text(text, encoding="utf-8")
    print(f"{len(files)} files in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
