"""Cases of group D that are about reading files."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from devassist.knowledge.parsing.document import ParsedDocument, Quarantine
from devassist.knowledge.parsing.parse import parse
from devassist.knowledge.parsing.process import ParserProcess

FILE = Path(__file__).parents[2] / "cases" / "group_d.jsonl"


@cache
def case(name: str) -> Any:
    """The input of a case."""
    rows = (json.loads(line) for line in FILE.read_text("utf-8").splitlines())
    return next(row["input"] for row in rows if row["id"] == name)


def read(given: dict[str, str]) -> ParsedDocument | Quarantine:
    data = base64.b64decode(given["b64"]) if "b64" in given else given["text"].encode()
    return parse(data, given["filename"])


def document(given: dict[str, str]) -> ParsedDocument:
    result = read(given)
    assert isinstance(result, ParsedDocument), result
    return result


def test_d01_gb18030_that_gb2312_cannot_decode() -> None:
    """The text is whole, the charset recorded, and no character was replaced."""
    found = document(case("D01"))
    assert (found.title, found.charset) == ("库存表", "gb18030")
    assert [clause.text for clause in found.clauses] == ["朱镕先生负责甲仓，编号㐂。"]
    assert found.clauses[0].headings == ("库存表",)


def test_d02_byte_order_marks() -> None:
    """A mark before # leaves the heading a heading; UTF-16 gives two lines without NULs; no mark gets anywhere."""
    first, second = (document(each) for each in case("D02")["files"])
    assert (first.title, first.clauses[0].headings) == ("目录", ("目录",))
    assert len(second.clauses[0].text.split("\n")) == 2
    for found in (first, second):
        assert "\ufeff" not in repr(found)
        assert "\0" not in "".join(clause.text for clause in found.clauses)


async def test_d04_a_scan_is_quarantined() -> None:
    """A PDF without a text layer is refused with advice, by the child as in this process."""
    given = case("D04")
    async with ParserProcess() as parser:
        result = await parser.parse(base64.b64decode(given["b64"]), given["filename"])
    assert result == read(given)
    assert isinstance(result, Quarantine)
    assert result.code == "no_text_layer"
    assert "OCR" in result.detail


def test_d06_a_table_between_two_paragraphs() -> None:
    """Paragraph, table, paragraph; the table has 3 x 2 cells; each row holds its values with their names."""
    found = document(case("D06"))
    assert [(c.kind, c.text) for c in found.clauses] == [
        ("paragraph", "费率说明"),
        ("table", "项目: 普通件; 费率: 3%\n项目: 加急件; 费率: 13%"),
        ("paragraph", "表后说明"),
    ]
    cells = {(cell.row, cell.column): cell.text for cell in found.clauses[1].cells}
    assert len(cells) == 6
    assert cells[2, 1] == "13%"


def test_d07_merged_cells() -> None:
    """A merged cell is one cell that says how far it reaches, and moves no other out of its column."""
    found = document(case("D07"))
    cells = {cell.text: cell for cell in found.clauses[0].cells}
    assert len(cells) == len(found.clauses[0].cells) == 7
    assert (cells["总表"].columns, cells["A2"].rows) == (2, 2)
    assert [cells[name].column for name in ("C1", "C2", "C3")] == [2, 2, 2]
    assert found.clauses[0].text.split("\n") == [
        "总表 (colspan=2) | C1",
        "A2 (rowspan=2) | B2 | C2",
        "A2 (rowspan=2) | B3 | C3",
    ]


def test_d30_nested_lists_keep_their_levels() -> None:
    """A line of an outline carries the path down to it, in order, and no chunk repeats the outline."""
    found = document(case("D30"))
    assert [(c.headings, c.text) for c in found.clauses] == [
        (("规则", "借用", "设备"), "- 相机：最多 2 台\n- 灯：最多 5 台"),
        (("规则", "借用"), "- 书：最多 9 本"),
        (("规则",), "2. 归还\n   7 天内"),
    ]
