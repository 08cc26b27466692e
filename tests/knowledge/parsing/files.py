"""Files that tests make themselves: small documents of every format, with own texts."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import docx

LAW_TITLE = "云泽省档案查阅条例"
LAW_LINES = (
    "2019年3月1日 云泽省第五届人民代表大会常务委员会第七次会议通过",
    "2023年5月20日 云泽省第六届人民代表大会常务委员会第三次会议《关于修改〈云泽省档案查阅条例〉的决定》修正",
    "第一章 总则",
    "第一条 为了方便查阅档案，制定本条例。",
    "第二条 本条例所称档案，包括：",
    "（一）纸质档案；",
    "（二）电子档案。",
    "前款所称电子档案的范围由省档案馆公布。",
    "第二章 查阅",
    "第三条 查阅人应当出示证件。",
    "第三条之一 未成年人由监护人陪同查阅。",
    "第四条 依照第五条规定收取的费用，应当开具票据。",
    "第五条 每页收费1元。",
    "第三章 附则",
    "第六条 本条例自2019年6月1日起施行。",
)
"""An invented law: two chapters and an ending, six articles and one inserted, amended once."""


def law_markdown() -> str:
    lines = [f"## {line}" if line.startswith("第") and "章" in line[:4] else line for line in LAW_LINES]
    head, body = lines[:2], lines[2:]
    return "\n\n".join([f"# {LAW_TITLE}", *head, "<!-- INFO END -->", *body]) + "\n"


def law_html(charset: str = "utf-8") -> bytes:
    parts = [f"<h2>{line}</h2>" if "章" in line[:4] else f"<p>{line.replace('<', '&lt;')}</p>" for line in LAW_LINES]
    page = (
        f'<html><head><meta charset="gb2312"><title>x</title></head><body><div class="nav">首页 登录</div>'
        f"<h1>{LAW_TITLE}</h1>{''.join(parts)}<div class='footer'>版权所有</div></body></html>"
    )
    return page.encode(charset)


def law_docx() -> bytes:
    document = docx.Document()
    document.add_heading(LAW_TITLE, 1)
    for line in LAW_LINES:
        if "章" in line[:4]:
            document.add_heading(line, 2)
        else:
            document.add_paragraph(line)
    return saved(document)


def saved(document: docx.document.Document) -> bytes:
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def zipped(entries: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return target.getvalue()


def changed(archive: bytes, name: str, content: bytes) -> bytes:
    """A copy of a ZIP archive in which one entry has other content."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        entries = {each: source.read(each) for each in source.namelist()}
    return zipped({**entries, name: content})


class Set(NamedTuple):
    """A text set on a page: points from the lower left corner."""

    x: float
    y: float
    text: str
    size: float = 12


WIDTH, HEIGHT = 400, 600
_MARGIN = 40


def pdf(pages: Sequence[Sequence[Set]]) -> bytes:
    """A PDF whose Chinese characters are as wide as the font is high, and whose Latin ones are half as wide."""
    objects: list[bytes] = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"",
        b"<</Type/Font/Subtype/Type0/BaseFont/STSong/Encoding/UniGB-UTF16-H/DescendantFonts[4 0 R]>>",
        b"<</Type/Font/Subtype/CIDFontType0/BaseFont/STSong"
        b"/CIDSystemInfo<</Registry(Adobe)/Ordering(GB1)/Supplement 4>>/FontDescriptor 5 0 R/DW 1000/W[1 95 500]>>",
        b"<</Type/FontDescriptor/FontName/STSong/Flags 4/FontBBox[0 -200 1000 900]/ItalicAngle 0/Ascent 880"
        b"/Descent -120/CapHeight 700/StemV 80>>",
    ]
    kids: list[int] = []
    for page in pages:
        content = "\n".join(
            f"BT /F1 {each.size} Tf 1 0 0 1 {each.x} {each.y} Tm <{each.text.encode('utf-16-be').hex()}> Tj ET"
            for each in page
        )
        stream = zlib.compress(content.encode())
        objects.append(b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
            % (WIDTH, HEIGHT, len(objects))
        )
        kids.append(len(objects))
    objects[1] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (b" ".join(b"%d 0 R" % kid for kid in kids), len(kids))
    return _assembled(objects)


def _assembled(objects: Sequence[bytes]) -> bytes:
    out = b"%PDF-1.5\n"
    places: list[int] = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    return out + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)


def typeset(
    paragraphs: Sequence[str], *, rows: int = 24, indent: bool = False, head: str = "", size: float = 12
) -> bytes:
    """Paragraphs set in justified lines, ``rows`` a page, with page numbers and, where given, a running head."""
    lines: list[tuple[float, str]] = []
    for paragraph in paragraphs:
        rest = paragraph
        left = 2 * size if indent else 0.0
        while rest:
            fits = _fitting(rest, WIDTH - 2 * _MARGIN - left, size)
            lines.append((_MARGIN + left, rest[:fits]))
            rest, left = rest[fits:], 0.0
    pages: list[list[Set]] = []
    for start in range(0, len(lines), rows):
        page = [Set(x, 540 - 18 * row, text, size) for row, (x, text) in enumerate(lines[start : start + rows])]
        if head:
            page.insert(0, Set(_MARGIN, 570, head, 9))
        page.append(Set(WIDTH / 2, 20, f"- {len(pages) + 1} -", 9))
        pages.append(page)
    return pdf(pages)


def _fitting(text: str, room: float, size: float) -> int:
    """How many characters of a text fit into so many points."""
    for count, char in enumerate(text):
        room -= size / 2 if char.isascii() else size
        if room < 0:
            return count
    return len(text)
