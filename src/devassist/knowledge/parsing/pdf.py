"""PDF to blocks, with pypdfium2: characters with their places, line by line; pdf_layout.py makes paragraphs of them.

Only the text layer is read. Spaces that stand in no font but were made up from gaps are dropped next to Chinese
characters, where typesetting alone sets them apart from digits and Latin letters.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pypdfium2 as _pypdfium2  # pyright: ignore[reportMissingTypeStubs]
import pypdfium2.raw as _raw  # pyright: ignore[reportMissingTypeStubs]

from devassist.knowledge.parsing.cleaning import CJK, clean
from devassist.knowledge.parsing.document import Limits, Reading, Refused
from devassist.knowledge.parsing.pdf_layout import Line, blocks_of_pages

# Neither has types; the second is made of C declarations.
pypdfium2, pdfium = cast("Any", _pypdfium2), cast("Any", _raw)
_IS_CJK = re.compile(f"[{CJK}\u3000-\u303f\uff00-\uffef“”‘’—…·]")
_MADE_UP_BREAK = "\r\n"
_CELL_GAP_EM = 1.5  # so far apart stand columns, never the words of a justified line
_SPACE_GAP_EM = 0.5
_CJK_SPACE_GAP_EM = 0.2
_SHORTEST_RULE = 6.0  # points
_WIDEST_RULE = 3.0
_MOST_DRAWN = 5000  # of a drawing of many strokes nothing can be told
_BLANKS = " \u3000\u00a0"
_HYPHEN = "\x02"
_NO_CHARACTER = frozenset({0xFFFE, 0xFFFF})
_BULLETS = str.maketrans(
    {"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "➢", "\uf06c": "●", "\uf06e": "■", "\uf0fc": "✓", "\uf02d": "-"}
)
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_LEAST_READABLE = 0.98


def read_pdf(data: bytes, limits: Limits) -> Reading:
    """Raises Refused: ``encrypted``, ``malformed``, ``too_large`` (pages), ``no_text_layer``, ``undecodable``."""
    start = data.find(b"%PDF-")
    try:
        document = pypdfium2.PdfDocument(data[start:] if start > 0 else data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise Refused("encrypted", "The document asks for a password. Save it without one.") from None
        raise Refused("malformed", f"The PDF is damaged: {error}") from None
    try:
        return _read(document, limits)
    finally:
        document.close()


def _read(document: Any, limits: Limits) -> Reading:
    count = len(document)
    if count > limits.pages:
        raise Refused("too_large", f"The document has {count} pages; at most {limits.pages} are read.")
    pages: list[list[Line]] = []
    blank: list[int] = []
    for number in range(count):
        try:
            page = document[number]
        except pypdfium2.PdfiumError:
            raise Refused("malformed", f"Page {number + 1} is damaged.") from None
        lines = list(_lines(page, number + 1))
        if not lines and _draws(page):
            blank.append(number + 1)
        pages.append(lines)
        page.close()
    if not any(pages):
        raise Refused("no_text_layer", "No page holds text: a scan, or nothing. Run OCR on it and ingest the result.")
    _refuse_unreadable(pages)
    blocks, dropped = blocks_of_pages(pages)
    warnings = [f"Left out on every page: {text}" for text in dropped]
    if blank:
        shown = ", ".join(map(str, blank[:20]))
        warnings.append(f"Pages without a text layer, of which nothing is read (run OCR): {shown}")
    return Reading(tuple(blocks), warnings=tuple(warnings))


def _refuse_unreadable(pages: list[list[Line]]) -> None:
    """Fonts without a way back to characters give text that looks like text and means nothing."""
    text = "".join(line.text for page in pages for line in page)
    bad = text.count("\ufffd")
    if bad:
        where = next(line.page for page in pages for line in page if "\ufffd" in line.text)
        raise Refused(
            "undecodable", f"{bad} glyphs have no character, first on page {where}. Export the PDF again, or run OCR."
        )
    private = len(_PRIVATE.findall(text))
    if private > (1 - _LEAST_READABLE) * len(text):
        raise Refused(
            "undecodable",
            f"{private} of {len(text)} glyphs have private characters only. Export the PDF again, or run OCR.",
        )


def _draws(page: Any) -> bool:
    return pdfium.FPDFPage_CountObjects(page.raw) > 0


class _Char:
    __slots__ = ("base", "made_up", "text", "x0", "x1", "y0", "y1")

    def __init__(self, text: str, made_up: bool, box: tuple[float, float, float, float], base: float) -> None:
        self.text, self.made_up, self.base = text, made_up, base
        self.x0, self.y0, self.x1, self.y1 = box


class _Rule(NamedTuple):
    """An upright line, such as stands between the columns of a table."""

    x: float
    y0: float
    y1: float


def _lines(page: Any, number: int) -> Iterator[Line]:
    """The lines of a page in the order in which they were written, which is how they are read."""
    _, height = page.get_size()
    rules = _rules(page)
    open_line: list[_Char] = []
    for char in _characters(page.get_textpage()):
        if char.text in _MADE_UP_BREAK:
            if open_line:
                yield from _line(open_line, number, height, rules)
            open_line = []
        else:
            open_line.append(char)
    if open_line:
        yield from _line(open_line, number, height, rules)


def _characters(textpage: Any) -> Iterator[_Char]:
    raw = textpage.raw
    rect, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    pending = 0
    for index in range(textpage.count_chars()):
        code = pdfium.FPDFText_GetUnicode(raw, index)
        if 0xD800 <= code < 0xDC00:
            pending = code
            continue
        if 0xDC00 <= code < 0xE000 and pending:
            code = 0x10000 + ((pending - 0xD800) << 10) + (code - 0xDC00)
        pending = 0
        made_up = pdfium.FPDFText_IsGenerated(raw, index) == 1
        if code in _NO_CHARACTER:
            code = ord(_HYPHEN)
        text = "\ufffd" if not code or 0xD800 <= code < 0xE000 else chr(code)
        if not made_up and pdfium.FPDFText_HasUnicodeMapError(raw, index) == 1 and not text.strip():
            text = "\ufffd"
        if not made_up and _is_slanted(pdfium.FPDFText_GetCharAngle(raw, index)):
            continue  # a watermark across the page
        pdfium.FPDFText_GetLooseCharBox(raw, index, ctypes.byref(rect))
        box = (rect.left, rect.bottom, rect.right, rect.top)
        pdfium.FPDFText_GetCharOrigin(raw, index, x, y)
        yield _Char(text, made_up, box, y.value)


def _rules(page: Any) -> list[_Rule]:
    """Upright lines and the sides of boxes, which is how tables are ruled."""
    found: list[_Rule] = []
    for number, drawn in enumerate(page.get_objects(filter=(pdfium.FPDF_PAGEOBJ_PATH,), max_depth=3)):
        if number >= _MOST_DRAWN:
            break
        x0, y0, x1, y1 = drawn.get_bounds()
        if y1 - y0 > _SHORTEST_RULE:
            found += [_Rule(x, y0, y1) for x in ({(x0 + x1) / 2} if x1 - x0 < _WIDEST_RULE else {x0, x1})]
    return found


def _is_slanted(angle: float) -> bool:
    off = angle % (math.pi / 2)
    return 0.1 < off < math.pi / 2 - 0.1


def _line(chars: list[_Char], page: int, height: float, rules: list[_Rule]) -> Iterator[Line]:
    real = [char for char in chars if not char.made_up and char.text.strip(_BLANKS)]
    if not real:
        return
    em = max(1.0, sorted(char.y1 - char.y0 for char in real)[len(real) // 2])
    base = sorted(char.base for char in real)[len(real) // 2]
    between = sorted(rule.x for rule in rules if rule.y0 <= base + em / 2 <= rule.y1)
    cells: list[str] = [""]
    starts: list[float] = [real[0].x0]
    before: _Char | None = None
    gap_pending = ruled = False
    for char in chars:
        if char.made_up and not char.text.strip():
            gap_pending = True
            continue
        if before is not None and char.text.strip(_BLANKS):
            gap = char.x0 - before.x1
            crossed = any(before.x1 - 1 <= x <= char.x0 + 1 for x in between)
            if gap > _CELL_GAP_EM * em or crossed:
                cells.append("")
                starts.append(char.x0)
                ruled = ruled or crossed
            elif gap_pending and gap > _least_gap(before.text, char.text) * em:
                cells[-1] += " "
        gap_pending = False
        cells[-1] += char.text
        before = char
    kept = [(text, start) for cell, start in zip(cells, starts, strict=True) if (text := clean_line(cell))]
    if not kept:
        return
    yield Line(
        cells=tuple(text for text, _ in kept),
        starts=tuple(start for _, start in kept),
        ruled=ruled,
        page=page,
        height=height,
        x0=real[0].x0,
        x1=max(char.x1 for char in real),
        base=base,
        size=em,
    )


def _least_gap(before: str, after: str) -> float:
    """From which gap on, in em, a made-up space is meant: Chinese is set apart from Latin letters without one."""
    chinese = bool(_IS_CJK.match(before)) + bool(_IS_CJK.match(after))
    return (0.0, _SPACE_GAP_EM, _CJK_SPACE_GAP_EM)[chinese]


def clean_line(text: str) -> str:
    """A line with its line-end hyphen (U+0002) kept as a mark for joining."""
    hyphen = text.rstrip().endswith(_HYPHEN)
    plain = clean(text.replace(_HYPHEN, "").translate(_BULLETS)).replace("\n", " ").strip()
    return plain + (_HYPHEN if hyphen and plain else "")
