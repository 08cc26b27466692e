"""Numbers and dates in a text: by value, whatever way they are written, and only what is a figure."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.figures_in_text import Key, claimed, date_key, figures, held, supports
from devassist.knowledge.parsing.numerals import numeral


def keys(text: str) -> list[Key]:
    return [figure.key for figure in claimed(text)]


def n(value: float | str) -> Key:
    return ("n", Fraction(value))


def share(value: str) -> Key:
    return ("r", Fraction(value))


def day(year: int | None, month: int | None = None, of: int | None = None) -> Key:
    return ("d", (year, month, of))


SAME: list[tuple[Key, list[str]]] = [
    (n(90), ["90日内", "九十日内", "９０日", "90 days", "ninety days"]),
    (n(15), ["十五个工作日", "15个工作日", "一十五个工作日", "fifteen working days"]),
    (n(50_000), ["5万元", "五万元", "50,000元", "50000 yuan"]),
    (n(1002), ["一千零二人", "1002人", "1,002人"]),
    (n("2.5"), ["2.5倍", "二点五倍"]),
    (n(1), ["一年内", "1年内"]),
    (share("17/20"), ["85%", "百分之八十五", "85％", "85 %", "85 percent", "85 per cent"]),
    (share("1/200"), ["5‰", "千分之五", "0.5%", "百分之零点五"]),
    (share("2/3"), ["三分之二以上"]),
    (
        day(2024, 1, 5),
        ["2024-01-05", "2024年1月5日", "二〇二四年一月五日", "2024/1/5", "5 January 2024", "January 5, 2024"],
    ),
    (day(2024, 7), ["2024年7月"]),
    (day(None, 12, 31), ["12月31日", "十二月三十一日"]),
    (day(2024), ["2024年", "2024年度", "二〇二四年"]),
    (("v", "0.115.0"), ["version 0.115.0"]),
    (("v", "10:30"), ["10:30", "10：30"]),
]


@pytest.mark.parametrize(("key", "texts"), SAME)
def test_the_same_value_is_one_figure_however_it_is_written(key: Key, texts: list[str]) -> None:
    """Digits of both widths, Chinese numerals, words and dates of every form give the same key."""
    for text in texts:
        assert keys(text) == [key], text


@pytest.mark.parametrize(
    "text",
    [
        "一般情况下一致认定", "万一，十分紧急", "统一规定", "一个条件", "第五条第2款", "Article 5 and section 3.1",
        "utf-8 OAuth2 x86_64 v2", "（一）申请人", "1. 申请", "2、受理", "[1]", "【12】", "第三方",
        "第二次", "唯一", "之一", "one of them",
    ],
)  # fmt: skip
def test_turns_of_speech_labels_marks_and_names_are_no_claims(text: str) -> None:
    """What a sentence only says by the way is not asked of its source."""
    assert keys(text) == []


def test_evidence_is_read_generously() -> None:
    """A date gives its year, month and day; a numeral that may be a turn of speech counts as evidence."""
    known = held("自2024年7月1日起，一名工作人员应当在10日内答复")
    for key in (day(2024, 7, 1), day(2024, 7), day(2024), day(None, 7, 1), n(2024), n(1), n(10)):
        assert supports(key, known), key
    assert not supports(day(2024, 7, 2), known)
    assert not supports(n(11), known)
    assert supports(day(2024), held("in 2024 something"))


def test_iso_days() -> None:
    """Only whole days of the calendar's form."""
    assert date_key("2024-07-01") == day(2024, 7, 1)
    assert date_key("2024") is None
    assert date_key(None) is None


@given(st.integers(2, 9999))
def test_every_numeral_is_read_by_its_value(value: int) -> None:
    """1..9,999 in Chinese and in digits are one."""
    assert keys(f"{numeral(value)}元") == keys(f"{value}元") == [n(value)]
    assert keys(f"百分之{numeral(value)}") == keys(f"{value}%")


@given(st.text(alphabet="0123456789.,%年月日第条百千万亿十一二零〇点分之个 ab-/:[]（）\n", max_size=40))
def test_it_reads_anything(text: str) -> None:
    """No text breaks it, and spans lie in order within the text."""
    last = 0
    for figure in figures(text):
        assert last <= figure.start < figure.end <= len(text)
        last = figure.end
