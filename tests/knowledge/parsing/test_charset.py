"""Bytes become the right text, or none: never mojibake."""

from __future__ import annotations

import pytest

from devassist.knowledge.parsing.charset import decode
from devassist.knowledge.parsing.document import ParsedDocument, Quarantine, Refused
from devassist.knowledge.parsing.parse import parse
from tests.knowledge.parsing import files

SIMPLIFIED = "第一条 为了规范档案查阅，保护公民的权利，制定本办法。"
TRADITIONAL = "第一條 為了規範檔案查閱，保護公民的權利，制定本辦法。我們的資料庫。"


@pytest.mark.parametrize(
    ("data", "text", "charset"),
    [
        (SIMPLIFIED.encode(), SIMPLIFIED, "utf-8"),
        (b"\xef\xbb\xbf" + SIMPLIFIED.encode(), SIMPLIFIED, "utf-8"),
        (b"\xff\xfe" + SIMPLIFIED.encode("utf-16-le"), SIMPLIFIED, "utf-16-le"),
        (b"\xfe\xff" + SIMPLIFIED.encode("utf-16-be"), SIMPLIFIED, "utf-16-be"),
        (b"\xff\xfe\0\0" + SIMPLIFIED.encode("utf-32-le"), SIMPLIFIED, "utf-32-le"),
        (SIMPLIFIED.encode("gb2312"), SIMPLIFIED, "gb18030"),
        ("编号㐂，库房在一楼。".encode("gb18030"), "编号㐂，库房在一楼。", "gb18030"),
        ("押金不退。逾期按日计费。".encode("gbk"), "押金不退。逾期按日计费。", "gb18030"),
        ("押金不退".encode("gbk"), "押金不退", "gb18030"),
        (TRADITIONAL.encode("big5"), TRADITIONAL, "big5hkscs"),
        ("A “naïve” café – that is all of it.".encode("cp1252"), "A “naïve” café – that is all of it.", "cp1252"),
    ],
)
def test_the_charset_is_found_and_said(data: bytes, text: str, charset: str) -> None:
    """Marks, UTF-8, GB encodings (read as GB18030 even when a few characters are all there is), Big5 and Western text
    are told apart, and what was used is recorded."""
    assert decode(data) == (text, charset)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (SIMPLIFIED.encode() + b"\xff" + SIMPLIFIED.encode(), "UTF-8 except for the byte at 79"),
        (b"text\0text", "NUL"),
        ("\0".join("abc").encode("utf-16"), "NUL"),
        (b"\xff\xfe" + SIMPLIFIED.encode("utf-16-le")[:-1], "fits no character"),
        (bytes(range(128, 256)) * 3, "known encoding|not surely|fits no character|nobody writes"),
        ("Довольно длинный русский текст, в котором есть слова.".encode("cp1251"), "not surely"),
    ],
)
def test_what_cannot_be_read_surely_is_refused(data: bytes, why: str) -> None:
    """A damaged UTF-8 file is not read in an encoding in which its bytes happen to mean something; NULs, torn
    characters and unsure guesses are refused with what would help."""
    with pytest.raises(Refused, match=why) as refused:
        decode(data)
    assert refused.value.quarantine.code == "undecodable"
    assert "UTF-8" in refused.value.quarantine.detail


def test_the_declared_charset_is_not_trusted() -> None:
    """A page that says gb2312 is read as what it is, GB18030 or UTF-8."""
    found = [parse(files.law_html(charset), "page.html") for charset in ("utf-8", "gb18030")]
    assert [each.charset for each in found if isinstance(each, ParsedDocument)] == ["utf-8", "gb18030"]
    assert isinstance(found[0], ParsedDocument)
    assert isinstance(found[1], ParsedDocument)
    assert found[0].clauses == found[1].clauses


def test_unseen_characters_do_not_part_equal_texts() -> None:
    """A byte order mark, zero-width spaces and full-width blanks at line ends change no clause."""
    plain = files.law_markdown()
    spoiled = "\ufeff" + plain.replace("第三条 查", "\u200b第三条 查").replace("。\n", "。\u3000\n").replace(
        "\n", "\r\n"
    )
    first, second = parse(plain.encode(), "a.md"), parse(spoiled.encode(), "a.md")
    assert isinstance(first, ParsedDocument)
    assert isinstance(second, ParsedDocument)
    texts = [[(c.label, c.headings, c.text) for c in each.clauses] for each in (first, second)]
    assert texts[0] == texts[1]
    assert not any(mark in repr(texts) for mark in ("\ufeff", "\u200b", "\\u3000"))


def test_a_refused_file_is_a_quarantine() -> None:
    """``parse`` gives the reason instead of raising."""
    result = parse(b"\xc4\xe3\xff\xff\xff\xff", "x.txt")
    assert isinstance(result, Quarantine)
    assert result.code == "undecodable"
