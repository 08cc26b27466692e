"""The tool ``get_policy``: clauses of policies, quoted word for word with their dates and source."""

from __future__ import annotations

from typing import Any

from devassist.core.errors import CallerError
from devassist.core.scope import Scope
from devassist.core.tooling import ToolResult, ToolRetry, ToolSpec
from devassist.ports.library import POLICIES, ClauseHit, Library, Question
from devassist.ports.tools import CallContext
from devassist.tools.registry import Tool
from devassist.tools.retrieval import retrieval_of

_TOP_K = 5
_TIMEOUT_S = 10.0
_NAMED = 1000.0
_DESCRIPTION = (
    "Find the clauses of policies and statutes that answer a question, with their exact wording, dates and source. "
    "Give either question (the person's own words, in their language) or keywords, not both. found is false when the "
    "library holds nothing on the subject: then say so, and do not answer from memory."
)
# Whether question or keywords is given is checked by the handler: several providers refuse anyOf at the top.
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "description": "the question as it was asked"},
        "keywords": {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
            "description": "terms that the clause should hold, instead of a question",
        },
        "as_of": {"type": "string", "format": "date", "description": "day whose rules are wanted, YYYY-MM-DD"},
        "top_k": {"type": "integer", "minimum": 1, "maximum": 20, "default": _TOP_K},
    },
    "additionalProperties": False,
}
_TEXT = {"type": "string"}
_DATE = {"type": ["string", "null"], "format": "date"}
_MATCH: dict[str, Any] = {
    "doc_id": _TEXT,
    "title": _TEXT,
    "clause_id": _TEXT,
    "label": _TEXT,
    "text": _TEXT,
    "effective_date": _DATE,
    "revision_date": _DATE,
    "source": _TEXT,
    "score": {"type": "number"},
}
_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "found": {"type": "boolean"},
        "matches": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _MATCH,
                "required": list(_MATCH),
                "additionalProperties": False,
            },
        },
    },
    "required": ["found", "matches"],
    "additionalProperties": False,
}


def get_policy_tool(library: Library) -> Tool:
    """The tool over a library. It reads only, so its effect is ``pure``.

    Without ``as_of`` in the arguments the run's own (``context.as_of``) counts, without that the library's today. The
    time of knowledge is the run's. There is no match at all where the library does not know what the question is about.
    """

    async def get_policy(
        *,
        scope: Scope,
        context: CallContext,
        question: str | None = None,
        keywords: str | list[str] | None = None,
        as_of: str | None = None,
        top_k: int = _TOP_K,
    ) -> ToolResult | ToolRetry:
        if (question is None) == (keywords is None):
            return ToolRetry("Give either question or keywords, exactly one of the two.")
        query = question if question is not None else _joined(keywords or "")
        asked = Question(query, (POLICIES,), top_k, as_of or context.as_of, context.known_at, relevant=True)
        try:
            answered = await library.search(scope, asked)
        except CallerError as error:
            return ToolRetry(_advice(error))
        value = {"found": bool(answered.hits), "matches": [_match(hit) for hit in answered.hits]}
        return ToolResult(value, retrieval=retrieval_of(scope, asked, answered))

    spec = ToolSpec("get_policy", _DESCRIPTION, _PARAMETERS, _RESULT, effect="pure", timeout_s=_TIMEOUT_S)
    return Tool(spec, get_policy)


def _joined(keywords: str | list[str]) -> str:
    return keywords if isinstance(keywords, str) else " ".join(keywords)


def _advice(error: CallerError) -> str:
    if error.code == "blank_query":
        return "The query is blank. Give the person's question, or the words that the clause should hold."
    return error.detail


def _match(hit: ClauseHit) -> dict[str, Any]:
    return {
        "doc_id": hit.doc_id,
        "title": hit.title,
        "clause_id": hit.clause_id,
        "label": hit.label,
        "text": hit.text,
        "effective_date": hit.effective_date,
        "revision_date": hit.revision_date,
        "source": hit.source,
        "score": round(_score(hit), 4),
    }


def _score(hit: ClauseHit) -> float:
    """How well the clause's words fit (BM25): the fused score only tells ranks, and says nothing of how clearly a hit
    leads the next. A clause that was asked for by its number leads whatever there is; one that only the vectors found
    leads nothing."""
    found = {ranked.arm: ranked.score for ranked in hit.why}
    if "article" in found:
        return _NAMED
    return found.get("lexical", 0.0 if found else hit.score)
