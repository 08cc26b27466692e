"""The citation check: what of an answer stands in clauses that this run retrieved, sentence by sentence (pure).

Rule ``cite/1``. A quotation is verified where it stands in a retrieved clause whose text is as recorded and whose
revision holds on the run's day, where what the sentence names as its source is that clause, and where every number and
date of the sentence is in the quotation. Nothing here knows a model: the verdict is computed from the record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from devassist.core.citations import MIN_QUOTE, labels
from devassist.core.citing_dates import dates_fit, dates_of
from devassist.core.citing_match import Place, exact_place, normalised_place
from devassist.core.citing_text import Quote, Sentence, only_names, sentences
from devassist.core.figures_in_text import Key, claimed, held, supports
from devassist.core.retrieved import Evidence

RULE = "cite/1"
MOST_SENTENCES = 1000
"""Sentences that are looked at; what an answer says beyond counts as said without a source."""
MOST_QUOTES = 300
"""Quotations that are looked up; any beyond counts as found nowhere."""
WHOLE = 1000
"""Characters of a clause that stand for it where nothing of it is quoted."""
Style = Literal["quoted", "numbered"]
Find = Callable[[str, str], Place | None]
Verdict = Literal[
    "verified", "quote_not_found", "revision_not_valid_on_date", "unknown_clause", "hash_mismatch",
    "not_retrieved_in_this_run", "withdrawn", "citation_mismatch", "numbers_not_in_quote", "numbers_not_found",
    "no_quote", "no_citation",
]  # fmt: skip
"""Those of the citation schema, then our own: the named source is another clause, a number of the sentence is not in
its quotation (or in no verified clause), nothing is quoted where quotations are asked for, nothing is cited."""


class Cited(NamedTuple):
    """One quotation (or one [n] without a quotation, then the whole clause) with its verdict. ``evidence`` is the
    clause in which it stands, or the one that the sentence names; None where there is neither."""

    claim: int
    quote: str
    verdict: Verdict
    evidence: Evidence | None
    place: Place | None
    numbered: bool


class Claim(NamedTuple):
    """A sentence and what became of it. ``verdict`` is None where it needs no source."""

    sentence: Sentence
    verdict: Verdict | None
    cited: tuple[Cited, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    claims: tuple[Claim, ...]

    @property
    def cited(self) -> list[Cited]:
        return [one for claim in self.claims for one in claim.cited]

    @property
    def failed(self) -> list[Claim]:
        return [claim for claim in self.claims if claim.verdict not in (None, "verified")]

    @property
    def verified(self) -> list[Cited]:
        """Citations of sentences that passed."""
        return [one for claim in self.claims if claim.verdict == "verified" for one in claim.cited]


def check(answer: str, evidence: Sequence[Evidence], *, style: Style, as_of: str | None, question: str) -> Checked:
    """Judge every sentence of ``answer``. ``as_of`` is the day that the run was asked for, None where it names none;
    then the day of each call counts."""
    judge = _Judge(evidence, style, as_of)
    parts = sentences(answer)
    first = [judge.cites(number, sentence) for number, sentence in enumerate(parts[:MOST_SENTENCES], 1)]
    first += [Claim(sentence, "no_citation", ()) for sentence in parts[MOST_SENTENCES:]]
    sure = [one.evidence for claim in first if claim.verdict == "verified" for one in claim.cited if one.evidence]
    known = held(question).union(*(judge.known(one) for one in sure))
    quoted = any(one.verdict == "verified" and not one.numbered for claim in first for one in claim.cited)
    return Checked(tuple(judge.rest(claim, known, question, sure, quoted=quoted) for claim in first))


class _Judge:
    def __init__(self, evidence: Sequence[Evidence], style: Style, as_of: str | None) -> None:
        self._all, self._style, self._as_of = evidence, style, as_of
        self._by_number: dict[int, list[Evidence]] = {}
        self._held: dict[int, frozenset[Key]] = {}
        self._looked_up = 0
        for one in evidence:
            self._by_number.setdefault(one.number, []).append(one)

    # -- sentences that cite ---------------------------------------------------------------------------------------

    def cites(self, number: int, sentence: Sentence) -> Claim:
        """The verdict of a sentence that quotes or carries [n]; others are left for ``rest``."""
        if not sentence.cites:
            return Claim(sentence, None, ())
        cited = [self._quote(number, sentence, quote) for quote in sentence.quotes]
        cited += self._numbers(number, sentence, cited)
        failed: list[Verdict] = [one.verdict for one in cited if one.verdict != "verified"]
        verdict: Verdict = failed[0] if failed else "verified"
        if verdict == "verified":
            verdict = self._fits(sentence, cited)
            cited = [one._replace(verdict=verdict) for one in cited]
        return Claim(sentence, verdict, tuple(cited))

    def _quote(self, claim: int, sentence: Sentence, quote: Quote) -> Cited:
        if only_names(quote.text):
            return Cited(claim, quote.text, "no_quote", None, None, False)
        self._looked_up += 1
        if self._looked_up > MOST_QUOTES:
            return Cited(claim, quote.text, "quote_not_found", None, None, False)
        placed = self._placed(quote.text, exact_place)
        if not any(self._is_named(sentence, one) for one, _ in placed):
            placed += self._placed(quote.text, normalised_place)
        named = self._named(sentence)
        if not placed:
            missing: Verdict = "quote_not_found"
            if self._names_unknown(sentence):
                missing = "unknown_clause" if sentence.numbers else "not_retrieved_in_this_run"
            return Cited(claim, quote.text, missing, named[0] if named else None, None, False)
        fitting = [pair for pair in placed if self._is_named(sentence, pair[0])]
        if not fitting:
            one, place = placed[0]
            return Cited(claim, quote.text, "citation_mismatch", one, place, False)
        ranked = sorted(fitting, key=lambda pair: (self._state(pair[0]) != "verified", pair[1].match != "exact"))
        one, place = ranked[0]
        return Cited(claim, quote.text, self._state(one), one, place, False)

    def _placed(self, quote: str, find: Find) -> list[tuple[Evidence, Place]]:
        return [(one, place) for one in self._all if (place := _stands(quote, one, find)) is not None]

    def _numbers(self, claim: int, sentence: Sentence, quoted: Sequence[Cited]) -> Iterable[Cited]:
        """The [n] of a sentence: without quotations each stands for its whole clause; beside quotations each has to be
        the clause of one of them."""
        standing = {one.evidence.number for one in quoted if one.evidence is not None and one.place is not None}
        for number in sentence.numbers:
            known = self._by_number.get(number)
            if known is None:
                yield Cited(claim, "", "unknown_clause", None, None, True)
            elif not sentence.quotes:
                one = min(known, key=lambda e: self._state(e) != "verified")
                state = self._state(one)
                if state == "verified" and not self._is_named(sentence, one, beside=True):
                    state = "citation_mismatch"
                shown = one.text[:WHOLE]
                yield Cited(claim, shown, state, one, Place(0, len(shown), "exact"), True)
            elif number not in standing:
                yield Cited(claim, known[0].text[:WHOLE], "citation_mismatch", known[0], None, True)

    def known(self, one: Evidence) -> frozenset[Key]:
        """The figures of a clause, with its heading and its dates."""
        if id(one) not in self._held:
            dates = " ".join(d for d in (one.effective_date, one.revision_date) if d)
            self._held[id(one)] = held(f"{one.text}\n{one.heading}\n{dates}")
        return self._held[id(one)]

    def _state(self, one: Evidence) -> Verdict:
        if not one.intact:
            return "hash_mismatch"
        return "verified" if one.holds_on(self._as_of or one.day) else "revision_not_valid_on_date"

    def _fits(self, sentence: Sentence, cited: Sequence[Cited]) -> Verdict:
        """Labels, titles, dates and numbers of a sentence whose citations all stand."""
        sources = [one.evidence for one in cited if one.evidence is not None]
        named_titles, named_labels = sentence.names
        texts = [one.text for one in sources]
        if any(not any(_titled(name, one) for one in sources) and not _said(name, texts) for name in named_titles):
            return "citation_mismatch"
        if any(not any(label in one.aliases for one in sources) for label in named_labels):
            return "citation_mismatch"
        bound = dates_of(sentence.said)
        if not all(any(dates_fit(date, one) for one in sources) or _in(date.key, cited) for date in bound):
            return "citation_mismatch"
        if all(one.numbered for one in cited):
            known = frozenset[Key]().union(*(self.known(one) for one in sources))
        else:
            known = frozenset[Key]().union(*(held(one.quote) for one in cited if not one.numbered))
        spans = [(date.start, date.end) for date in bound]
        for figure in claimed(sentence.said):
            if any(start <= figure.start < end for start, end in spans):
                continue
            if not supports(figure.key, known):
                return "numbers_not_in_quote"
        return "verified"

    # -- sentences that cite nothing -------------------------------------------------------------------------------

    def rest(
        self, claim: Claim, known: frozenset[Key], question: str, sure: Sequence[Evidence], *, quoted: bool
    ) -> Claim:
        """The verdict of a sentence without a citation."""
        sentence = claim.sentence
        if claim.verdict is not None or sentence.form in ("blank", "question"):
            return claim
        if sentence.form == "claim" and self._style == "numbered":
            return claim._replace(verdict="no_citation")
        if sentence.form == "claim" and not quoted:
            return claim._replace(verdict="no_quote")
        if self._names_unknown(sentence, but=[question, *(one.text for one in sure)]):
            return claim._replace(verdict="not_retrieved_in_this_run")
        if not all(supports(figure.key, known) for figure in claimed(sentence.said)):
            return claim._replace(verdict="numbers_not_found")
        return claim

    # -- what a sentence names -------------------------------------------------------------------------------------

    def _named(self, sentence: Sentence) -> list[Evidence]:
        """The retrieved clauses that a sentence names, by [n], or by title and label."""
        numbered = [one for number in sentence.numbers for one in self._by_number.get(number, ())]
        if numbered:
            return numbered
        named_titles, named_labels = sentence.names
        if not named_titles and not named_labels:
            return []
        return [one for one in self._all if self._is_named(sentence, one)]

    def _is_named(self, sentence: Sentence, one: Evidence, *, beside: bool = False) -> bool:
        """Whether what the sentence says of its sources, if anything, fits this clause. ``beside``: its number was
        looked at already."""
        if sentence.numbers and not beside and one.number not in sentence.numbers:
            return False
        named_titles, named_labels = sentence.names
        if named_titles and not any(_titled(name, one) for name in named_titles):
            return False
        return not named_labels or bool(one.aliases & named_labels)

    def _names_unknown(self, sentence: Sentence, but: Sequence[str] = ()) -> bool:
        """Whether it names a document, an article or a number that this run has not retrieved. ``but``: texts in which
        it may as well have been read."""
        if any(number not in self._by_number for number in sentence.numbers):
            return True
        named_titles, named_labels = sentence.names
        if any(not any(_titled(name, one) for one in self._all) and not _said(name, but) for name in named_titles):
            return True
        return any(
            not any(label in one.aliases for one in self._all) and not any(label in labels(text) for text in but)
            for label in named_labels
        )


def _stands(quote: str, one: Evidence, find: Find) -> Place | None:
    """Where the quotation stands in the clause; it may begin with the clause's own label."""
    place = find(quote, one.text)
    if place is None and one.label and quote.startswith(one.label):
        rest = quote.removeprefix(one.label).lstrip(" \u3000:：")
        place = find(rest, one.text) if len(rest) >= MIN_QUOTE else None
    return place


def _titled(name: str, one: Evidence) -> bool:
    return bool(name) and (name in one.title or one.title in name)


def _said(name: str, texts: Iterable[str]) -> bool:
    return any(name in text for text in texts)


def _in(key: Key, cited: Iterable[Cited]) -> bool:
    return any(supports(key, held(one.quote)) for one in cited)
