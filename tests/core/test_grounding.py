"""What a grounded agent may say: every quotation is looked up, and every citation must fit it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devassist.core.citations import labels, names, prose, quotations, titles
from devassist.core.definition import Definition
from devassist.core.event_parts import Limits
from devassist.core.events import ModelReplied, ToolReturned
from devassist.core.grounding import Clause, Released, clauses_of, release, released_answer

TITLE = "云泽省门诊慢特病管理办法"
FIVE = "参保人员应当自出院之日起90日内提出申请，逾期不予受理。"
FIVE_ONE = "异地就医的参保人员，申请期限延长至180日。"
SIX = "经办机构应当依照《社会保险法》第三条，在10个工作日内作出答复。"


def row(label: str, text: str, score: float = 1.0, title: str = TITLE, **dates: str | None) -> dict[str, Any]:
    return {
        "title": title, "label": label, "text": text, "score": score, "effective_date": dates.get("effective"),
        "revision_date": dates.get("revised"),
    }  # fmt: skip


ROWS = [
    row("第五条", FIVE, 3.0, effective="2024-01-01", revised="2025-07-01"),
    row("第五条之一", FIVE_ONE, 1.0),
    row("第六条", SIX, 1.0),
]


def check(answer: str, rows: list[dict[str, Any]] | None = None, lang: Any = "zh", *, asked: bool = True) -> Released:
    return release(answer, [{"found": True, "matches": ROWS if rows is None else rows}], lang, asked=asked)


def output(released: Released) -> dict[str, Any]:
    assert released.output is not None
    return json.loads(released.output)


def verified(released: Released) -> bool:
    assert ("quote_verified" in released.verdicts) == output(released)["verbatim"]
    return released.verdicts == ("quote_verified",)


def test_a_verbatim_quotation_with_its_source_is_released_as_it_is() -> None:
    """Title, label and dates are all there: not a character is added."""
    answer = f"可以。《{TITLE}》第五条规定：「{FIVE}」（自 2024-01-01 起施行，2025-07-01 修订）"
    released = check(answer)
    assert released.text == answer
    assert verified(released)
    assert released.degraded == ()
    assert output(released) == {
        "answer": answer, "confidence": "high", "verbatim": True,
        "source": {
            "policy_title": TITLE, "clause": "第五条", "effective_date": "2024-01-01", "revision_date": "2025-07-01",
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    "quote",
    [
        FIVE.replace("90", "60"),
        FIVE.replace("不予", "可以"),
        FIVE.replace("，", ","),
        FIVE + "特此通知",
        "申请期限为90天整",
    ],
)
def test_an_altered_quotation_is_flagged(quote: str) -> None:
    """Another number, word, mark or addition is not verbatim; the text says so before anything else."""
    released = check(f"《{TITLE}》第五条规定：「{quote}」")
    assert released.verdicts == ("quote_not_found",)
    assert released.degraded == ("quote_not_verified",)
    assert released.text.startswith("【未核实】")
    assert (output(released)["confidence"], output(released)["verbatim"]) == ("low", False)


def test_one_false_quotation_among_true_ones_is_enough() -> None:
    """All are looked up, not the first."""
    assert check(f"「{FIVE}」又规定「逾期满一年的，终身不得申请」").verdicts == ("quote_not_found",)


@pytest.mark.parametrize(
    "cited",
    ["第六条", "第五条之一", "第九条", "第5条之1", "第十五条"],
)
def test_a_quotation_from_another_clause_than_the_cited_is_flagged(cited: str) -> None:
    """Whether the cited clause was retrieved or not; 第五条 is not 第五条之一."""
    released = check(f"《{TITLE}》{cited}规定：「{FIVE}」")
    assert released.verdicts == ("citation_mismatch",)
    assert released.degraded == ("quote_not_verified",)


def test_a_quotation_under_another_title_is_flagged() -> None:
    """The words stand in one document and the answer names another."""
    assert check(f"《工伤保险条例》第五条规定：「{FIVE}」").verdicts == ("citation_mismatch",)


def test_each_quotation_needs_its_own_citation() -> None:
    """A second quotation, from a clause that is not named beside the first one's, is misattributed."""
    assert check(f"《{TITLE}》第五条规定：「{FIVE}」「{FIVE_ONE}」").verdicts == ("citation_mismatch",)
    assert verified(check(f"《{TITLE}》第五条规定：「{FIVE}」，第五条之一规定：「{FIVE_ONE}」"))


@pytest.mark.parametrize("cited", ["第五条", "第5条", "第五条第一款", "第二章第五条"])
def test_a_citation_may_be_written_otherwise(cited: str) -> None:
    """Digits, paragraph and chapter do not make another clause; a short title is a title."""
    assert verified(check(f"《{TITLE}》{cited}：「{FIVE}」"))
    assert verified(check(f"《门诊慢特病管理办法》{cited}：「{FIVE}」"))


def test_the_source_is_added_where_it_is_missing() -> None:
    """A verified quotation without its source gets a line that names it, with the dates that are known."""
    released = check(f"可以申请：「{FIVE}」")
    assert released.text.splitlines()[-1] == f"（依据：《{TITLE}》第五条，自 2024-01-01 起施行，2025-07-01 修订）"
    assert verified(released)
    assert output(released)["answer"] == released.text
    both = check(f"「{FIVE}」并且「{FIVE_ONE}」")
    assert both.text.splitlines()[-1] == f"（依据：《{TITLE}》第五条之一）"
    assert len(both.text.splitlines()) == 3


def test_words_that_a_clause_quotes_are_no_citation_of_the_answer() -> None:
    """第六条 itself names 第三条 of another law: quoting it cites neither."""
    released = check(f"《{TITLE}》第六条：「{SIX}」")
    assert verified(released)
    assert output(released)["source"]["clause"] == "第六条"
    assert verified(check(f"规定如下：「{SIX}」"))


@pytest.mark.parametrize(
    "answer",
    [
        f"> {FIVE}\n\n依据《{TITLE}》第五条。",
        f"> 第五条　{FIVE}",
        f"> 「{FIVE}」",
        f"如下：\n> {FIVE}\n\n另外：\n> {FIVE_ONE}\n",
        f"“{FIVE}”",
        f"『{FIVE}』",
        f'"{FIVE}"',
        f"其中「逾期不予受理」和「{FIVE}」",
    ],
)
def test_every_way_to_quote_is_read(answer: str) -> None:
    """Corner brackets, both kinds of quotation marks, block quotes, each block by itself, short emphasis aside."""
    assert verified(check(answer))


def test_a_title_is_no_evidence() -> None:
    """Quotation marks within 《》 belong to the title; a title within a quotation belongs to the quotation."""
    assert quotations("见《关于“一网通办工作机制”的通知》。") == []
    assert check("见《关于“一网通办工作机制”的通知》。").verdicts == ("no_quote",)
    title = "关于“一网通办”工作的通知"
    rows = [row("第二条", "申请人可以依照《行政许可法》在线提出申请。", title=title)]
    released = check(f"《{title}》第二条：「申请人可以依照《行政许可法》在线提出申请。」", rows)
    assert verified(released)
    assert released.text.count("依据：") == 0


def test_an_answer_without_a_quotation_is_flagged() -> None:
    """Emphasis of a few characters is none."""
    assert check("可以在“90日”内申请。").verdicts == ("no_quote",)


def test_no_clause_is_no_answer() -> None:
    """A look-up without a hit: the fixed text replaces whatever the model says."""
    released = check("凭常识，期限是30日。", [])
    assert released.text == "政策库中没有找到与此问题相关的条款，无法作答。"
    assert (released.verdicts, released.degraded) == (("no_clause",), ())
    assert output(released)["source"] is None


def test_not_consulted_is_said() -> None:
    """No look-up at all: no grounded answer, and the run is marked as degraded."""
    released = release(f"「{FIVE}」", [], "zh", asked=False)
    assert (released.verdicts, released.degraded) == (("not_consulted",), ("not_consulted",))
    assert released.text == "本次运行没有查询政策库，不能给出有依据的答复。"


def test_confidence_tells_how_far_the_clause_leads() -> None:
    """``high`` only where the quoted clause is the best hit by the margin; the same clause found twice is one."""
    assert output(check(f"「{FIVE}」"))["confidence"] == "high"
    assert output(check(f"「{FIVE_ONE}」"))["confidence"] == "medium"
    close = [row("第五条", FIVE, 1.1), row("第六条", SIX, 1.0)]
    assert output(check(f"「{FIVE}」", close))["confidence"] == "medium"
    twice = [row("第五条", FIVE, 2.0), row("第五条", FIVE, 1.9)]
    assert output(check(f"「{FIVE}」", twice))["confidence"] == "high"


def test_english_answers() -> None:
    """The same rules, in English words; Article 1 is not Article 10."""
    text = "An applicant shall apply within 90 days of discharge."
    rows = [
        row("Article 1", text, 3.0, "Rules on Refunds", effective="2024-01-01"),
        row("Article 10", "The office shall answer within ten days.", 1.0, "Rules on Refunds"),
    ]
    released = check(f"You have 90 days: “{text}”", rows, "en")
    assert released.text.endswith("\n(Source: Rules on Refunds, Article 1, effective 2024-01-01)")
    assert check(f"Rules on Refunds, Article 10: “{text}”", rows, "en").verdicts == ("citation_mismatch",)
    flagged = check("“An applicant shall apply within 30 days.”", rows, "en")
    assert flagged.text.startswith("[Not verified]")
    assert check("?", [], "en").text.startswith("The policy library has no clause")


@pytest.mark.parametrize(
    "results",
    [
        [None], ["text"], [[1]], [{}], [{"matches": None}], [{"matches": ["x", None, {"title": "t"}]}],
        [{"matches": [{"title": 1, "label": "l", "text": "t"}]}],
    ],
)  # fmt: skip
def test_results_of_other_tools_hold_no_clauses(results: list[Any]) -> None:
    """Whatever a tool returned, it is ignored and never an error."""
    assert clauses_of(results) == []


def test_a_clause_needs_no_dates_or_score() -> None:
    """What is missing, or of another type, is taken as not known."""
    bare = {"title": "t", "label": "l", "text": "x", "score": None, "effective_date": 7}
    (clause,) = clauses_of([{"matches": [bare]}])
    assert clause == Clause("t", "l", "x", None, None, 0.0)


def test_labels_are_read_as_numbers() -> None:
    """Chinese numerals and digits are one, inserted articles are articles of their own."""
    assert labels("第五条之一、第一百二十三条、第20条") == {("条", 5, 1), ("条", 123, 0), ("条", 20, 0)}
    assert labels("第十条 第二十条 第一千零二条 第一〇二条") == {("条", n, 0) for n in (10, 20, 1002, 102)}
    assert labels("Article 5, section 3.1") == {("article", "5"), ("section", "3.1")}
    assert names("附件一第三款", "附件一")
    assert not names("附件二", "附件一")
    assert not names("anything", "")


def test_prose_and_titles() -> None:
    """The answer's own words: no quotations, but the titles that stand among them."""
    text = "依《甲“乙”办法》第五条：「第六条的话」\n> 第七条的话\n完。"
    assert titles(prose(text)) == ["甲“乙”办法"]
    assert labels(prose(text)) == {("条", 5, 0)}


def reply(**fields: Any) -> ModelReplied:
    return ModelReplied(1, "raw", "final", 1, answer="answer", **fields)


def test_release_is_computed_from_the_record() -> None:
    """Results of calls that worked count; failures and other outcomes do not. An ungrounded agent's answer is its
    answer, marked where it kept to no protocol."""
    definition = Definition("dev", "s", "v", "zh", (), "m", "scripted", Limits(), grounded=True)
    found = json.dumps({"matches": ROWS})
    texts = {"answer": f"「{FIVE}」", "found": found}
    failed = ToolReturned(3, "failed", 1, "found", code="x")
    worked = ToolReturned(3, "result", 1, "found")
    assert released_answer(definition, reply(), [(failed, 4, 0)], texts).verdicts == ("not_consulted",)
    both = [(failed, 4, 0), (worked, 5, 0)]
    assert released_answer(definition, reply(), both, texts).verdicts == ("quote_verified",)
    free = Definition("dev", "s", "v", "zh", (), "m", "scripted", Limits())
    assert released_answer(free, reply(), [], texts) == Released(texts["answer"])
    assert released_answer(free, reply(unstructured=True), [], texts).verdicts == ("unstructured",)
