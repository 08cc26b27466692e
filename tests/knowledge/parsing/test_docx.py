"""Word documents: order of blocks, headings, printed numbers, tables, tracked changes, notes."""

from __future__ import annotations

from typing import Any

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from devassist.knowledge.parsing.document import ParsedDocument, Quarantine
from devassist.knowledge.parsing.parse import parse
from tests.knowledge.parsing import files


def read(document: Any) -> ParsedDocument:
    result = parse(files.saved(document), "a.docx")
    assert isinstance(result, ParsedDocument), result
    return result


def numbered(document: Any, form: str, text: str) -> str:
    """A list definition of one level; returns its id."""
    numbering = document.part.numbering_part.element
    number = len(numbering) + 100
    numbering.insert(0, parse_xml(
        f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{number}"><w:lvl w:ilvl="0"><w:start w:val="1"/>'
        f'<w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl></w:abstractNum>'
    ))  # fmt: skip
    numbering.append(parse_xml(f'<w:num {nsdecls("w")} w:numId="{number}"><w:abstractNumId w:val="{number}"/></w:num>'))
    return str(number)


def put_in_list(paragraph: Any, number: str, level: int = 0) -> None:
    paragraph._p.get_or_add_pPr().append(
        parse_xml(f'<w:numPr {nsdecls("w")}><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')
    )


def test_numbers_that_word_prints_are_read() -> None:
    """第一条 may be the automatic number of a list: it opens an article although no run of text holds it."""
    document = docx.Document()
    document.add_heading("借用办法", 1)
    number = numbered(document, "chineseCountingThousand", "第%1条")
    for n in range(12):
        put_in_list(document.add_paragraph(f"第{n}项内容。"), number)
    found = read(document)
    assert [c.label for c in found.clauses][9:] == ["第十条", "第十一条", "第十二条"]
    assert found.clauses[9].text == "第9项内容。"


def test_lists_keep_their_levels_and_marks() -> None:
    """Bullets and numbers of nested lists carry their depth."""
    document = docx.Document()
    document.add_heading("规则", 1)
    document.add_paragraph("借用", style="List Number")
    document.add_paragraph("相机：最多 2 台", style="List Bullet 2")
    document.add_paragraph("归还", style="List Number")
    found = read(document)
    assert [(c.headings, c.text) for c in found.clauses] == [
        (("规则", "借用"), "- 相机：最多 2 台"),
        (("规则",), "2. 归还"),
    ]


def test_tracked_changes_and_controls() -> None:
    """Inserted text and content controls are read, deleted text is not."""
    document = docx.Document()
    document.add_heading("T", 1)
    paragraph = document.add_paragraph("Keep ")
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    paragraph._p.append(parse_xml(f'<w:ins {nsdecls("w")} w:id="1" w:author="a">{run.format("added ")}</w:ins>'))
    paragraph._p.append(
        parse_xml(f'<w:del {nsdecls("w")} w:id="2" w:author="a"><w:r><w:delText>removed</w:delText></w:r></w:del>')
    )
    control = f"<w:sdt {nsdecls('w')}><w:sdtContent><w:p>{run.format('controlled')}</w:p></w:sdtContent></w:sdt>"
    document.element.body.insert(2, parse_xml(control))
    assert read(document).clauses[0].text == "Keep added\n\ncontrolled"


def test_declared_header_rows_and_nested_order() -> None:
    """A table stands between the paragraphs around it; a row declared as header names the values below."""
    document = docx.Document()
    document.add_heading("T", 1)
    document.add_paragraph("before")
    table = document.add_table(2, 2)
    for row, texts in enumerate((("Name", "Place"), ("Ann", "Here"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.rows[0]._tr.get_or_add_trPr().append(parse_xml(f"<w:tblHeader {nsdecls('w')}/>"))
    document.add_paragraph("after")
    assert [(c.kind, c.text) for c in read(document).clauses] == [
        ("section", "before"),
        ("table", "Name: Ann; Place: Here"),
        ("section", "after"),
    ]


def test_the_same_law_in_every_format() -> None:
    """Markdown, HTML, DOCX and PDF of one text give the same articles, headings, history and dates."""
    sources = {
        "law.md": files.law_markdown().encode(),
        "law.txt": "\n".join([files.LAW_TITLE, *files.LAW_LINES]).encode(),
        "law.html": files.law_html(),
        "law.docx": files.law_docx(),
        "law.pdf": files.typeset([files.LAW_TITLE, *files.LAW_LINES], rows=5, indent=True, head="云泽省法规汇编"),
    }
    found = {name: parse(data, name) for name, data in sources.items()}
    whole = {
        name: (
            each.title, each.kind, each.issuer, each.promulgated_on, each.effective_date, each.effective_basis,
            each.history, [(c.label, c.number, c.headings, c.text) for c in each.clauses],
        )
        for name, each in found.items() if isinstance(each, ParsedDocument)
    }  # fmt: skip
    assert set(whole) == set(sources)
    for name in sources:
        assert whole[name] == whole["law.md"], name
    assert len(whole["law.md"][-1]) == 7


def test_an_entity_is_refused() -> None:
    """A part that declares a document type or entities, in any encoding, is refused before it is read."""
    original = files.law_docx()
    bad = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'
    for content in (bad.encode(), b"\xff\xfe" + bad.encode("utf-16-le")):
        result = parse(files.changed(original, "word/document.xml", content), "a.docx")
        assert isinstance(result, Quarantine)
        assert result.code == "external_entity"
