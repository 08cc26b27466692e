"""Numbers of documents: file numbers of Chinese authorities, and codes of standards and parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.document_numbers import numbers
from devassist.core.terms import query_terms, terms


@pytest.mark.parametrize(
    "text",
    [
        "国办发〔2023〕15号", "国办发[2023]15号", "国办发（2023）15号", "国办发(2023)第15号", "国办发【2023】15号",
        "国办发﹝2023﹞15号", "国办发 〔 ２０２３ 〕 １５ 号", "国办发〔2023〕015号",
    ],
)  # fmt: skip
def test_a_file_number_is_one_term_however_it_is_written(text: str) -> None:
    """Brackets, widths, spaces and leading zeros do not make another number of it."""
    assert numbers(text) == [("2023-15-国办发", "2023-15-办发")]


def test_words_before_a_file_number_do_not_hide_it() -> None:
    """The abbreviation is found with whatever stands before it, and another authority's number is not the same."""
    (asked,) = numbers("请问国发〔2024〕3号的要求")
    (stored,) = numbers("根据国发〔2024〕3号文件")
    assert set(asked) & set(stored) == {"2024-3-国发"}
    for other in ("国办发〔2024〕3号", "国发〔2024〕13号", "国发〔2023〕3号"):
        (different,) = numbers(other)
        assert "2024-3-国发" not in different


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("型号 AX-13 的上限", "ax13"), ("型号AX‑13的上限", "ax13"), ("ax-13", "ax13"), ("ＡＸ－１３", "ax13"),
        ("GB/T 7714-2015", "gbt7714-2015"), ("GB/T7714—2015", "gbt7714-2015"), ("gb/t-7714-2015", "gbt7714-2015"),
        ("RFC 9457", "rfc9457"), ("RFC-9457", "rfc9457"), ("ISO/IEC 27001:2022", "isoiec27001-2022"),
    ],
)  # fmt: skip
def test_a_code_is_one_term_however_it_is_written(text: str, term: str) -> None:
    """Hyphens, dashes, widths and spaces do not make another code of it."""
    assert numbers(text) == [(term,)]


@pytest.mark.parametrize(
    "text",
    [
        "python 3",
        "in 2024",
        "2024-01-02",
        "A 4",
        "1.3%",
        "foo-AX-13",
        "第十二条",
        "〔2024〕3号",
        "国发〔24〕3号",
        "AX-13b",
    ],
)
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    """A word beside a figure, a date, a part of a longer name and half a file number are no document's number."""
    assert numbers(text) == []


def test_numbers_are_terms_of_texts_and_of_questions() -> None:
    """They stand beside the terms that there are without them, once in a question."""
    assert terms("按RFC 9457答复")[-1] == "rfc9457"
    assert {"rfc9457", "rfc", "9457"} <= set(query_terms("RFC 9457与RFC-9457是什么"))
    assert "2024-3-国发" in query_terms("国发〔2024〕3号是什么")


@given(
    st.lists(
        st.sampled_from(["国发", "〔", "2024", "〕", "3", "号", " " * 40, "AX", "-", "年", "第", "/"]), max_size=60
    )
)
def test_any_jumble_of_their_parts_is_read(parts: list[str]) -> None:
    """Whatever is read holds no space, and begins with no CJK character, so that it counts as no place of one."""
    for forms in numbers("".join(parts)):
        assert forms
        assert all(form[0].isascii() and not any(map(str.isspace, form)) for form in forms)
