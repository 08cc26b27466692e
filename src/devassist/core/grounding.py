"""What a grounded agent may say: only what stands in a clause that this run retrieved.

The released text, its source and its verdicts are computed from the record: a model's own word on where something
stands is never taken. Runs that began under ``cite1`` are checked sentence by sentence (``citing_release``). What else
stands here is how those were checked that began before: quotations are looked up verbatim in the retrieved clauses; the
source is the clause in which they stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from devassist.core.citations import labels, names, prose, quotations, titles
from devassist.core.citing_release import Asked, release_cited
from devassist.core.codec import json_text
from devassist.core.definition import Definition, Lang, Request
from devassist.core.events import CITE_1, Event, ModelReplied, RunStarted, ToolReturned
from devassist.core.evidence import ADDED, with_evidence
from devassist.core.released import Released
from devassist.core.retrieved import evidence_of
from devassist.core.signals import LateOutcome

MARGIN = 1.2
"""``high`` confidence: the quoted clause is the best hit, and its score is at least this many times the next one's."""

_TEXT: dict[str, dict[Lang, str]] = {
    "no_clause": {
        "zh": "政策库中没有找到与此问题相关的条款，无法作答。",
        "en": "The policy library has no clause on this question, so it cannot be answered from it.",
    },
    "not_consulted": {
        "zh": "本次运行没有查询政策库，不能给出有依据的答复。",
        "en": "The policy library was not consulted in this run, so no grounded answer can be given.",
    },
    "flag": {
        "zh": "【未核实】以下答复中的引文未能在检索到的条款原文中逐字核对，请勿直接引用：\n",
        "en": "[Not verified] This quotation was not found verbatim in the retrieved clauses; do not rely on it:\n",
    },
}


class Clause(NamedTuple):
    """A retrieved clause, as the knowledge tool returned it."""

    title: str
    label: str
    text: str
    effective_date: str | None
    revision_date: str | None
    score: float


def clauses_of(results: Sequence[Any]) -> list[Clause]:
    """The clauses in the results of knowledge tools; anything else is ignored."""
    found: list[Clause] = []
    for result in results:
        rows = cast("dict[str, Any]", result).get("matches") if isinstance(result, dict) else None
        clauses = [_clause(row) for row in (cast("list[Any]", rows) if isinstance(rows, list) else ())]
        found += [clause for clause in clauses if clause is not None]
    return found


def _clause(row: Any) -> Clause | None:
    if not isinstance(row, dict):
        return None
    given = cast("dict[str, Any]", row)
    title, label, text, score = (given.get(name) for name in ("title", "label", "text", "score"))
    if not (isinstance(title, str) and isinstance(label, str) and isinstance(text, str)):
        return None
    effective, revised = given.get("effective_date"), given.get("revision_date")
    return Clause(
        title, label, text, effective if isinstance(effective, str) else None,
        revised if isinstance(revised, str) else None, float(score) if isinstance(score, int | float) else 0.0,
    )  # fmt: skip


def release(answer: str, results: Sequence[Any], lang: Lang, *, asked: bool) -> Released:
    """Check ``answer`` against ``results`` (the JSON of this run's calls); ``asked``: whether any was made."""
    clauses = clauses_of(results)
    if not clauses:
        code = "no_clause" if asked else "not_consulted"
        text = _TEXT[code][lang]
        return Released(text, _output(text, None, "low", verbatim=False), (code,), () if asked else (code,))
    quotes, said = quotations(answer), prose(answer)
    found = [next((c for c in _cited_first(clauses, said) if _holds(c, q)), None) for q in quotes]
    sources = list(dict.fromkeys(c for c in found if c is not None))
    if not sources or None in found:
        return _flagged(answer, sources[0] if sources else None, "quote_not_found" if quotes else "no_quote", lang)
    source = sources[0]
    if not all(_is_cited(c, said) for c in sources):
        return _flagged(answer, source, "citation_mismatch", lang)
    text = "\n".join([answer, *(_source_line(c, lang) for c in sources if not _names(said, c))])
    confidence = "high" if _leads(clauses, source) else "medium"
    return Released(text, _output(text, source, confidence, verbatim=True), ("quote_verified",))


def released_answer(
    definition: Definition, reply: ModelReplied, placed: Sequence[tuple[Event, int, int]], texts: Mapping[str, str]
) -> Released:
    """What the user gets for a final reply, computed from the record alone: when driving and when replaying. ``placed``
    are (event, seq, time) from INIT on."""
    assert reply.answer is not None, "a final decision has an answer"
    answer = texts[reply.answer]
    if not (definition.grounded or definition.evidence):
        return Released(answer, verdicts=("unstructured",) if reply.unstructured else ())
    started = placed[0][0] if placed else None
    if definition.grounded and isinstance(started, RunStarted) and CITE_1 in started.flags:
        return _cited(definition, answer, started, placed, texts)
    returned = [e for e, _, _ in placed if isinstance(e, ToolReturned) and e.outcome == "result" and e.result]
    results = [json.loads(texts[e.result]) for e in returned if e.result]
    if not definition.grounded:
        shown = with_evidence(answer, results, definition.lang)
        said = [(reply.unstructured, "unstructured"), (shown != answer, ADDED)]
        return Released(shown, verdicts=tuple(code for holds, code in said if holds))
    return release(answer, results, definition.lang, asked=bool(returned))


def texts_needed(reply: ModelReplied, placed: Sequence[tuple[Event, int, int]]) -> list[str]:
    """The references of every text that ``released_answer`` may read."""
    needed: list[str | None] = [reply.answer]
    for event, _, _ in placed:
        if isinstance(event, ToolReturned | LateOutcome) and event.outcome == "result":
            needed += [event.result, event.retrieval]
        elif isinstance(event, RunStarted) and CITE_1 in event.flags:
            needed += [event.request, event.message]
    return [ref for ref in needed if ref is not None]


def _cited(
    definition: Definition, answer: str, started: RunStarted, placed: Sequence[tuple[Event, int, int]],
    texts: Mapping[str, str],
) -> Released:  # fmt: skip
    evidence = evidence_of(((event, at) for event, _, at in placed), texts)
    looked = any(isinstance(e, ToolReturned | LateOutcome) and e.outcome == "result" for e, _, _ in placed)
    request = Request.from_json(texts[started.request])
    asked = Asked(
        texts[started.message], request.as_of, definition.lang, definition.citations, definition.unsupported,
        looked,
    )  # fmt: skip
    return release_cited(answer, evidence, asked)


def _flagged(answer: str, source: Clause | None, code: str, lang: Lang) -> Released:
    text = _TEXT["flag"][lang] + answer
    return Released(text, _output(text, source, "low", verbatim=False), (code,), ("quote_not_verified",))


def _holds(clause: Clause, quote: str) -> bool:
    """Word for word; a quotation may begin with the clause's own label."""
    return quote in clause.text or (
        quote.startswith(clause.label) and quote.removeprefix(clause.label).lstrip(" \u3000:：") in clause.text
    )


def _cited_first(clauses: list[Clause], said: str) -> list[Clause]:
    """The same words may stand in several clauses: those that the answer names come first."""
    cited = [c for c in clauses if c.title in said and names(said, c.label)]
    return cited + [c for c in clauses if c not in cited]


def _is_cited(clause: Clause, said: str) -> bool:
    """Whether what the answer says of its sources, if anything, fits the clause in which its quotation stands."""
    named = titles(said)
    if named and not any(t in clause.title or clause.title in t for t in named):
        return False
    return names(said, clause.label) or not labels(said)


def _names(said: str, source: Clause) -> bool:
    dates = [d for d in (source.effective_date, source.revision_date) if d]
    return source.title in said and names(said, source.label) and all(d in said for d in dates)


def _source_line(source: Clause, lang: Lang) -> str:
    effective, revised = source.effective_date, source.revision_date
    if lang == "zh":
        dates = [f"自 {effective} 起施行"] * bool(effective) + [f"{revised} 修订"] * bool(revised)
        return f"（依据：《{source.title}》{source.label}{'，' if dates else ''}{'，'.join(dates)}）"
    dates = [f"effective {effective}"] * bool(effective) + [f"revised {revised}"] * bool(revised)
    return f"(Source: {source.title}, {source.label}{', ' if dates else ''}{', '.join(dates)})"


def _leads(clauses: list[Clause], source: Clause) -> bool:
    others = [c.score for c in clauses if (c.title, c.label, c.text) != (source.title, source.label, source.text)]
    return not others or source.score >= MARGIN * max(others)


def _output(answer: str, source: Clause | None, confidence: Literal["high", "medium", "low"], *, verbatim: bool) -> str:
    where = None if source is None else {
        "policy_title": source.title, "clause": source.label, "effective_date": source.effective_date,
        "revision_date": source.revision_date,
    }  # fmt: skip
    return json_text({"answer": answer, "source": where, "confidence": confidence, "verbatim": verbatim})
