"""Search terms, article references and ranking."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.terms import has_words, query_terms, terms
from devassist.knowledge.lexical import LexicalIndex, Match, Passage
from devassist.knowledge.references import Article, Titles, article_of_label, chinese_number


def index(*texts: str) -> LexicalIndex:
    return LexicalIndex([Passage("", (), text) for text in texts])


def order(found: list[Match]) -> list[int]:
    return [match.position for match in found]


# -- terms


def test_cjk_runs_become_bigrams_and_words_stay_whole() -> None:
    """Chinese is cut into overlapping pairs, Latin words are lower-cased and lose their plural, numbers stay."""
    assert terms("报销流程，Policies of AX-13：85 ％") == [
        "报销", "销流", "流程", "policy", "of", "ax-13", "ax", "13", "85%",
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


# -- ranking


def test_a_named_article_leads_and_look_alikes_stay_behind() -> None:
    """第十二条 finds article 12, and neither 22 nor 112, whose numbers contain it."""
    texts = ["押金不退。", "逾期按日计费。", "争议由仲裁解决。", "附则。"]
    labels = ["第十一条", "第十二条", "第二十二条", "第一百一十二条"]
    found = LexicalIndex(
        [Passage("规则", (), text, article_of_label(label)) for text, label in zip(texts, labels, strict=True)]
    )
    assert order(found.search("第十二条")) == [1]
    assert order(found.search("规则第22条是什么内容")) == [2]
    assert order(found.search("规则第十二条和押金"))[0] == 1
    assert order(found.search("规则第九十条")) == []


def test_a_question_around_an_indexed_phrase_finds_it() -> None:
    """The words of asking do not hide what is asked for."""
    found = index("报销流程：先提交单据，再由主管审批。", "请假流程：提前两天申请。")
    assert order(found.search("公司的报销流程是什么"))[0] == 0


@pytest.mark.parametrize(
    ("query", "first"), [("13%", 0), ("13 %", 0), ("１３％", 0), ("3%", 1), ("1.3%", 2), ("AX-13", 3), ("ax", 3)]
)
def test_numbers_and_identifiers_are_whole(query: str, first: int) -> None:
    """3% is not 13%, 1.3% is neither, and a model number is found whole or by its parts."""
    found = index("加急件费率为13%。", "普通件费率为3%。", "折扣率1.3%。", "型号 AX-13 的上限为 130 件。")
    assert order(found.search(query))[0] == first


def test_a_single_character_finds_the_words_that_hold_it() -> None:
    """税 finds 增值税 and 税, and not a text without it."""
    assert sorted(order(index("增值税按季申报。", "税。", "运费由买方承担。").search("税"))) == [0, 1]


def test_title_and_headings_count_as_text() -> None:
    """A clause is found by the words of its document's title and of its chapter."""
    found = LexicalIndex([Passage("住院规定", ("第一章 转诊",), "甲。"), Passage("门诊规定", ("第一章 购药",), "甲。")])
    assert order(found.search("门诊购药"))[0] == 1
    assert order(found.search("住院转诊"))[0] == 0


def test_what_is_not_allowed_takes_no_place() -> None:
    """The mask acts before the first k are chosen, for references too."""
    passages = [Passage("规则", (), f"押金{'押金' * (9 - i)}不退。", Article(i)) for i in range(10)]
    found, allowed = LexicalIndex(passages), bytearray([0] * 7 + [1] * 3)
    assert sorted(order(found.search("押金", top_k=3, allowed=allowed))) == [7, 8, 9]
    assert order(found.search("规则第3条", allowed=allowed)) == []


def test_equal_scores_keep_the_order_of_the_index() -> None:
    """Ties are broken by position, so the same question gives the same list on any machine."""
    assert order(index(*["押金不退。"] * 5).search("押金", top_k=3)) == [0, 1, 2]


@given(
    st.lists(st.text(alphabet="押金退费甲乙 ab1", max_size=12), max_size=6),
    st.text(alphabet="押金退费甲 ab1", max_size=8),
)
def test_shares_stay_within_bounds_and_scores_descend(texts: list[str], query: str) -> None:
    """For any library and query: 0 <= share <= 1, positive scores in descending order, no position twice."""
    found = index(*texts).search(query)
    assert all(0.0 <= match.share <= 1.0 and match.score > 0 for match in found)
    assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
    assert len(set(order(found))) == len(found)


def test_the_share_is_full_for_the_passage_itself_and_nought_for_strangers() -> None:
    """A passage covers its own words wholly; a query of other words is not covered at all."""
    found = index("退货期限为七天。", "运费由买方承担。")
    assert found.search("退货期限")[0].share == 1.0
    assert found.search("天气预报") == []


def test_ten_thousand_clauses_are_searched_in_milliseconds() -> None:
    """A question of thirty terms over 10,000 clauses takes under 30 ms (the best of several runs is taken)."""
    words = random.Random(7)
    letters = [chr(0x4E00 + n) for n in range(600)]
    found = index(*("".join(words.choices(letters, k=40)) for _ in range(10_000)))
    question, rounds = "".join(words.choices(letters, k=31)), []
    for _ in range(5):
        began = time.perf_counter()
        found.search(question)
        rounds.append(time.perf_counter() - began)
    assert min(rounds) < 0.030
