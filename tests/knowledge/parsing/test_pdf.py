"""PDFs: paragraphs across lines and pages, without what stands on every page."""

from __future__ import annotations

import pytest

from devassist.knowledge.parsing.document import Limits, ParsedDocument, Quarantine
from devassist.knowledge.parsing.parse import parse
from devassist.knowledge.parsing.pdf_layout import joined
from tests.knowledge.parsing import files
from tests.knowledge.parsing.files import Set

LONG = "第二条 " + "借用人应当爱护所借的物品，并在约定的期限内归还，逾期按日计费；" * 12 + "特殊情况另行约定。"
PARAGRAPHS = ["物品借用办法", "第一条 为了管理，制定本办法。", LONG, "第三条 本办法由行政部解释。"]


def read(data: bytes) -> ParsedDocument:
    result = parse(data, "a.pdf")
    assert isinstance(result, ParsedDocument), result
    return result


@pytest.mark.parametrize("rows", [4, 5, 9])
@pytest.mark.parametrize("indent", [True, False])
def test_an_article_goes_on_over_a_page(rows: int, indent: bool) -> None:
    """A page break within an article parts nothing, and neither page number nor running head gets into the text."""
    found = read(files.typeset(PARAGRAPHS, rows=rows, indent=indent, head="行政部 内部资料"))
    assert [clause.label for clause in found.clauses] == ["第一条", "第二条", "第三条"]
    assert found.clauses[1].text == LONG.removeprefix("第二条 ")
    assert found.clauses[0].page == 1
    assert found.clauses[2].page is not None
    assert found.clauses[2].page > 1
    assert any("内部资料" in warning for warning in found.warnings)


def test_numbers_in_the_text_stay() -> None:
    """Only lines at the edge of a page are taken for its number."""
    page = [Set(40, 540, "第一条 数量如下："), Set(40, 300, "12"), Set(40, 282, "第二条 完。"), Set(200, 20, "3")]
    found = read(files.pdf([page, [Set(40, 540, "第三条 又。"), Set(200, 20, "4")]]))
    assert found.clauses[0].text == "数量如下：\n12"
    assert [clause.label for clause in found.clauses] == ["第一条", "第二条", "第三条"]
    assert found.clauses[2].text == "又。"


def test_headings_are_known_by_their_size() -> None:
    """Larger lines are headings: the largest of the first level."""
    page = [
        Set(40, 560, "Guide", 24), Set(40, 500, "Install", 16), Set(40, 470, "Run the program once."),
        Set(40, 430, "Remove", 16), Set(40, 400, "Delete the directory."),
    ]  # fmt: skip
    found = read(files.pdf([page]))
    assert found.title == "Guide"
    assert [(c.headings, c.text) for c in found.clauses] == [
        (("Guide", "Install"), "Run the program once."),
        (("Guide", "Remove"), "Delete the directory."),
    ]


def test_columns_of_a_table_are_cells() -> None:
    """Lines whose parts stand below one another are rows."""
    rows = (("Item", "Rate"), ("express", "13%"), ("normal", "3%"))
    page = [Set(40, 540, "Fees", 20)]
    for number, row in enumerate(rows):
        page += [Set(40, 500 - 18 * number, row[0]), Set(200, 500 - 18 * number, row[1])]
    page.append(Set(40, 400, "All prices are net."))
    found = read(files.pdf([page]))
    assert [(c.kind, c.text) for c in found.clauses] == [
        ("table", "Item: express; Rate: 13%\nItem: normal; Rate: 3%"),
        ("section", "All prices are net."),
    ]


def test_latin_next_to_chinese_keeps_its_text() -> None:
    """The narrow gap that typesetting puts between Chinese and digits is no space of the text."""
    page = [Set(40, 540, "自"), Set(55, 540, "2008"), Set(82, 540, "年起施行，按 KB 计。"), Set(40, 500, "完。")]
    assert "自2008年起施行，按 KB 计。" in read(files.pdf([page])).clauses[0].text


def test_broken_words_are_joined() -> None:
    """Lines join with a space in English, without one in Chinese, and a hyphen that broke a word goes."""
    assert joined(["the first", "and second"]) == "the first and second"
    assert joined(["第一行", "第二行"]) == "第一行第二行"
    assert joined(["exam\x02", "ple"]) == "example"
    assert joined(["X\x02", "Ray"]) == "X-Ray"


@pytest.mark.parametrize(
    ("data", "limits", "code"),
    [
        (files.pdf([[]]), Limits(), "no_text_layer"),
        (files.pdf([[Set(40, 500, "a")]] * 4), Limits(pages=3), "too_large"),
        (b"%PDF-1.5\nnothing of a PDF", Limits(), "malformed"),
        (files.pdf([[Set(40, 500, "text")]])[:300], Limits(), "malformed"),
    ],
)
def test_refusals(data: bytes, limits: Limits, code: str) -> None:
    """A PDF without text, with too many pages or in pieces is refused by name."""
    result = parse(data, "a.pdf", limits)
    assert isinstance(result, Quarantine)
    assert result.code == code
