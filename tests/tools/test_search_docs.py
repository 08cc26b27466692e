"""The tool search_docs: its contract with the model, its collections, and what the run keeps of a search."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devassist.core.errors import CallerError, ToolArgumentsInvalid
from devassist.core.scope import Scope
from devassist.core.tooling import ToolOutcome, ToolResult, ToolRetry
from devassist.ports.library import DOCS, Answered, Library, Question
from devassist.ports.tools import CallContext
from devassist.tools.registry import ToolRegistry
from devassist.tools.search_docs import search_docs_tool
from tests.tools.shelf import Shelf, passage

USER = Scope("default", "ann", labels=frozenset({"staff"}))
FEES = passage("fees", 1, "The fee is 3% of the price.")
REFUNDS = passage("refunds", 2, "A refund takes ten days.", collection="handbook")
SECRET = passage("plans", 3, "The secret plan is to raise the fee.", collection="board")


async def ask(library: Library, args: dict[str, Any], scope: Scope = USER, **context: Any) -> ToolOutcome:
    registry = ToolRegistry([search_docs_tool(library)])
    return await registry.call(scope, "search_docs", args, CallContext("t", "c", 1, 1, **context))


def shelf() -> Shelf:
    return Shelf(FEES, REFUNDS, SECRET, secret={SECRET.clause_id: "board"})


async def test_a_hit_has_exactly_the_fields_of_the_contract() -> None:
    """hits, each with the ten fields, and nothing beside."""
    result = await ask(shelf(), {"query": "fee"})
    assert isinstance(result, ToolResult)
    assert result.value == {
        "hits": [
            {
                "doc_id": "fees", "rev_id": "fees@2024-01-01", "clause_id": "fees@2024-01-01#s-1", "title": "Fees",
                "heading": "Guide > Part 1", "text": FEES.text, "source": "https://docs.example/fees",
                "chunk_index": 1, "effective_date": "2024-01-01", "score": 1.0,
            }
        ]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "context", "asked"),
    [
        ({"query": "fee"}, {}, Question("fee", (DOCS,), 5)),
        ({"query": "fee"}, {"collection": "handbook"}, Question("fee", ("handbook",), 5)),
        ({"query": "fee", "collection": "docs"}, {"collection": "handbook"}, Question("fee", (DOCS,), 5)),
        ({"query": "fee", "top_k": 50}, {"as_of": "2025-01-01"}, Question("fee", (DOCS,), 50, "2025-01-01")),
        (
            {"query": "fee", "as_of": "2024-06-01"}, {"as_of": "2025-01-01", "known_at": 9},
            Question("fee", (DOCS,), 5, "2024-06-01", 9),
        ),
    ],
)  # fmt: skip
async def test_what_the_library_is_asked(args: dict[str, Any], context: dict[str, Any], asked: Question) -> None:
    """Arguments go before the run's collection and day; the time of knowledge is always the run's."""
    library = shelf()
    await ask(library, args, **context)
    assert library.asked == [asked]


@pytest.mark.parametrize("top_k", [0, 51, "x", None])
async def test_top_k_is_an_integer_from_one_to_fifty(top_k: object) -> None:
    """Another one is refused before the library is asked."""
    with pytest.raises(ToolArgumentsInvalid, match="/top_k"):
        await ask(shelf(), {"query": "x", "top_k": top_k})


@pytest.mark.parametrize("query", ["", "  ", "？", "\u3000"])
async def test_a_blank_query_goes_back_to_the_model(query: str) -> None:
    """With advice that can be acted on."""
    outcome = await ask(shelf(), {"query": query})
    assert isinstance(outcome, ToolRetry)
    assert "blank" in outcome.message


async def test_an_unknown_collection_is_answered_with_those_that_the_caller_may_see() -> None:
    """One that only others may see is like one that is not there, and is named to nobody else."""
    told = [await ask(shelf(), {"query": "plan", "collection": name}) for name in ("board", "nope!", "agent_memory")]
    for outcome, name in zip(told, ("board", "nope!", "agent_memory"), strict=True):
        assert outcome == ToolRetry(f"There is no collection '{name}'. Collections: docs, handbook.")
    member = Scope("default", "eve", labels=frozenset({"board"}))
    found = await ask(shelf(), {"query": "plan", "collection": "board"}, member)
    assert isinstance(found, ToolResult)
    assert [hit["doc_id"] for hit in found.value["hits"]] == ["plans"]


async def test_the_record_says_what_was_seen_and_what_was_withheld() -> None:
    """Question, labels, ids, hashes and arms, without a text; the result never tells what was withheld."""
    library = Shelf(FEES, passage("fees", 4, "The fee of the board."), secret={"fees@2024-01-01#s-4": "board"})
    result = await ask(library, {"query": "the fee"})
    assert isinstance(result, ToolResult)
    record = result.retrieval
    assert record is not None
    assert (record["withheld"], record["labels"], record["rule"]) == (1, ["staff"], "eligible/1")
    assert record["question"]["query"] == "the fee"
    assert record["hits"][0]["text_sha256"] == FEES.text_sha256
    assert (record["hits"][0]["rank"], record["hits"][0]["why"][0]["arm"]) == (1, "lexical")
    assert FEES.text not in json.dumps(record)
    assert "withheld" not in json.dumps(result.value)
    assert (await ask(library, {"query": "the fee"}, Scope("default", "a", frozenset({"admin"})))) is not None
    assert library.scopes[-1].sees is None


async def test_a_refusal_of_the_library_is_advice() -> None:
    """Whatever else the library refuses as the caller's fault reaches the model in the library's words."""

    class Refusing(Shelf):
        async def search(self, scope: Scope, question: Question) -> Answered:
            raise CallerError("Ask shorter.", code="too_long")

    assert await ask(Refusing(), {"query": "x"}) == ToolRetry("Ask shorter.")


def test_it_is_pure_and_needs_only_a_query() -> None:
    """The tool only reads; its schema is a plain object."""
    spec = search_docs_tool(Shelf()).spec
    assert (spec.name, spec.effect, spec.parameters["required"]) == ("search_docs", "pure", ["query"])
    assert set(spec.parameters["properties"]) == {"query", "collection", "top_k", "as_of"}
