"""Real statutes: every file of the bundle against the facts that were computed of it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from devassist.knowledge.parsing.articles import as_lines
from devassist.knowledge.parsing.document import ClauseDraft, ParsedDocument
from devassist.knowledge.parsing.markdown import read_markdown
from devassist.knowledge.parsing.parse import parse
from tests import kb

LAWS = kb.KB / "laws"
LABOUR = "社会法__劳动合同法(2012-12-28).md"
VARIANTS = (
    "law.html", "law_gbk.html", "laodonghetongfa.docx", "laodonghetongfa.pdf", "charset/laodonghetongfa.gb18030.md",
    "charset/laodonghetongfa.utf8bom.md", "charset/laodonghetongfa.utf16.md",
)  # fmt: skip

MORE_KEPT = {"民法商法/公司法": 29}  # the bundle counts 24

pytestmark = pytest.mark.skipif(not LAWS.is_dir(), reason=kb.NO_BUNDLE)


@cache
def facts(name: str) -> list[dict[str, Any]]:
    return json.loads((LAWS / name).read_text("utf-8"))


@cache
def law(name: str) -> ParsedDocument:
    result = parse((LAWS / name).read_bytes(), name)
    assert isinstance(result, ParsedDocument), result
    return result


def articles(found: ParsedDocument) -> list[ClauseDraft]:
    return [clause for clause in found.clauses if clause.number is not None]


def file_of(lineage: str, version: str) -> str:
    rows = facts("MANIFEST.json")
    return next(row["file"] for row in rows if row["lineage"] == lineage and row["version_date"] == version)


def test_titles_articles_and_histories() -> None:
    """Each of the 35 files has its title, its number of articles, and the days of its history; a day on which it only
    took effect is no entry of the history."""
    for row in facts("MANIFEST.json"):
        found = law(row["file"])
        assert found.title == row["title"]
        assert len(articles(found)) == row["articles"], row["file"]
        days = [entry["date"] for entry in row["history"] if entry["event"] != "施行"]
        assert [entry.date for entry in found.history] == days, row["file"]
        assert found.promulgated_on == row["version_date"], row["file"]
        assert found.kind in ("law", "regulation")
        assert found.issuer in ("全国人民代表大会", "全国人民代表大会常务委员会", "国务院")


def test_nothing_of_a_law_is_lost() -> None:
    """Every line below the header stands in a text with its label, in a path of headings, or is the title again."""
    for row in facts("MANIFEST.json"):
        found = law(row["file"])
        said = squeezed("".join(clause.label + clause.text for clause in found.clauses))
        headings = {squeezed(heading) for clause in found.clauses for heading in clause.headings}
        blocks = read_markdown((LAWS / row["file"]).read_bytes()).blocks
        start = next(i for i, block in enumerate(blocks) if block.kind == "info_end") + 1
        for line in as_lines(blocks[start:]):
            text = squeezed(line.text)
            assert text in said or text in headings or text == squeezed(row["title"]), text


def test_places_of_articles_point_into_the_file() -> None:
    """``start`` and ``end`` of every article cut it out of the decoded file."""
    source = (LAWS / LABOUR).read_text("utf-8")
    for clause in articles(law(LABOUR)):
        cut = source[clause.start : clause.end]
        assert "".join(cut.split()) == "".join((clause.label + clause.text).split())


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_gives_the_same_98_articles(name: str) -> None:
    """HTML (also GB18030 that says gb2312), DOCX, PDF and other encodings give the same labels, headings and texts,
    paragraph for paragraph, and the same dates."""
    found, meant = law(name), law(LABOUR)
    assert len(articles(found)) == 98
    for mine, theirs in zip(articles(found), articles(meant), strict=True):
        assert (mine.label, mine.number, mine.headings) == (theirs.label, theirs.number, theirs.headings)
        assert mine.text == theirs.text
    assert (found.title, found.history, found.effective_date) == (meant.title, meant.history, meant.effective_date)
    assert found.effective_basis == "assumed_promulgation"


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_what_revisions_keep() -> None:
    """Between two revisions as many articles keep their text, white space aside, and as many of them their number, as
    was computed; where more are found, each stands word for word in both files."""
    for row in facts("REVISION_FACTS.json"):
        names = [file_of(row["lineage"], row[key]) for key in ("from", "to")]
        old, new = ({squeezed(clause.text): clause.number for clause in articles(law(name))} for name in names)
        kept = old.keys() & new.keys()
        if row["lineage"] in MORE_KEPT:
            sources = [squeezed((LAWS / name).read_text("utf-8")) for name in names]
            assert all(text in source for text in kept for source in sources)
        assert len(kept) == MORE_KEPT.get(row["lineage"], row["text_kept_any_number"]), row["lineage"]
        assert sum(old[text] == new[text] for text in kept) == row["same_number_same_text"], row["lineage"]
        assert len({clause.number for clause in articles(law(names[1]))}) == row["articles_to"]


def test_dates_of_the_traps() -> None:
    """A law of December that holds from July states it; an amended one whose text names an older day, or the day of
    its publication, is assumed to hold from its promulgation."""
    dates = {
        "民法商法__公司法(2023-12-29).md": ("2023-12-29", "2024-07-01", "stated"),
        "社会法__劳动合同法(2012-12-28).md": ("2012-12-28", "2012-12-28", "assumed_promulgation"),
        "行政法规__全国年节及纪念日放假办法(2024-11-10).md": ("2024-11-10", "2024-11-10", "assumed_promulgation"),
        "行政法规__全国年节及纪念日放假办法(2013-12-11).md": ("2013-12-11", "2013-12-11", "assumed_promulgation"),
        "行政法__反间谍法(2014-11-01).md": ("2014-11-01", "2014-11-01", "assumed_promulgation"),
        "行政法__反间谍法(2023-04-26).md": ("2023-04-26", "2023-07-01", "stated"),
    }
    for name, expected in dates.items():
        found = law(name)
        assert (found.promulgated_on, found.effective_date, found.effective_basis) == expected, name
    assert any("2007-12-14" in each for each in law("行政法规__全国年节及纪念日放假办法(2013-12-11).md").warnings)
    assert any("2008-01-01" in each for each in law(LABOUR).warnings)
