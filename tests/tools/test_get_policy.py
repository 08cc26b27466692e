"""The tool get_policy: its contract with the model, over a library that only records what it is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import CallerError, ToolArgumentsInvalid
from devassist.core.scope import Scope
from devassist.core.tooling import ToolOutcome, ToolResult, ToolRetry
from devassist.knowledge.policy_dir import SAMPLES_DIR
from devassist.ports.library import POLICIES, Answered, ClauseHit, Library, Question
from devassist.ports.tools import CallContext
from devassist.tools.get_policy import get_policy_tool
from devassist.tools.registry import ToolRegistry
from tests.knowledge.shelf import fill, shelf
from tests.tools.shelf import Shelf

SCOPE = Scope("default", "local")
HIT = ClauseHit(
    "d", "d@2024-01-01", "T", "d@2024-01-01#art-1", "第一条", "文", "2024-01-01", None, "https://x.example", 1.25,
    valid_from="2024-01-01",
)  # fmt: skip


async def ask(
    library: Library, args: dict[str, Any], as_of: str | None = None, known_at: int | None = None
) -> ToolOutcome:
    registry = ToolRegistry([get_policy_tool(library)])
    return await registry.call(SCOPE, "get_policy", args, CallContext("t", "c", 1, 1, as_of, known_at=known_at))


@pytest.fixture
async def samples(tmp_path: Path) -> AsyncGenerator[Library]:
    await fill(tmp_path, SAMPLES_DIR)
    async with shelf(tmp_path) as books:
        yield books.library


def test_it_is_pure_and_its_schema_has_no_alternatives_at_the_top() -> None:
    """The tool only reads, and its schema is a plain object: providers refuse anyOf at the top level."""
    spec = get_policy_tool(Shelf()).spec
    assert (spec.name, spec.effect) == ("get_policy", "pure")
    assert set(spec.parameters["properties"]) == {"question", "keywords", "as_of", "top_k"}
    assert not {"anyOf", "oneOf", "allOf", "not", "enum"} & set(spec.parameters)


async def test_a_match_has_exactly_the_fields_of_the_contract() -> None:
    """found and matches, each match with the nine fields, unknown dates as null."""
    result = await ask(Shelf(HIT), {"question": "问"})
    assert isinstance(result, ToolResult)
    assert result.value == {
        "found": True,
        "matches": [
            {
                "doc_id": "d",
                "title": "T",
                "clause_id": "d@2024-01-01#art-1",
                "label": "第一条",
                "text": "文",
                "effective_date": "2024-01-01",
                "revision_date": None,
                "source": "https://x.example",
                "score": 1.25,
            }
        ],
    }


async def test_nothing_found_is_said_plainly() -> None:
    """Without a hit the result is found=false and an empty list, not an error."""
    result = await ask(Shelf(), {"question": "问"})
    assert isinstance(result, ToolResult)
    assert result.value == {"found": False, "matches": []}
    assert result.retrieval is not None
    assert result.retrieval["reason"] == "nothing_found"


@pytest.mark.parametrize(
    ("args", "run_as_of", "asked"),
    [
        ({"question": "门诊 报销"}, None, ("门诊 报销", 5, None)),
        ({"keywords": "门诊"}, None, ("门诊", 5, None)),
        ({"keywords": ["门诊", "报销"], "top_k": 20}, None, ("门诊 报销", 20, None)),
        ({"question": "问"}, "2024-05-01", ("问", 5, "2024-05-01")),
        ({"question": "问", "as_of": "2023-01-01"}, "2024-05-01", ("问", 5, "2023-01-01")),
        ({"question": "问", "top_k": "3"}, None, ("问", 3, None)),
    ],
)
async def test_what_the_library_is_asked(
    args: dict[str, Any], run_as_of: str | None, asked: tuple[str, int, str | None]
) -> None:
    """Keywords are joined; as_of of the arguments counts before that of the run, whose time of knowledge holds; five
    hits unless more are wanted, and none where the library knows nothing of it."""
    library = Shelf(HIT)
    await ask(library, args, run_as_of, 42)
    query, top_k, as_of = asked
    assert library.asked == [Question(query, (POLICIES,), top_k, as_of, 42, relevant=True)]


@pytest.mark.parametrize("args", [{}, {"question": "a", "keywords": "b"}, {"top_k": 3}])
async def test_question_or_keywords_exactly_one(args: dict[str, Any]) -> None:
    """Neither or both goes back to the model with what would be right, and nothing is searched."""
    library = Shelf(HIT)
    outcome = await ask(library, args)
    assert isinstance(outcome, ToolRetry)
    assert "either question or keywords" in outcome.message
    assert library.asked == []


@pytest.mark.parametrize("top_k", [0, 21, "5.0", True, None])
async def test_top_k_is_an_integer_from_one_to_twenty(top_k: object) -> None:
    """Another top_k is refused before the library is asked."""
    with pytest.raises(ToolArgumentsInvalid, match="/top_k"):
        await ask(Shelf(), {"question": "x", "top_k": top_k})


@pytest.mark.parametrize("args", [{"question": "  "}, {"keywords": ""}, {"keywords": ["", " "]}, {"question": "？"}])
async def test_a_blank_query_goes_back_to_the_model(samples: Library, args: dict[str, Any]) -> None:
    """A query without a word is refused with advice that can be acted on."""
    outcome = await ask(samples, args)
    assert isinstance(outcome, ToolRetry)
    assert "blank" in outcome.message


async def test_a_day_that_does_not_exist_is_refused(samples: Library) -> None:
    """as_of must be a day of the calendar, in the arguments as in the run."""
    with pytest.raises(ToolArgumentsInvalid, match="/as_of"):
        await ask(samples, {"question": "门诊", "as_of": "2023-02-30"})
    outcome = await ask(samples, {"question": "门诊"}, as_of="tomorrow")
    assert isinstance(outcome, ToolRetry)
    assert "YYYY-MM-DD" in outcome.message


async def test_the_retirees_question_gets_the_clause_of_the_day(samples: Library) -> None:
    """退休人员门诊慢特病的报销比例是多少？ is answered by one clause, word for word, as it stood on the day."""
    question = "退休人员门诊慢特病的报销比例是多少？"
    for as_of, ratio, effective in (("2026-01-01", "85%", "2025-07-01"), ("2025-06-30", "80%", "2023-01-01")):
        result = await ask(samples, {"question": question, "as_of": as_of})
        assert isinstance(result, ToolResult)
        first, second = result.value["matches"][:2]
        assert first["text"].startswith(f"退休人员门诊慢特病的报销比例为{ratio}")
        assert (first["label"], first["effective_date"]) == ("第七条", effective)
        assert first["score"] > 1.5 * second["score"]


async def test_a_refusal_of_the_library_is_advice() -> None:
    """Whatever else the library refuses as the caller's fault reaches the model in the library's words."""

    class Refusing(Shelf):
        async def search(self, scope: Scope, question: Question) -> Answered:
            raise CallerError("Ask shorter.", code="too_long")

    assert await ask(Refusing(), {"question": "x"}) == ToolRetry("Ask shorter.")
