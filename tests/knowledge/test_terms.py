"""Search terms, article references and ranking."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.terms import has_words, query_terms, terms
from devassist.knowledge.references import Article, Titles, article_of_label, chinese_number


def test_cjk_runs_become_bigrams_and_words_stay_whole() -> None:
    """Chinese is cut into overlapping pairs, Latin words are lower-cased and lose their plural, numbers stay."""
    assert terms("报销流程，Policies of AX-13：85 ％") == [
        "报销", "销流", "流程", "policy", "of", "ax-13", "ax", "13", "85%", "ax13",
    ]  # fmt: skip
    assert terms("第1.3条") == ["第", "1.3", "条"]


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("退休人员的报销比例是多少？", ["退休", "休人", "人员", "报销", "销比", "比例"]),
        ("请问，剖宫产能报多少钱？", ["剖宫", "宫产", "产能", "能报"]),
        ("目的地怎么走", ["目的", "的地"]),
        ("网吧能不能收未成年人？", ["网吧", "收未", "未成", "成年", "年人"]),
        ("What is the capital of France?", ["capital", "france"]),
        ("税", ["税"]),
        ("是多少？", []),
    ],
)
def test_a_question_loses_the_words_that_only_ask(question: str, kept: list[str]) -> None:
    """The stop list is fixed, spares words that merely contain such a character, and keeps a lone character."""
    assert query_terms(question) == kept


@given(st.text())
def test_any_text_has_terms_without_failing(text: str) -> None:
    """Terms are never blank, and those of a query (lone characters aside) are among those of the text."""
    assert all(term.strip() for term in terms(text) + query_terms(text))
    assert {term for term in query_terms(text) if len(term) > 1} <= set(terms(text))


@pytest.mark.parametrize(
    ("text", "words"), [("", False), (" ？\u3000", False), ('"((*', False), ("税", True), ("7", True)]
)
def test_blank_means_without_letter_or_digit(text: str, words: bool) -> None:
    """Spaces and punctuation of any script are no query."""
    assert has_words(text) is words


# -- references


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("十六", 16), ("二十", 20), ("一百零五", 105), ("一百二十", 120), ("一千二百六十", 1260), ("两百", 200),
        ("〇", 0), ("一六", 16), ("16", 16), ("十六x", None),
    ],
)  # fmt: skip
def test_chinese_numerals(text: str, value: int | None) -> None:
    """Numerals of statutes are read, and anything else is None."""
    assert chinese_number(text) == value


def test_labels_give_their_article_number() -> None:
    """A printed label is an article with its inserted number, or no article."""
    assert article_of_label("第一百二十条之一") == Article(120, 1)
    assert article_of_label("第16条") == Article(16)
    assert article_of_label("FAQ") is None


TITLES = Titles(
    [
        "中华人民共和国公司法",
        "中华人民共和国劳动合同法",
        "中华人民共和国民法典 合同编",
        "云泽省（示例）门诊慢特病管理办法",
    ]
)


@pytest.mark.parametrize(
    ("query", "articles", "title", "rest"),
    [
        ("公司法第十六条", [16], "公司法", True),
        ("《中华人民共和国公司法》第16条第二款和第17条的内容", [16, 17], "公司法", True),
        ("公司法 16 条怎么规定的", [16], "公司法", True),
        ("民法典第五百条", [500], "合同编", True),
        ("请问门诊慢特病管理办法第七条", [7], "慢特病", True),
        ("公司法第十六条的担保决议", [16], "公司法", False),
        ("合同法第三条", [3], None, False),
        ("第十二条", [12], None, True),
        ("三条理由", [], None, False),
    ],
)
def test_references_are_read_with_their_document(
    query: str, articles: list[int], title: str | None, rest: bool
) -> None:
    """The parser finds articles, whose they are, and whether the query asks for nothing else."""
    parsed = TITLES.parse(query)
    assert [reference.article.article for reference in parsed.references] == articles
    for reference in parsed.references:
        assert all(title in found for found in reference.titles) if title else not reference.titles
    assert (not [term for term in query_terms(parsed.rest) if len(term) > 1]) is rest


def test_a_pasted_contract_is_not_a_list_of_references() -> None:
    """A text of thousands of references is read quickly and only its first ones count."""
    began = time.perf_counter()
    assert len(TITLES.parse("公司法第一条。" * 5000).references) == 8
    assert time.perf_counter() - began < 0.5
