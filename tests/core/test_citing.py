"""The citation check: what is verified, what is not and why, and what is released of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from devassist.core.citing_words import REFUSALS
from tests import kb
from tests.core.clauses import CLAUSES, FIVE, FIVE_ONE, SIX, TITLE, checks, clause, output, released

SCHEMA = kb.KB / "schema" / "citation.schema.json"
OWN = {"citation_mismatch", "numbers_not_in_quote", "numbers_not_found", "no_quote", "no_citation"}


def test_a_verbatim_quotation_with_its_source_is_released_as_it_is() -> None:
    """Title, label, dates and the exact words: not a character is added, and the span is the clause's own."""
    answer = f"可以。《{TITLE}》第五条规定：「{FIVE}」（自 2024-01-01 起施行，2025-07-01 修订）"
    found = released(answer)
    assert (found.text, found.verdicts, found.degraded) == (answer, ("quote_verified",), ())
    assert output(found) == {
        "answer": answer, "confidence": "high", "verbatim": True,
        "source": {
            "policy_title": TITLE, "clause": "第五条", "effective_date": "2024-01-01", "revision_date": "2025-07-01",
        },
    }  # fmt: skip
    (one,) = checks(found)["citations"]
    assert (one["verdict"], one["match"], one["clause_id"]) == ("verified", "exact", CLAUSES[0].clause_id)
    assert FIVE[one["span"]["start"] : one["span"]["end"]] == one["quote"] == FIVE


QUOTED: list[tuple[str, str]] = [
    (f"《{TITLE}》第五条规定：「{FIVE.replace('90', '60')}」", "quote_not_found"),
    (f"《{TITLE}》第五条规定：「{FIVE.replace('不予', '可以')}」", "quote_not_found"),
    (f"《{TITLE}》第五条规定：「{FIVE}特此通知」", "quote_not_found"),
    (f"「{FIVE}」又规定「逾期满一年的，终身不得申请」", "quote_not_found"),
    *((f"《{TITLE}》{cited}规定：「{FIVE}」", "citation_mismatch") for cited in ("第六条", "第五条之一", "第5条之1")),
    (f"《{TITLE}》第九条规定：「{FIVE}」", "citation_mismatch"),
    (f"《工伤保险条例》第五条规定：「{FIVE}」", "citation_mismatch"),
    ("《工伤保险条例》第五条规定：「职工应当在三十日内提出申请」", "not_retrieved_in_this_run"),
    (f"《{TITLE}》第五条规定：「{FIVE}」「{FIVE_ONE}」", "citation_mismatch"),
    (f"《{TITLE}》第五条规定：「{FIVE}」（自 2024-01-02 起施行）", "citation_mismatch"),
    (f"《{TITLE}》第五条规定：「{FIVE}」（2024-01-01 修订）", "citation_mismatch"),
    (f"期限是60日，《{TITLE}》第五条规定：「{FIVE}」", "numbers_not_in_quote"),
    (f"期限是六十日。《{TITLE}》第五条规定：「{FIVE}」", "numbers_not_in_quote"),
    (f"《{TITLE}》第五条规定，报销80%：「{FIVE}」", "numbers_not_in_quote"),
    (f"申请的最长期限是120日，请留意。《{TITLE}》第五条规定：「{FIVE}」", "numbers_not_found"),
    (f"《工伤保险条例》第九条也是如此规定的。「{FIVE}」", "not_retrieved_in_this_run"),
    (f"《{TITLE}》第五条规定：「0日内提出申请」", "quote_not_found"),
    ("可以在“90日”内申请。", "no_quote"),
    ("凭常识，期限是30日。", "no_quote"),
    (f"《{TITLE}》规定在「第五条、第一百二十三条」。", "no_quote"),
]


@pytest.mark.parametrize(("answer", "code"), QUOTED)
def test_what_does_not_stand_is_named_and_flagged(answer: str, code: str) -> None:
    """Each fault has its own code; the text says before anything else that it was not verified."""
    found = released(answer)
    assert found.verdicts == (code,)
    assert found.degraded == ("quote_not_verified",)
    assert found.text.startswith("【未核实】")
    assert (output(found)["confidence"], output(found)["verbatim"]) == ("low", False)
    assert code in {c["verdict"] for c in checks(found)["claims"]}


RIGHT = [
    f"《{TITLE}》第五条规定：「{FIVE}」，第五条之一规定：「{FIVE_ONE}」",
    f"《{TITLE}》第五条规定：「{FIVE}」第五条之一规定：「{FIVE_ONE}」",
    *(f"《{TITLE}》{cited}：「{FIVE}」" for cited in ("第五条", "第5条", "第五条第一款", "第二章第五条")),
    f"《门诊慢特病管理办法》第五条：「{FIVE}」",
    f"可以申请：「{FIVE}」",
    f"《{TITLE}》第六条：「{SIX}」",
    f"期限是九十日。《{TITLE}》第五条规定：「{FIVE}」",
    f"一般情况下，期限是90日，自出院起算。《{TITLE}》第五条规定：「{FIVE}」",
    f"> {FIVE}\n\n依据《{TITLE}》第五条。",
    f"> 第五条　{FIVE}",
    f"> 「{FIVE}」",
    f"如下：\n> {FIVE}\n\n另外：\n> {FIVE_ONE}\n",
    f"“{FIVE}”",
    f"『{FIVE}』",
    f'"{FIVE}"',
    f"其中「逾期不予受理」和「{FIVE}」",
    f"1. 期限：「{FIVE}」\n2. 异地：「{FIVE_ONE}」",
    f"依照《社会保险法》第三条办理。《{TITLE}》第六条：「{SIX}」",
]


@pytest.mark.parametrize("answer", RIGHT)
def test_every_way_to_quote_and_to_cite_is_read(answer: str) -> None:
    """Corner brackets, quotation marks, block quotes, short titles, numerals of both kinds, sources left out."""
    found = released(answer)
    assert (found.verdicts, found.degraded) == (("quote_verified",), ())
    assert output(found)["verbatim"]


@pytest.mark.parametrize(
    "quote",
    [
        FIVE.replace("，", ","),
        FIVE.replace("90", "９０"),
        FIVE.replace("出院之日", "出院\n之日"),
        FIVE.replace("起", "起 "),
    ],
)
def test_a_difference_of_width_or_line_break_is_a_normalised_match(quote: str) -> None:
    """It is verified with the right span, marked as normalised, and not called verbatim."""
    found = released(f"《{TITLE}》第五条规定：「{quote}」")
    assert found.verdicts == ("quote_normalised",)
    assert (output(found)["verbatim"], output(found)["confidence"]) == (False, "low")
    (one,) = checks(found)["citations"]
    assert (one["verdict"], one["match"], one["quote"]) == ("verified", "normalised", quote)
    assert FIVE[one["span"]["start"] : one["span"]["end"]] == FIVE


def test_the_view_makes_no_other_number() -> None:
    """10² is not 102, 1 5 is not 15, ½ is not 12: such differences are no matter of width."""
    texts = {
        "面积为10²平方米以上的": "面积为102平方米以上的",
        "共计1 5人参加会议": "共计15人参加会议",
        "占全部的½以上份额": "占全部的12以上份额",
    }
    for text, quote in texts.items():
        assert released(f"「{quote}」", [clause(1, "第一条", text)]).verdicts == ("quote_not_found",)


def test_a_quotation_never_begins_within_a_figure_or_a_word() -> None:
    """5日 of 15日 and 五十 of 百分之五十 say something else than the clause."""
    texts = {
        "应当在15日以内提出申请": "5日以内提出申请", "比例为百分之五十以上的个人": "五十以上的个人",
        "费率为每件13%": "费率为每件13", "fees cannot be refunded": "not be refunded", "限额是1.5万元以内": "5万元以内",
    }  # fmt: skip
    for text, quote in texts.items():
        assert released(f"「{quote}」", [clause(1, "第一条", text)]).verdicts[0] in ("quote_not_found", "no_quote"), (
            quote
        )


# -- days and hashes ---------------------------------------------------------------------------------------------------

OLD = clause(1, "第七条", "报销比例为80%，每年一次核定。", valid_to="2025-07-01", rev_id="c@2024", day="2025-01-01")
NEW = clause(2, "第七条", "报销比例为85%，每年一次核定。", valid_from="2025-07-01", rev_id="c@2025", day="2026-01-01")


@pytest.mark.parametrize(
    ("quoted", "as_of", "verdict"),
    [
        (OLD, None, "verified"), (NEW, None, "verified"), (OLD, "2025-06-30", "verified"),
        (OLD, "2025-07-01", "revision_not_valid_on_date"), (NEW, "2025-06-30", "revision_not_valid_on_date"),
        (NEW, "2025-07-01", "verified"), (OLD, "2023-12-31", "revision_not_valid_on_date"),
    ],
)  # fmt: skip
def test_the_revision_has_to_hold_on_the_day(quoted: Any, as_of: str | None, verdict: str) -> None:
    """The run's day counts where it names one, else that of the call; intervals are half-open."""
    found = released(f"《{TITLE}》第七条：「{quoted.text}」", [OLD, NEW], as_of=as_of)
    assert [one["verdict"] for one in checks(found)["citations"]] == [verdict]


def test_a_text_that_is_not_the_recorded_one_is_no_evidence() -> None:
    """The words stand in the result, and the hash of the record is another."""
    forged = replace(CLAUSES[0], text_sha256="0" * 64)
    assert released(f"「{FIVE}」", [forged]).verdicts == ("hash_mismatch",)


# -- numbered ----------------------------------------------------------------------------------------------------------

NUMBERED: list[tuple[str, str]] = [
    ("期限是60日[1]。", "numbers_not_in_quote"),
    ("期限是90日[2]。", "numbers_not_in_quote"),
    ("期限是90日。", "no_citation"),
    ("期限是90日[9]。", "unknown_clause"),
    (f"文档写道：「{FIVE}」[2]", "citation_mismatch"),
    (f"文档写道：「{FIVE.replace('90', '91')}」[1]", "quote_not_found"),
    (f"文档写道：「{FIVE}」", "verified"),
    ("《工伤保险条例》规定90日[1]。", "citation_mismatch"),
    ("第六条规定90日[1]。", "citation_mismatch"),
    ("90日[2]；180日[1]。", "numbers_not_in_quote"),
    (f"「{FIVE}」[2]，「{FIVE_ONE}」[1]。", "citation_mismatch"),
    (f"> {FIVE}\n[2]", "citation_mismatch"),
    (f"> {FIVE}\n [1]\n> {FIVE_ONE}\n [2]\n", "verified"),
    ("期限是91日。\n[1]", "numbers_not_in_quote"),
    ("期限是90日[1]。", "verified"),
    ("期限是九十日 [1]。", "verified"),
    ("180日[2]；90日[1]。", "verified"),
    ("期限是90日[1]，逾期不予受理。", "verified"),
    ("可以。期限是90日[1][3]。", "verified"),
    (f"「{FIVE}」[1]，「{FIVE_ONE}」[2]。", "verified"),
    ("自 2024-01-01 起施行，期限90日[1]。", "verified"),
]


@pytest.mark.parametrize(("answer", "verdict"), NUMBERED)
def test_numbers_stand_for_the_words_before_them(answer: str, verdict: str) -> None:
    """[n] is a clause of this run, and each number and date of the words that it closes is in that clause."""
    found = released(answer, style="numbered")
    assert found.verdicts == (("citations_verified",) if verdict == "verified" else (verdict,))
    assert (found.degraded == ()) is (verdict == "verified")


def test_the_list_of_sources_is_made_from_the_record() -> None:
    """A list that the model wrote is left out; the true one names title, place, revision and date of each number."""
    said = "异地是180日[2]。期限是90日[1]。"
    found = released(f"{said}\n\n来源：\n[1] 胡编的文件\n[2] 另一份", style="numbered")
    assert found.text == (
        f"{said}\n\n来源：\n[1] {TITLE} > 第五条，版本 2024-01-01，自 2024-01-01 起施行，2025-07-01 修订\n"
        f"[2] {TITLE} > 第五条之一，版本 2024-01-01"
    )
    assert [one["n"] for one in output(found)["citations"]] == [1, 2]
    english = released("The limit is 90 days [1].", style="numbered", lang="en").text
    assert english.endswith(
        f"Sources:\n[1] {TITLE} > 第五条, revision 2024-01-01, effective 2024-01-01, revised 2025-07-01"
    )


def test_a_number_is_bound_to_clause_revision_and_span() -> None:
    """[1] is the clause that was shown as 1, whatever was retrieved before it and in which order lists stand."""
    shown = [
        clause(2, "c1", "Deposit is kept by the owner."),
        clause(1, "c3", "The fee is 3% of it."),
        clause(3, "c4", "x"),
    ]
    found = released("Fee is 3% [1]; deposit is kept [2].", shown, style="numbered", lang="en")
    assert found.verdicts == ("citations_verified",)
    listed = {one["n"]: one for one in output(found)["citations"]}
    assert (listed[1]["clause_id"], listed[2]["clause_id"]) == (shown[1].clause_id, shown[0].clause_id)
    assert listed[1]["spans"] == [{"claim_id": "s1", "start": 0, "end": len(shown[1].text), "match": "exact"}]


# -- flag, remove, refuse ----------------------------------------------------------------------------------------------

MIXED = "期限是90日[1]。报销比例为70%[1]。胡说的一句没有出处。异地的是180日[2]。"


def test_flagged_sentences_are_marked_where_they_stand() -> None:
    """The rest of the answer and its sources stay."""
    found = released(MIXED, style="numbered")
    assert found.verdicts == ("numbers_not_in_quote", "no_citation")
    assert "【未核实】报销比例为70%[1]。【未核实】胡说的一句没有出处。异地的是180日[2]。" in found.text
    assert found.degraded == ("claims_not_supported",)
    assert checks(found)["removed"] == 0


def test_unsupported_sentences_can_be_removed() -> None:
    """They are gone from text and output, counted, and named in the record."""
    found = released(MIXED, style="numbered", unsupported="remove")
    assert found.text.startswith("期限是90日[1]。异地的是180日[2]。\n\n来源：")
    assert found.verdicts == ("citations_verified", "numbers_not_in_quote", "no_citation")
    assert found.degraded == ("sentences_removed",)
    assert checks(found)["removed"] == 2
    assert [c["verdict"] for c in checks(found)["claims"]] == [
        "verified", "numbers_not_in_quote", "no_citation", "verified"
    ]  # fmt: skip
    lead = released(f"规定如下：\n「{FIVE}」\n异地：\n「改了一个字的引文」", unsupported="remove")
    assert lead.text == f"规定如下：\n「{FIVE}」\n（依据：《{TITLE}》第五条，自 2024-01-01 起施行，2025-07-01 修订）"


@pytest.mark.parametrize("style", ["quoted", "numbered"])
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_where_nothing_is_left_the_answer_is_a_refusal(style: Any, lang: Any) -> None:
    """A fixed text, its own verdict, and none of the model's words."""
    found = released("期限是77日，不必怀疑。", style=style, lang=lang, unsupported="remove")
    assert found.text == REFUSALS[style]["nothing_supported"][lang]
    assert found.verdicts[0] == "nothing_supported"
    assert "77" not in found.text + (found.output or "")
    none = released("凭常识，期限是30日。", [], style=style, lang=lang)
    assert (none.text, none.verdicts, none.degraded) == (REFUSALS[style]["no_clause"][lang], ("no_clause",), ())
    never = released("期限是30日。", [], style=style, lang=lang, looked=False)
    assert (never.verdicts, never.degraded) == (("not_consulted",), ("not_consulted",))


@pytest.mark.parametrize(
    "answer", ["政策库中没有相关条款。", "检索到的条款中没有规定这一点。", "The documents do not say."]
)
@pytest.mark.parametrize("style", ["quoted", "numbered"])
def test_an_answer_that_says_there_is_none_passes(answer: str, style: Any) -> None:
    """It claims nothing, so nothing of it has to be found."""
    found = released(answer, style=style)
    assert (found.text, found.verdicts, found.degraded) == (answer, ("declined",), ())


def test_declining_is_no_way_around_the_check() -> None:
    """A number in such a sentence is a claim like any other."""
    assert released("没有规定，但通常是45日。").verdicts == ("numbers_not_found",)


# -- record ------------------------------------------------------------------------------------------------------------


def test_citations_fit_the_schema() -> None:
    """Every citation of verified and failed answers, but for the verdicts that are our own."""
    if not SCHEMA.is_file():
        pytest.skip(kb.NO_BUNDLE)
    check = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    for answer, style in [*((a, "quoted") for a in RIGHT), *((a, "numbered") for a, _ in NUMBERED)]:
        for one in checks(released(answer, style=style))["citations"]:  # pyright: ignore[reportArgumentType]
            if one["verdict"] not in OWN and one["doc_id"]:
                assert list(check.iter_errors(one)) == []


@pytest.mark.parametrize(
    "piece",
    [
        "「",
        "『",
        "\n",
        "1",
        "一万",
        "[1]，",
        "a. ",
        "~~~~a\n",
        "「六个字以上的」",
        "。（（",
        "《",
        "[1,",
        "1,000,",
        "\n来源：\n",
    ],
)
@pytest.mark.parametrize("style", ["quoted", "numbered"])
def test_no_answer_takes_long_or_breaks_it(piece: str, style: Any) -> None:
    """Thirty thousand characters of what repeats best; what is beyond a bound counts as unsupported."""
    found = released(
        piece * (30_000 // len(piece)), [clause(n, "第五条", (FIVE + SIX) * 20) for n in range(1, 21)], style=style
    )
    assert found.verdicts


def test_what_is_beyond_the_bounds_is_not_verified() -> None:
    """A thousand sentences and three hundred quotations are looked at, no more."""
    many = "".join("期限是90日[1]。\n" for _ in range(1001))
    assert checks(released(many, style="numbered"))["claims"][-1]["verdict"] == "no_citation"
    quotes = "".join(f"「{FIVE}」\n" for _ in range(301))
    assert [one["verdict"] for one in checks(released(quotes))["citations"]][299:] == ["verified", "quote_not_found"]
