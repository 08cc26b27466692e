"""What is released of an answer whose citations were checked, and what is recorded of the check (pure).

Sentences that did not pass are marked or left out, as the agent says; where nothing supported is left, the answer is a
refusal. Every text of the outcome is computed from the record: titles, dates and lists of sources never come from the
model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from devassist.core.citations import names
from devassist.core.citing import RULE, Checked, Cited, Style, check
from devassist.core.citing_text import without_own_list
from devassist.core.citing_words import MARK, NOTICE, REFUSALS, Refusal, source_line, source_list
from devassist.core.codec import json_text
from devassist.core.definition import Lang, Unsupported
from devassist.core.released import Released
from devassist.core.retrieved import Evidence

MARGIN = 1.2
"""``high`` confidence: the quoted clause fits best, by at least this factor."""
_NO_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class Asked:
    """What a check goes by. ``as_of`` is the run's day, None where it names none; ``looked``: whether any call of the
    run gave a result."""

    question: str
    as_of: str | None
    lang: Lang
    style: Style
    unsupported: Unsupported
    looked: bool


def release_cited(answer: str, evidence: Sequence[Evidence], asked: Asked) -> Released:
    """Check ``answer`` and make of it what the user gets."""
    if not evidence:
        code: Refusal = "no_clause" if asked.looked else "not_consulted"
        return _refusal(code, asked, Checked(()), () if asked.looked else (code,))
    said = without_own_list(answer) if asked.style == "numbered" else answer
    checked = check(said, evidence, style=asked.style, as_of=asked.as_of, question=asked.question)
    if not checked.failed and not checked.verified:
        return _declined(said, asked, checked)
    if not checked.failed:
        return _supported(said, evidence, asked, checked, ())
    codes = tuple(dict.fromkeys(str(claim.verdict) for claim in checked.failed))
    if asked.unsupported == "flag":
        return _flagged(said, asked, checked, codes)
    if not checked.verified:
        return _refusal("nothing_supported", asked, checked, (), codes)
    return _supported(_kept(said, checked), evidence, asked, checked, codes)


# -- outcomes ----------------------------------------------------------------------------------------------------------


def _refusal(
    code: Refusal, asked: Asked, checked: Checked, degraded: tuple[str, ...], codes: tuple[str, ...] = ()
) -> Released:
    text = REFUSALS[asked.style][code][asked.lang]
    checks = _checks(checked, asked, removed=len(checked.failed))
    return Released(text, _output(text, asked, checked, (), "low"), (code, *codes), degraded, checks)


def _declined(said: str, asked: Asked, checked: Checked) -> Released:
    """The answer itself says that there is none, and claims nothing."""
    return Released(said, _output(said, asked, checked, (), "low"), ("declined",), (), _checks(checked, asked))


def _supported(
    said: str, evidence: Sequence[Evidence], asked: Asked, checked: Checked, codes: tuple[str, ...]
) -> Released:
    sources = _sources(checked)
    if asked.style == "numbered":
        text = f"{said.rstrip()}\n\n{source_list(sources, asked.lang)}"
        verdicts = ("citations_verified",)
    else:
        prose = "".join(claim.sentence.said for claim in checked.claims if claim.verdict in (None, "verified"))
        text = "\n".join([said, *(source_line(s, asked.lang) for s in sources if not _named(prose, s))])
        verdicts = ("quote_verified",)
    exact = all(one.place is None or one.place.match == "exact" for one in checked.verified)
    verdicts = verdicts if exact else ("quote_normalised",)
    confidence = "low" if not exact else "high" if not codes and _leads(sources[0]) else "medium"
    degraded = ("sentences_removed",) if codes else ()
    output = _output(text, asked, checked, sources, confidence, verbatim=exact)
    checks = _checks(checked, asked, removed=len(checked.failed) if codes else 0)
    return Released(text, output, (*verdicts, *codes), degraded, checks)


def _flagged(said: str, asked: Asked, checked: Checked, codes: tuple[str, ...]) -> Released:
    failed = {claim.sentence.start for claim in checked.failed}
    mixed = any(claim.verdict == "verified" for claim in checked.claims)
    parts = [
        _marked(claim.sentence.text, asked.lang) if mixed and claim.sentence.start in failed else claim.sentence.text
        for claim in checked.claims
    ]
    text = NOTICE[asked.style][asked.lang] + "".join(parts)
    sources = _sources(checked) or _named_sources(checked)
    if asked.style == "numbered" and _sources(checked):
        text = f"{text.rstrip()}\n\n{source_list(sources, asked.lang)}"
    code = "quote_not_verified" if asked.style == "quoted" else "claims_not_supported"
    output = _output(text, asked, checked, sources, "low")
    return Released(text, output, codes, (code,), _checks(checked, asked))


def _marked(sentence: str, lang: Lang) -> str:
    bare = sentence.lstrip()
    return sentence[: len(sentence) - len(bare)] + MARK[lang] + bare


def _kept(said: str, checked: Checked) -> str:
    """The answer without the sentences that failed, and without words that only led to one of them."""
    kept: list[str] = []
    claims = checked.claims
    for place, claim in enumerate(claims):
        following = claims[place + 1].verdict if place + 1 < len(claims) else None
        leads = claim.verdict is None and claim.sentence.form in ("lead", "heading")
        if claim.verdict in (None, "verified") and not (leads and following not in (None, "verified")):
            kept.append(claim.sentence.text)
    return "".join(kept).strip()


# -- sources -----------------------------------------------------------------------------------------------------------


def _sources(checked: Checked) -> list[Evidence]:
    """The clauses of verified citations, in the order of their numbers for a list, else as they are quoted."""
    found = list(
        {(o.evidence.rev_id, o.evidence.clause_id): o.evidence for o in checked.verified if o.evidence}.values()
    )
    numbered = any(one.numbered for one in checked.verified) or any(c.sentence.numbers for c in checked.claims)
    return sorted(found, key=lambda one: one.number) if numbered else found


def _named_sources(checked: Checked) -> list[Evidence]:
    """Where nothing passed: the clause that stands behind the first quotation that was found anywhere."""
    return [one.evidence for one in checked.cited if one.evidence is not None and one.verdict == "citation_mismatch"]


def _named(said: str, one: Evidence) -> bool:
    dates = [d for d in (one.effective_date, one.revision_date) if d]
    return one.title in said and names(said, one.label) and all(d in said for d in dates)


def _leads(one: Evidence) -> bool:
    return one.strength >= MARGIN * one.leads


# -- what is recorded --------------------------------------------------------------------------------------------------


def _output(
    text: str, asked: Asked, checked: Checked, sources: Sequence[Evidence], confidence: str, *, verbatim: bool = False
) -> str:
    if asked.style == "numbered":
        return json_text({"answer": text, "citations": [_listed(one, checked) for one in sources]})
    one = sources[0] if sources else None
    where = None if one is None else {
        "policy_title": one.title, "clause": one.label, "effective_date": one.effective_date,
        "revision_date": one.revision_date,
    }  # fmt: skip
    return json_text({"answer": text, "source": where, "confidence": confidence, "verbatim": verbatim})


def _listed(source: Evidence, checked: Checked) -> dict[str, Any]:
    """A source with the places that the answer takes from it."""
    spans = [
        {"claim_id": _claim_id(one), "start": one.place.start, "end": one.place.end, "match": one.place.match}
        for one in checked.verified
        if one.evidence is not None and one.place is not None
        and (one.evidence.rev_id, one.evidence.clause_id) == (source.rev_id, source.clause_id)
    ]  # fmt: skip
    return {
        "n": source.number, "doc_id": source.doc_id, "rev_id": source.rev_id, "clause_id": source.clause_id,
        "title": source.title, "heading": source.heading, "label": source.label,
        "effective_date": source.effective_date,
        "revision_date": source.revision_date, "source": source.source, "spans": spans,
    }  # fmt: skip


def _checks(checked: Checked, asked: Asked, removed: int = 0) -> str:
    """The verdicts as the journal keeps them: ``citations`` by the citation schema, ``claims`` by sentence."""
    claims = [
        {"claim_id": f"s{place}", "start": c.sentence.start, "end": c.sentence.end, "verdict": c.verdict or "no_claim"}
        for place, c in enumerate(checked.claims, 1)
    ]
    citations = [_citation(one, asked) for one in checked.cited]
    return json_text(
        {"rule": RULE, "citations": citations, "claims": claims, "removed": removed, "unsupported": asked.unsupported}
    )


def _citation(one: Cited, asked: Asked) -> Mapping[str, Any]:
    """One citation. Where no clause stands behind it, its ids are empty and its hash is zero."""
    source, place = one.evidence, one.place
    quote = source.text[place.start : place.end] if source and place and place.match == "exact" else one.quote
    found = {
        "claim_id": _claim_id(one), "doc_id": source.doc_id if source else "",
        "rev_id": source.rev_id if source else "",
        "clause_id": source.clause_id if source else "", "label": (source.label or source.heading) if source else "",
        "as_of": asked.as_of or (source.day if source else ""), "known_at": _moment(source.known_at) if source else "",
        "quote": quote, "span": {"start": place.start, "end": place.end} if place else {"start": 0, "end": 1},
        "text_sha256": source.text_sha256 if source else _NO_HASH, "verdict": one.verdict,
    }  # fmt: skip
    if place is not None:
        found["match"] = place.match
    if source is not None and "://" in source.source:
        found["source_url"] = source.source
    if source is not None and source.retrieval:
        found["retrieval"] = dict(source.retrieval)
    return found


def _claim_id(one: Cited) -> str:
    return f"s{one.claim}"


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at // 1_000_000, UTC).replace(microsecond=at % 1_000_000).isoformat()
