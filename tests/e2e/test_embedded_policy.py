"""A real model, if a poor one, drives the policy agent: what it writes has the right form, and what it makes up is told
from what stands in a clause."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.api.kit import Api, serving
from tests.embedded import model_file

MAKE_POLICY = Path(__file__).parents[2] / "docs" / "examples" / "make_policy.py"
LEAVE = MAKE_POLICY.with_name("annual-leave.txt")
CARE = """第一条
退休人员门诊慢特病的报销比例为85%，年满70周岁的再提高3个百分点。

第二条
门诊慢特病的起付标准为每年200元。
"""
QUESTIONS = (
    "How many days of annual leave do I have?",
    "Are public holidays counted as leave?",
    "退休人员门诊慢特病的报销比例是多少？",
)
FLAGGED = ("【未核实】", "[Not verified]")
NO_CLAUSE = ("政策库中没有找到与此问题相关的条款", "The policy library has no clause on this question")


def policies(place: Path) -> Path:
    """A library of two short documents."""
    place.mkdir()
    texts = {"annual-leave": ("Rules of annual leave", LEAVE.read_text("utf-8")), "care": ("门诊慢特病办法", CARE)}
    for name, (title, text) in texts.items():
        source = place / f"{name}.txt"
        source.write_text(text, "utf-8")
        made = subprocess.check_output([sys.executable, MAKE_POLICY, name, title, "2026-01-01", source])
        (place / f"{name}@2026-01-01.json").write_bytes(made)
        source.unlink()
    return place


def quotes(text: str) -> list[str]:
    """Quotations of some length."""
    return ["".join(found).strip() for found in re.findall(r"「([^」]{6,})」|“([^”]{6,})”|\"([^\"\n]{6,})\"", text)]


def unsupported(text: str, clauses: list[str]) -> list[str]:
    """Quotations that stand in none of the clauses."""
    return [quote for quote in quotes(text) if not any(quote in clause for clause in clauses)]


async def test_the_policy_agent_on_the_embedded_model(tmp_path: Path) -> None:
    """Every reply of every run is a decision at once; an answer whose quotes do not all stand in a retrieved clause, or
    that has none, is flagged in its text, its confidence and the list of degraded answers."""
    model_file()
    place = policies(tmp_path / "policies")
    with serving(tmp_path, agent_model="embedded", policy_dir=str(place), run_deadline_s="900") as live:
        # A small machine that does other things as well takes its time.
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:
            api = Api(live.url, session)
            answers = [await api.ask(question, agent="policy") for question in QUESTIONS]
            details = [(await api.get(f"/admin/agent-traces/{answer['trace_id']}")).json for answer in answers]
    for answer, detail in zip(answers, details, strict=True):
        assert answer["status"] == "succeeded", answer["error"]
        assert answer["meta"]["model_kind"] == "embedded"
        well_formed(detail["events"])
    flagged = [is_told_apart(answer) for answer in answers]
    assert sum(flagged) >= 1, "no run found a clause to be held against"


def well_formed(events: list[dict[str, Any]]) -> None:
    """No reply was sent back for its form, nor taken for an answer without one. (One that answers before it has looked
    anything up is sent back for that.)"""
    replies = [event["body"] for event in events if event["kind"] == "model_replied"]
    assert replies[-1]["decision"] == "final"
    for reply in replies:
        assert reply.get("code") in (None, "answer_ungrounded"), reply
        assert not reply.get("unstructured")


def is_told_apart(answer: dict[str, Any]) -> bool:
    """Whether the answer was flagged; that it was, or was not, as it should be."""
    found = [step["observation"]["matches"] for step in answer["steps"] if step["observation"]]
    clauses = [match["text"] for matches in found for match in matches]
    output, codes = answer["output"], [each["code"] for each in answer["degraded"]]
    if output["verbatim"]:
        assert quotes(answer["answer"])
        assert unsupported(answer["answer"], clauses) == []
        assert (output["confidence"] in ("high", "medium"), codes) == (True, [])
        return False
    assert output["confidence"] == "low"
    if not clauses:
        assert answer["answer"].startswith(NO_CLAUSE) or codes == ["not_consulted"]
        assert output["source"] is None
        return False
    assert answer["answer"].startswith(FLAGGED)
    assert codes == ["quote_not_verified"]
    return True


@pytest.mark.parametrize(
    ("text", "count"),
    [("「退休人员的报销比例」", 1), ('"as it stands here"', 0), ('"another thing"', 1), ("no marks", 0)],
)
def test_the_judge_of_quotes(text: str, count: int) -> None:
    """It sees a quotation that stands nowhere, and passes one that does."""
    assert len(unsupported(text, ["word for word as it stands here, and on"])) == count
