"""What holds for every text, tried on generated ones."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from devassist.knowledge.parsing.articles import articles, as_lines, paragraphs
from devassist.knowledge.parsing.document import Block
from devassist.knowledge.parsing.numerals import number_of, numeral
from devassist.knowledge.parsing.parse import parse
from devassist.knowledge.parsing.pieces import PIECE_CHARS, pieces
from devassist.knowledge.parsing.sections import sections

NUMBERS = st.integers(1, 9999)
WORDS = st.text(alphabet="甲乙丙丁的规定、。；：第一二十条章款目录附件（）ab1 \u3000", max_size=24)


def article(number: int, sub: int, text: str, gap: str) -> str:
    return f"第{numeral(number)}条{f'之{numeral(sub)}' if sub else ''}{gap}{text}"


LINES = st.one_of(
    WORDS,
    st.builds(article, st.integers(1, 30), st.integers(0, 2), WORDS, st.sampled_from(["", " ", "\u3000"])),
    st.builds(
        lambda n, unit, text: f"第{numeral(n)}{unit} {text}", st.integers(1, 5), st.sampled_from("编章节"), WORDS
    ),
    st.sampled_from(["目录", "总则", "附则", "序言", "附件1", "附录：表", "（一）甲；", "税率表一"]),
)
BLOCKS = st.lists(
    st.builds(
        lambda kind, text: Block(kind, text, level=2), st.sampled_from(["text", "text", "text", "heading"]), LINES
    ),
    max_size=25,
)


def characters(*texts: str) -> Counter[str]:
    return Counter(char for text in texts for char in text if not char.isspace())


@given(NUMBERS)
def test_numerals_round_trip(value: int) -> None:
    """Every numeral up to 9,999 that we write is read as the number that it is."""
    assert number_of(numeral(value)) == value
    assert number_of(numeral(value).replace("零", "〇")) == value


def test_numerals_as_statutes_write_them() -> None:
    """The forms that differ: 十 alone, 百零, 千零, 百一十."""
    forms = {
        10: "十",
        15: "十五",
        20: "二十",
        105: "一百零五",
        110: "一百一十",
        1010: "一千零一十",
        1260: "一千二百六十",
    }
    assert {value: numeral(value) for value in forms} == forms
    assert number_of("一百二十") == 120
    assert number_of("一 百 零 五") == 105
    assert number_of("１２") == 12


@given(BLOCKS)
def test_articles_lose_no_text(blocks: list[Block]) -> None:
    """Every character that is no white space stands in exactly one of outline, label of an article, text, contents."""
    found = articles(as_lines(blocks))
    taken = characters(
        *found.outline,
        *found.contents,
        *(clause.label for clause in found.clauses if clause.number is not None),
        *(clause.text for clause in found.clauses),
    )
    assert taken == characters(*(block.text for block in blocks))


@given(BLOCKS)
def test_articles_rise_and_their_ids_are_unique(blocks: list[Block]) -> None:
    """No two clauses share an id, and within a stretch numbers only rise."""
    found = articles(as_lines(blocks))
    paths = [clause.path for clause in found.clauses]
    assert len(set(paths)) == len(paths)
    numbers = [
        (c.number.article, c.number.sub) for c in found.clauses if c.number is not None and "annex" not in c.path
    ]
    for earlier, later in pairwise(numbers):
        assert later > earlier or later == (1, 0)


@given(st.lists(st.text(alphabet="甲乙。（一）；\n", min_size=1, max_size=30), max_size=6))
def test_paragraphs_cover_the_article(parts: list[str]) -> None:
    """Paragraphs with their items are the lines of the text, in order, without gaps."""
    text = "\n".join(line for part in parts for line in part.split("\n") if line.strip())
    found = paragraphs(text)
    assert "\n".join(text[p.start : p.end] for p in found) == text
    for paragraph in found:
        assert all(paragraph.start < item.start < item.end <= paragraph.end for item in paragraph.items)


@given(st.lists(st.text(alphabet="ab 甲。.\n", max_size=3000), max_size=6))
def test_pieces_lose_no_text_and_are_bounded(parts: list[str]) -> None:
    """Cutting keeps every character in order, and no piece is more than half again as long as meant."""
    found = pieces(parts)
    assert "".join("".join(found).split()) == "".join("".join(parts).split())
    assert all(len(piece) <= PIECE_CHARS * 3 // 2 + 1 for piece in found)


@given(
    st.lists(
        st.builds(
            lambda kind, text, level: Block(kind, text, level=level, marker="-" if kind == "item" else ""),
            st.sampled_from(["heading", "text", "item", "code"]),
            st.text(alphabet="甲乙ab:：", min_size=1, max_size=70),
            st.integers(1, 4),
        ),
        max_size=20,
    )
)
def test_sections_lose_no_text(blocks: list[Block]) -> None:
    """Every block stands in a text, or in the path of one."""
    found = sections(blocks)
    said = "".join("".join(each.text.split()) for each in found)
    paths = {"".join(heading.split()) for each in found for heading in each.headings}
    for block in blocks:
        text = "".join(block.text.split())
        bare = text.rstrip("：:")
        assert text in said or text in paths or bare in paths, block
    assert len({each.path for each in found}) == len(found)


@given(st.binary(max_size=300), st.sampled_from(["a.md", "a.txt", "a.html", "a.pdf", "a.docx", "a.json", "a"]))
def test_no_bytes_make_parsing_raise(data: bytes, name: str) -> None:
    """Whatever a file holds, there is a document with clauses or a reason."""
    result = parse(data, name)
    assert getattr(result, "clauses", None) or getattr(result, "code", None)
