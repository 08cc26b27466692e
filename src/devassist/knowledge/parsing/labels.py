"""Which lines open an article or are a heading (pure): 第十六条, 第一百二十条之一, Section 2.1, 第三章, 附件一.

A number at the beginning of a line is not yet an article: paragraphs begin with 第五条规定的 too, and tables of
contents list what comes later. So every candidate is weighed, and the longest rising sequence of them is taken.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from devassist.knowledge.parsing.cleaning import closed_up, unblanked
from devassist.knowledge.parsing.document import Block
from devassist.knowledge.parsing.numerals import NUMERAL, number_of

_SPREAD = r"[0-9０-９]{1,4}|[零〇一二两三四五六七八九十百千](?:[ \u3000]?[零〇一二两三四五六七八九十百千]){0,8}"
_ZH = re.compile(
    rf"第[ \u3000]*(?P<a>{_SPREAD})[ \u3000]*条(?:[ \u3000]*之[ \u3000]*(?P<b>{NUMERAL})(?![条款项章节]))?"
)
_EN = re.compile(
    r"(?P<word>Article|Section|Art\.|Sec\.|§)\s*(?P<a>\d{1,4})(?:\.(?P<b>\d{1,3}))?(?![\d.]*\d)\.?", re.IGNORECASE
)
_REFERS = re.compile(r"[的、，,。；;）)》〉”]|规定|第.{1,6}[款项条]|所[列称规]|[和与至及或]第|以外|之规定")
_REFERS_EN = re.compile(r"[,;)]|(?:of|and|or|to|shall|above|below|applies|does)\b")
_NUMBERED = re.compile(rf"第[ \u3000]*(?:{_SPREAD})[ \u3000]*(?P<unit>分编|编|篇|部分|章|节)(?P<rest>.*)", re.DOTALL)
_NAMED = re.compile(r"(?:序言|前言|总则|附则|引言)")
_CONTENTS = re.compile(r"目录|目次|contents|tableofcontents", re.IGNORECASE)
_ANNEX = re.compile(rf"附(?:件|录|表|图)(?:\s*(?:{NUMERAL}))?\s*(?:[:：.．、\s].*)?|(?:Annex|Appendix|Schedule)\b.*")
_ANNEX_TABLE = re.compile(
    r"(?!续表|[（(]?[一二三四五六七八九十0-9]{1,3}[)）、.．])[^。；，：:;,]{0,30}表[一二三四五六七八九十0-9]{0,2}\s*(?:[（(][^（()）]*[)）])?"
)
_LEADER = re.compile(r"[\s.．·…。]*[.．·…]{2,}\s*\d*\s*$|\s+\d{1,4}\s*$")
_RANKS = {"部分": 1, "篇": 1, "编": 1, "分编": 2, "章": 3, "节": 4}
_LONGEST_HEADING = 60
_EMPHASIS = re.compile(r"^(\*\*|__)(?P<label>.+?)\1")


class Label(NamedTuple):
    """A candidate for the label of an article: its number, what is printed, and where the text after it begins.

    ``weak``: it may as well be a reference at the beginning of a paragraph.
    """

    article: int
    sub: int
    printed: str
    end: int
    weak: bool


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the outline; ``rank`` rises from parts (1) to sections (4)."""

    text: str
    rank: int
    form: Literal["numbered", "named", "marked"]


def label_of(text: str, script: Literal["zh", "en"]) -> Label | None:
    """What ``text``, a line without blanks at its ends, may be the beginning of."""
    match = (_ZH if script == "zh" else _EN).match(text)
    if match is None:
        return None
    article, sub = number_of(match["a"]), number_of(match["b"]) if match["b"] else 0
    if article is None or sub is None:
        return None
    rest = text[match.end() :]
    spaced = not rest or rest[0].isspace() or rest[0] in "【（(:：—–-"
    if script == "en":
        weak = not spaced or bool(_REFERS_EN.match(rest.lstrip()))
        return Label(article, sub, match[0].rstrip("."), match.end(), weak)
    weak = bool(_REFERS.match(rest.lstrip())) if not spaced else rest.lstrip()[:1] in tuple("的、，,；;）》")
    return Label(article, sub, unblanked(match[0]), match.end(), weak)


def heading_of(block: Block) -> Heading | None:
    """The heading that a line is by its words, or that the file marks as one."""
    text = block.text.strip()
    if not text or "\n" in text or len(text) > _LONGEST_HEADING * 2:
        return None
    numbered = _NUMBERED.fullmatch(text)
    if numbered and len(text) <= _LONGEST_HEADING and _may_follow_number(numbered["rest"]):
        at = numbered.start("rest")
        name = closed_up(numbered["rest"].strip())
        number = unblanked(text[:at])
        return Heading(f"{number} {name}" if name else number, _RANKS[numbered["unit"]], "numbered")
    if _NAMED.fullmatch(unblanked(text)):
        return Heading(unblanked(text), 3, "named")
    if block.kind == "heading":
        return Heading(closed_up(text), 3 if block.level <= 2 else 4, "marked")
    return None


def _may_follow_number(rest: str) -> bool:
    """Whether what stands after 第三章 makes the line a heading: nothing, or a name that is no sentence."""
    if not rest.strip():
        return True
    spaced = rest[0].isspace()
    name = rest.strip()
    if name[-1] in "。；：，;:," or re.match(r"[的、，,）)》]|规定|第", name):
        return False
    return spaced or not re.search(r"[。；，]", name)


def is_annex(block: Block, after_articles: bool) -> bool:
    """Whether a line begins an annex: 附件1, 附录, Annex B; after the last article also the name of a table."""
    text = block.text.strip()
    if len(text) > _LONGEST_HEADING or "\n" in text or text.endswith(("。", "；", "，")):
        return False
    return bool(_ANNEX.fullmatch(text)) or (after_articles and bool(_ANNEX_TABLE.fullmatch(text)))


def is_contents(block: Block) -> bool:
    return bool(_CONTENTS.fullmatch(unblanked(block.text)))


def plain_heading(text: str) -> str:
    """A heading as a table of contents may repeat it: without blanks, dot leaders and page numbers."""
    return unblanked(_LEADER.sub("", text))


def without_emphasis(text: str) -> str:
    """Without the stars of a label printed bold: ``**第一条** …``."""
    return _EMPHASIS.sub(lambda m: m["label"], text)


def choose(candidates: Mapping[int, Label], breaks: Sequence[int]) -> dict[int, Label]:
    """Of candidates by place those that are articles: within each stretch the longest sequence of rising numbers.

    A new stretch begins at each of ``breaks`` (annexes), and where the numbers begin again at one. Weak candidates
    count only where no other has their number.
    """
    chosen: dict[int, Label] = {}
    stretch: list[tuple[int, Label]] = []
    stops = sorted(breaks)
    for place, label in sorted(candidates.items()):
        again = (label.article, label.sub) == (1, 0) and not label.weak and any(not each.weak for _, each in stretch)
        if stretch and (again or any(stretch[-1][0] < stop <= place for stop in stops)):
            chosen |= _rising(stretch)
            stretch = []
        stretch.append((place, label))
    return chosen | _rising(stretch)


def _rising(stretch: Sequence[tuple[int, Label]]) -> dict[int, Label]:
    strong = {(label.article, label.sub) for _, label in stretch if not label.weak}
    kept = [(place, label) for place, label in stretch if not label.weak or _belongs(label, strong)]
    if all(label.weak for _, label in kept):
        return {}
    tails: list[tuple[int, int]] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, label) in enumerate(kept):
        key = (label.article, label.sub)
        at = bisect_left(tails, key)
        before.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(key)
            ends.append(index)
        else:
            tails[at], ends[at] = key, index
    found: dict[int, Label] = {}
    index = ends[-1] if ends else -1
    while index >= 0:
        found[kept[index][0]] = kept[index][1]
        index = before[index]
    return found


def _belongs(label: Label, strong: set[tuple[int, int]]) -> bool:
    """A weak candidate fills a gap: nothing else has its number, and its neighbours' are there."""
    key = (label.article, label.sub)
    return key not in strong and (label.article - 1, 0) in strong and (label.article + 1, 0) in strong
