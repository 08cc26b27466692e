"""Clauses as a run retrieved them, written for tests."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

from devassist.core.citations import labels
from devassist.core.citing import Style
from devassist.core.citing_release import Asked, Unsupported, release_cited
from devassist.core.definition import Lang
from devassist.core.released import Released
from devassist.core.retrieved import Evidence

TITLE = "云泽省门诊慢特病管理办法"
FIVE = "参保人员应当自出院之日起90日内提出申请，逾期不予受理。"
FIVE_ONE = "异地就医的参保人员，申请期限延长至180日。"
SIX = "经办机构应当依照《社会保险法》第三条，在10个工作日内作出答复。"
AT = 1_760_000_000_000_000


def clause(number: int, label: str, text: str, title: str = TITLE, **fields: Any) -> Evidence:
    """A clause of one document, whose revision holds from 2024 on."""
    made = Evidence(
        number=number, doc_id="chronic", rev_id="chronic@2024-01-01", clause_id=f"chronic@2024-01-01#c-{number}",
        title=title, label=label, heading="", text=text, text_sha256=sha256(text.encode()).hexdigest(),
        valid_from="2024-01-01", valid_to=None, effective_date=None, revision_date=None,
        source="https://rules.example/chronic", day="2026-01-01", known_at=AT, strength=1.0, leads=0.5,
        retrieval={"rank": number, "arms": {"lexical": 1.0}}, aliases=frozenset(labels(label)),
    )  # fmt: skip
    return replace(made, **fields)


CLAUSES = [
    clause(1, "第五条", FIVE, effective_date="2024-01-01", revision_date="2025-07-01", strength=3.0, leads=1.0),
    clause(2, "第五条之一", FIVE_ONE, leads=3.0),
    clause(3, "第六条", SIX, leads=3.0),
]


def released(
    answer: str, clauses: list[Evidence] | None = None, *, style: Style = "quoted", unsupported: Unsupported = "flag",
    question: str = "期限是多少？", as_of: str | None = None, lang: Lang = "zh", looked: bool = True,
) -> Released:  # fmt: skip
    asked = Asked(question, as_of, lang, style, unsupported, looked=looked)
    return release_cited(answer, CLAUSES if clauses is None else clauses, asked)


def checks(found: Released) -> dict[str, Any]:
    assert found.checks is not None
    return json.loads(found.checks)


def output(found: Released) -> dict[str, Any]:
    assert found.output is not None
    return json.loads(found.output)
