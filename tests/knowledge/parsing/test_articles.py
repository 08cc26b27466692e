"""Lines of legal texts become articles, with nothing lost and nothing opened that is no article."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from devassist.knowledge.parsing.articles import Articles, articles, as_lines, paragraphs, script_of
from devassist.knowledge.parsing.document import Block, Cell
from devassist.ports.knowledge_store import ClauseNumber


def read(*lines: str, script: str = "zh") -> Articles:
    blocks = [Block("text", line) for line in lines]
    return articles(as_lines(blocks), "zh" if script == "zh" else "en")


def labels(found: Articles) -> list[str]:
    return [clause.label for clause in found.clauses if clause.number is not None]


def test_an_inserted_article_has_a_number_of_its_own() -> None:
    """第X条之Y is read as article X, sub Y, stands after X and before X+1, and its id says so."""
    found = read("第一百二十条 甲。", "第一百二十条之一 乙。", "第一百二十条之二 丙。", "第一百二十一条 丁。")
    assert [clause.number for clause in found.clauses] == [
        ClauseNumber(120),
        ClauseNumber(120, 1),
        ClauseNumber(120, 2),
        ClauseNumber(121),
    ]
    assert [clause.path for clause in found.clauses] == ["art-120", "art-120-1", "art-120-2", "art-121"]
    assert labels(found)[1] == "第一百二十条之一"


@pytest.mark.parametrize(
    "line",
    [
        "依照第五条规定的，应当登记。",
        "第五条规定的单位应当登记。",
        "第五条第二款的期限为十日。",
        "第五条、第六条所列行为不受处罚。",
        "第五条 的规定不适用于未成年人。",
    ],
)
def test_a_paragraph_that_speaks_of_an_article_opens_none(line: str) -> None:
    """第五条 within a paragraph, or at its beginning as a reference, is text of the article before it."""
    found = read("第四条 甲。", line, "第五条 乙。", "第六条 丙。")
    assert labels(found) == ["第四条", "第五条", "第六条"]
    assert found.clauses[0].text == f"甲。\n{line}"


def test_an_article_out_of_order_is_text_and_is_said() -> None:
    """A number that falls back stays in the article before it, with a warning, and hides none of those that follow."""
    found = read("第一条 甲。", "第二条 乙。", "第九条 如上。", "第三条 丙。", "第四条 丁。")
    assert labels(found) == ["第一条", "第二条", "第三条", "第四条"]
    assert found.clauses[1].text == "乙。\n第九条 如上。"
    assert "第九条" in found.warnings[0]


def test_articles_without_a_space_after_the_number() -> None:
    """Some sources print the text right after the number."""
    found = read("第一条为了管理，制定本办法。", "第二条所有单位应当遵守。", "第三条本办法自公布之日起施行。")
    assert labels(found) == ["第一条", "第二条", "第三条"]
    assert found.clauses[1].text == "所有单位应当遵守。"


def test_headings_make_a_path() -> None:
    """Part, chapter and section stack up; a new chapter ends the section; spread-out titles close up."""
    found = read(
        "第一编 通则", "第一章 总　则", "第一条 甲。", "第二章 人员", "第一节 录用", "第二条 乙。", "第三章",
        "第三条 丙。",
    )  # fmt: skip
    assert [clause.headings for clause in found.clauses] == [
        ("第一编 通则", "第一章 总则"),
        ("第一编 通则", "第二章 人员", "第一节 录用"),
        ("第一编 通则", "第三章"),
    ]


def test_a_table_of_contents_makes_no_second_chapter() -> None:
    """Headings that a table of contents lists, with or without its title and page numbers, are no chapters."""
    body = ("第一章 总则", "第一条 甲。", "第二章 附则", "第二条 乙。")
    for contents in (
        ("目　录", "第一章 总则", "第二章 附则"),
        ("第一章 总则", "第二章 附则"),
        ("目录", "第一章 总则……1", "第二章 附则……12"),
    ):
        found = read(*contents, *body)
        assert found.outline == ("第一章 总则", "第二章 附则")
        assert [clause.headings for clause in found.clauses] == [("第一章 总则",), ("第二章 附则",)]
        assert len(found.contents) == len(contents)


def test_equal_headings_in_two_parts_are_both_kept() -> None:
    """一般规定 is a chapter of several parts; that it stands again later makes no table of contents of the first."""
    found = read("第一编 物权", "第一章 一般规定", "第一条 甲。", "第二编 合同", "第一章 一般规定", "第二条 乙。")
    assert found.contents == ()
    assert [clause.headings[0] for clause in found.clauses] == ["第一编 物权", "第二编 合同"]


def test_a_broken_heading_is_one() -> None:
    """The second line of a chapter's name belongs to it."""
    found = read("第一条 甲。", "第二章 走失、被盗", "物品的处理", "第二条 乙。")
    assert found.clauses[1].headings == ("第二章 走失、被盗物品的处理",)


def test_paragraphs_and_items_are_counted() -> None:
    """Items belong to the paragraph above them; a line after them begins the next paragraph. Spans quote the text."""
    text = "有下列情形的：\n（一）甲；\n（二）乙。\n前款第二项不适用。\n另有规定的除外。"
    found = paragraphs(text)
    assert [(p.paragraph, len(p.items)) for p in found] == [(1, 2), (2, 0), (3, 0)]
    assert text[found[1].start : found[1].end] == "前款第二项不适用。"
    item = found[0].items[1]
    assert text[item.start : item.end] == "（二）乙。"
    assert text[found[0].start : found[0].end].endswith("（二）乙。")


def test_preamble_annex_and_tables_are_clauses_of_their_own() -> None:
    """What stands before the first article, after the last as annex, and tables within articles keep their places."""
    cells = (Cell("级别", 0, 0), Cell("税率", 0, 1), Cell("一", 1, 0), Cell("3%", 1, 1))
    blocks = [
        Block("heading", "序言", 2), Block("text", "为了纪念。"), Block("text", "第一条 税率如下："),
        Block("table", "", cells=cells), Block("text", "第二条 按季申报。"), Block("text", "附件1：表格"),
        Block("text", "第一条 填表说明。"), Block("text", "第二条 用黑笔。"),
    ]  # fmt: skip
    found = articles(as_lines(blocks))
    assert [(c.kind, c.path, c.label) for c in found.clauses] == [
        ("preamble", "preamble-1", "序言"),
        ("article", "art-1", "第一条"),
        ("table", "art-1.table", "第一条"),
        ("article", "art-2", "第二条"),
        ("article", "annex-1.art-1", "第一条"),
        ("article", "annex-1.art-2", "第二条"),
    ]
    assert found.clauses[2].text == "级别: 一; 税率: 3%"
    assert found.clauses[4].headings == ("附件1：表格",)


def test_english_articles_and_sections() -> None:
    """Article 5 and Section 2.1 are numbers too; a sentence about an article opens none."""
    lines = ("Article 1 Scope", "It applies.", "Article 2. Fees", "Article 1 of this Act applies.", "Article 3 End")
    found = read(*lines, script="en")
    assert [(c.label, c.path, c.text) for c in found.clauses] == [
        ("Article 1", "art-1", "Scope\nIt applies."),
        ("Article 2", "art-2", "Fees\nArticle 1 of this Act applies."),
        ("Article 3", "art-3", "End"),
    ]
    numbered = read("Section 2.1 Loans", "Section 2.2 Returns", script="en")
    assert [c.number for c in numbered.clauses] == [ClauseNumber(2, 1), ClauseNumber(2, 2)]
    assert [c.path for c in numbered.clauses] == ["sec-2.1", "sec-2.2"]


def test_a_text_without_articles_is_no_legal_text() -> None:
    """One line that begins like an article does not make a law of a text."""
    found: Sequence[str] = ("第一条 只有一条。", "其余都是说明。")
    assert script_of([Block("text", each) for each in found]) is None
