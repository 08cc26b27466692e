"""A plain text as a policy file: ``python docs/examples/make_policy.py leave "Leave rules" 2026-01-01 leave.txt``.

Arguments: doc_id, title, the day from which it holds, the text. In the text a blank line ends a clause; a clause's
first line is its label, the rest its wording. The asset goes to stdout; name the file ``<doc_id>@<day>.json``.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from devassist.knowledge.assets import canonical_text, content_hash, parse_asset, text_hash

_HAN = re.compile("[\u4e00-\u9fff]")


def clause(rev_id: str, doc_id: str, ordinal: int, block: str) -> dict[str, Any]:
    label, _, wording = block.partition("\n")
    text = canonical_text(wording)
    return {
        "clause_id": f"{rev_id}#{ordinal + 1}",
        "lineage_id": f"{doc_id}:{ordinal + 1}",
        "ordinal": ordinal,
        "kind": "article",
        "label": label.strip(),
        "text": text,
        "text_sha256": text_hash(text),
    }


def asset(doc_id: str, title: str, day: str, path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    blocks = [block for block in re.split(r"\n\s*\n", raw.decode("utf-8").strip()) if block.strip()]
    rev_id = f"{doc_id}@{day}"
    clauses = [clause(rev_id, doc_id, ordinal, block) for ordinal, block in enumerate(blocks)]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "schema_version": 1,
        "doc_id": doc_id,
        "rev_id": rev_id,
        "title": title,
        "lang": "zh" if _HAN.search(title) else "en",
        "kind": "policy",
        "status": "published",
        "effective_date": day,
        "valid_from": day,
        "valid_to": None,
        "recorded_from": now,
        "recorded_to": None,
        "source": {
            "url": path.resolve().as_uri(),
            "retrieved_at": now,
            "media_type": "text/plain",
            "raw_sha256": hashlib.sha256(raw).hexdigest(),
            "parser": "make_policy/1",
        },
        "clauses": clauses,
        "revisions": [{"date": day, "by": "make_policy", "action": "imported"}],
        "content_sha256": content_hash(clauses),
    }


def main() -> None:
    doc_id, title, day, name = sys.argv[1:]
    made = asset(doc_id, title, day, Path(name))
    parse_asset(made, name)  # says what is wrong, as the service would at its start
    sys.stdout.write(json.dumps(made, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
