"""A hundred seeded wrong citations are all caught and a hundred right ones never rejected, over samples and statutes;
and the properties behind them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from devassist import knowledge
from devassist.core.citations import MIN_QUOTE, labels
from devassist.core.citing import check
from devassist.core.citing_match import place_of
from devassist.core.figures_in_text import claimed, held, supports
from devassist.core.retrieved import Evidence
from tests import kb
from tests.core.clauses import clause

SAMPLES = Path(knowledge.__file__).parent / "samples"
EACH = 100


@dataclass(frozen=True)
class Text:
    doc: str
    title: str
    label: str
    text: str


def samples() -> list[Text]:
    found: list[Text] = []
    for path in sorted(SAMPLES.glob("*.json")):
        asset = json.loads(path.read_text("utf-8"))
        found += [Text(asset["doc_id"], asset["title"], c["label"], c["text"]) for c in asset["clauses"] if c["text"]]
    return found


def statutes() -> list[Text]:
    kb.need_bundle()
    named = [row for row in kb.corpus() if row["in_core"] and labels(row["article"])]
    return [Text(row["law"], row["title"], row["article"], row["text"]) for row in named]


SOURCES = {"samples": samples, "statutes": statutes}


def as_evidence(number: int, text: Text, **fields: object) -> Evidence:
    rev_id = f"{text.doc}@2024-01-01"
    return replace(
        clause(number, text.label, text.text, text.title), doc_id=text.doc, rev_id=rev_id,
        clause_id=f"{rev_id}#{number}", **fields,
    )  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """Five clauses that a run retrieved, of several documents, and one more that it did not."""

    rng: random.Random
    retrieved: list[Evidence]
    other: Text

    @property
    def one(self) -> Evidence:
        return self.retrieved[0]

    def quote(self) -> str:
        """Some whole sentences of the first clause, or all of it."""
        text = self.one.text
        ends = [i + 1 for i, c in enumerate(text) if c in "。；\n"]
        cuts = [0, *ends, len(text)]
        for _ in range(20):
            first, last = sorted(self.rng.sample(range(len(cuts)), 2))
            part = text[cuts[first] : cuts[last]].strip()
            if len(part) >= 12 and "「" not in part and "」" not in part and place_of(part, text) is not None:
                return part
        return text


def scenes(texts: Sequence[Text], seed: int, wanted: int, fits: Callable[[Scene], bool]) -> list[Scene]:
    rng = random.Random(seed)
    usable = [t for t in texts if len(t.text) >= 20 and "「" not in t.text]
    found: list[Scene] = []
    while len(found) < wanted:
        picked = rng.sample(usable, 6)
        if len({t.text for t in picked}) < 6 or len({(t.title, t.label) for t in picked}) < 6:
            continue
        made = Scene(rng, [as_evidence(n, t) for n, t in enumerate(picked[:5], 1)], picked[5])
        if fits(made):
            found.append(made)
    return found


def passes(answer: str, evidence: Sequence[Evidence], style: str = "quoted", as_of: str | None = None) -> bool:
    """Whether every sentence passes and something is verified."""
    found = check(answer, evidence, style=style, as_of=as_of, question="有什么规定？")  # pyright: ignore[reportArgumentType]
    return not found.failed and bool(found.verified)


def quoted(one: Evidence, quote: str, numbered: bool) -> str:
    return f"文件中写道：「{quote}」[{one.number}]" if numbered else f"《{one.title}》{one.label}规定：「{quote}」"


def other_digit(rng: random.Random, text: str) -> str | None:
    """The text with one digit or Chinese numeral of a figure changed to another."""
    places = [at for f in claimed(text) for at in range(f.start, f.end) if text[at] in "0123456789二三四五六七八九"]
    if not places:
        return None
    at = rng.choice(places)
    of = "123456789" if text[at].isdigit() and text[at].isascii() else "二三四五六七八九"
    return text[:at] + rng.choice([c for c in of if c != text[at]]) + text[at + 1 :]


def one_off(rng: random.Random, text: str) -> str:
    """Another character, one more, or one less, within the text."""
    at = rng.choice([i for i in range(1, len(text) - 1) if not text[i].isspace()])
    return rng.choice([text[:at] + "龘" + text[at + 1 :], text[:at] + "龘" + text[at:], text[:at] + text[at + 1 :]])


@pytest.mark.parametrize("style", ["quoted", "numbered"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_hundred_right_citations_pass(source: str, style: str) -> None:
    """Verbatim quotations with their source, with figures of the quotation in the sentence or without."""
    for scene in scenes(SOURCES[source](), 1, EACH, lambda s: True):
        one, quote = scene.one, scene.quote()
        answer = quoted(one, quote, style == "numbered")
        assert passes(answer, scene.retrieved, style), answer
        if figures := claimed(quote):
            f = scene.rng.choice(figures)
            said = f"其中提到{quote[f.start : f.end]}，" + answer
            if [c.key for c in claimed(said.partition("，")[0])] == [f.key]:
                assert passes(said, scene.retrieved, style), said


def wrong(scene: Scene, kind: str, numbered: bool) -> tuple[str, list[Evidence], str | None] | None:
    """An answer with one fault of this kind, what was retrieved, and the run's day."""
    one, quote, rng = scene.one, scene.quote(), scene.rng
    right = quoted(one, quote, numbered)
    match kind:
        case "altered number in the quotation":
            altered = other_digit(rng, quote)
            return None if altered is None else (quoted(one, altered, numbered), scene.retrieved, None)
        case "altered number in the sentence":
            given = next((quote[f.start : f.end] for f in claimed(quote)), None)
            altered = None if given is None else other_digit(rng, f"{given}")
            if altered is None or all(supports(f.key, held(quote)) for f in claimed(f"提到{altered}，")):
                return None
            return f"其中提到{altered}，{right}", scene.retrieved, None
        case "wrong revision":
            ended = [replace(one, valid_to="2025-07-01"), *scene.retrieved[1:]]
            return right, ended, "2025-07-01"
        case "other document":
            if numbered:
                return f"文件中写道：「{quote}」[{scene.retrieved[1].number}]", scene.retrieved, None
            named = next((e for e in scene.retrieved if e.title not in one.title and one.title not in e.title), None)
            return (
                None if named is None else (f"《{named.title}》{named.label}规定：「{quote}」", scene.retrieved, None)
            )
        case "one character off":
            return quoted(one, one_off(rng, quote), numbered), scene.retrieved, None
        case "not retrieved":
            return right, scene.retrieved[1:], None
        case "another text under the number":
            forged = replace(one, text_sha256=sha256(b"another").hexdigest())
            return right, [forged, *scene.retrieved[1:]], None
        case _:
            raise AssertionError(kind)


KINDS = [
    "altered number in the quotation", "altered number in the sentence", "wrong revision", "other document",
    "one character off", "not retrieved", "another text under the number",
]  # fmt: skip


@pytest.mark.parametrize("style", ["quoted", "numbered"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_hundred_wrong_citations_are_all_caught(source: str, style: str) -> None:
    """Every kind of fault, each beside the same answer without it, which passes."""
    texts = SOURCES[source]()
    caught = 0
    for place, kind in enumerate(KINDS):
        share = EACH // len(KINDS) + 1
        made = scenes(texts, 100 + place, share, lambda s, k=kind: wrong(s, k, style == "numbered") is not None)
        for scene in made:
            given = None
            while given is None:
                given = wrong(scene, kind, style == "numbered")
            answer, retrieved, as_of = given
            assert not passes(answer, retrieved, style, as_of), f"{kind}: {answer}"
            caught += 1
    assert caught >= EACH


WORDS = st.text(alphabet="甲乙丙丁应当在日内提出申请予受理，。；、（）ab1290 %\n", min_size=12, max_size=80)


@given(WORDS, st.integers(0, 10_000), st.integers(0, 10_000))
@example("应当在15日内提出申请，逾期不予受理。", 0, 19)
def test_a_verbatim_quotation_is_verified(text: str, first: int, last: int) -> None:
    """Whatever stretch of the clause is quoted, unless it cuts a figure or a word in two."""
    ends = sorted((first % (len(text) + 1), last % (len(text) + 1)))
    quote = text[ends[0] : ends[1]].strip()
    assume(len(quote) >= MIN_QUOTE and any(c.isalnum() for c in quote))
    place = place_of(quote, text)
    assume(place is not None)
    assert place is not None
    assert (text[place.start : place.end], place.match) == (quote, "exact")


@given(WORDS, st.integers(0, 10_000), st.sampled_from("龘子7Z"), st.sampled_from(["other", "more", "less"]))
def test_one_character_of_difference_is_never_verified(text: str, where: int, char: str, how: str) -> None:
    """Another character, one more or one less within the quotation: it stands nowhere in the clause any more."""
    quote = text.strip()
    assume(len(quote) >= 10)
    at = 1 + where % (len(quote) - 2)
    changed = {
        "other": quote[:at] + char + quote[at + 1 :], "more": quote[:at] + char + quote[at:],
        "less": quote[:at] + quote[at + 1 :],
    }[how]  # fmt: skip
    assume(changed.split() != quote.split() and "".join(changed.split()) != "".join(quote.split()))
    place = place_of(changed, text)
    assert place is None or changed in text, (changed, text)
