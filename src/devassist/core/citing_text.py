"""An answer taken apart: its sentences, what each quotes, and what it names as its source (pure).

A sentence never ends within a quotation, a title or a block of code. A few words (可以。 Yes.) are no sentence of their
own: they are read together with what follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from devassist.core.citations import MIN_QUOTE, labels, titles

_QUOTED = (("「", "」"), ("『", "』"), ("“", "”"))
_ATOM = re.compile(
    r"(?P<fence>(?m:^[ ]{0,3})(?P<mark>`{3,}|~{3,})[^\n]*\n(?:.*\n){0,300}?[ ]{0,3}(?P=mark)[`~]*[ \t]*(?=\n|\Z))"
    r"|(?P<block>(?m:^[ ]{0,3}>[^\n]*(?:\n[ ]{0,3}>[^\n]*)*))"
    r"|(?P<title>《[^《》]*》)"
    r"|「(?P<q1>[^「」]+)」|『(?P<q2>[^『』]+)』|“(?P<q3>[^“”]+)”|\"(?P<q4>[^\"\n]+)\""
    r"|(?P<code>`[^`\n]+`)"
    r"|(?P<mark_n>[\[【](?P<n>\d{1,3}(?:[ ]?[,，、][ ]?\d{1,3})*)[\]】])"
    r"|(?P<stop>[。！？!?]+)"
    r"|(?P<dot>\.(?=\s|\Z|[\[【]\d))"
    r"|(?P<line>\n+)"
)
_AFTER = re.compile(
    r"(?:[ \t]*[\[【]\d{1,3}(?:[ ]?[,，、][ ]?\d{1,3})*[\]】]|[”’」』）)\"]|[ \t]*（[^（）\n]*）[。.]?)+"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|Art|Sec|No|approx|Mr|Ms|Dr)|^\s*\d{1,2}|\n\s*\d{1,2}|\b[A-Z])$"
)
_BLOCK_MARK = re.compile(r"(?m)^[ ]{0,3}>[ ]?")
_ENDS = "。！？!?.”」』"
_NEXT = re.compile(r"\s*(?:《|第|另)")
# One number, then words with another: each number stands for the words before it.
_MORE = re.compile(r"[ \t]*[，,；;]")
_BY = re.compile(r"(?:根据|依据|按照|依照|参见|见|(?i:\b(?:per|see|in|to|by|and)))\s*$")
_ASKS = re.compile(r"[?？][\s”」』）)\"]*$")
_LEADS = re.compile(r"[:：][\s*_]*$")
_HEADING = re.compile(r"\s{0,3}(?:#{1,6}[ \t]|\*\*[^*\n]+\*\*\s*$)")
_NOTHING = re.compile(
    r"没有(?:找到|查到|检索到|相关|关于|规定|提到|说明|涉及|足够)|未(?:找到|查到|检索到|提到|提及|规定|说明|涉及)"
    r"|(?:无法|不能)(?:回答|作答|确定|核实)|查不到|找不到"
    r"|(?i:\b(?:no (?:such|relevant)|not (?:found|say|mention|stated|specified|covered|contain|cover)|does(?:n't| not)"
    r"|do(?:n't| not) (?:say|mention|cover|contain|specify)|cannot (?:be )?(?:answer|say|tell)|nothing (?:on|about)"
    r"|could not find))"
)
_SHORT, _FEW_CHARS = 6, 60
_ONLY_MARKS = re.compile(r"(?:\s*[\[【]\d[\d ,，、]*[\]】])+[\s.。]*")
_OWN_LIST = re.compile(
    r"(?i)\n[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?"
    r"(?:来源|参考(?:资料|文献)?|引用(?:来源)?|资料来源|sources?|references?|citations?)"
    r"(?:\*\*)?[ \t]*[:：]?(?:\*\*)?[ \t]*(?:\n(?s:.*))?\Z"
)
_LIST_LINE = re.compile(r"\s*(?:[-*][ \t]+)?[\[【]\d{1,3}[\]】][:：]?[ \t]")


@dataclass(frozen=True, slots=True)
class Quote:
    """What stands between quotation marks (or in a block), and where in the answer."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """``start``..``end`` are code points of the answer, white space at the end included. ``quotes`` are those long
    enough to be evidence; ``said`` is what is left without quotations, code and citation marks."""

    start: int
    end: int
    text: str
    quotes: tuple[Quote, ...]
    numbers: tuple[int, ...]
    said: str

    @property
    def names(self) -> tuple[list[str], set[tuple[str | int, ...]]]:
        """The titles and labels that it names."""
        return titles(self.said), labels(self.said)

    @property
    def cites(self) -> bool:
        return bool(self.quotes or self.numbers)

    @property
    def form(self) -> Literal["claim", "lead", "question", "heading", "nothing", "blank"]:
        """What kind of sentence it is; only a claim needs a source. ``nothing``: it says that there is no answer."""
        bare = re.sub(r"[\W_]+", "", self.said)
        if not bare and not self.cites:
            return "blank"
        if self.cites:
            return "claim"
        if _HEADING.match(self.text):
            return "heading"
        if _ASKS.search(self.text.rstrip()):
            return "question"
        if _LEADS.search(self.text.rstrip()):
            return "lead"
        return "nothing" if _NOTHING.search(self.said) else "claim"


_NAMES = re.compile(
    r"(?:第[〇零一二三四五六七八九十百千\d]+[章节条款项](?:之[一二三四五六七八九十\d]+)?|《[^》]*》"
    r"|(?i:article|section|clause|rule|annex)\s+\d+(?:\.\d+)*|[\s\W])+"
)


def only_names(quote: str) -> bool:
    """Whether a quotation is no more than labels and titles, which is no evidence."""
    return _NAMES.fullmatch(quote) is not None


def without_own_list(answer: str) -> str:
    """The answer without a list of sources at its end that a model wrote: it is made from the record."""
    cut = _OWN_LIST.search(answer)
    if cut is not None:
        listed = answer[cut.start() :].strip().split("\n")[1:]
        if all(_LIST_LINE.match(line) for line in listed if line.strip()):
            answer = answer[: cut.start()]
    lines = answer.rstrip().split("\n")
    while len(lines) > 1 and (_LIST_LINE.match(lines[-1]) or not lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).rstrip()


def sentences(answer: str) -> list[Sentence]:
    """Every sentence, in order; together they are the answer."""
    found = [_sentence(answer, start, end) for start, end in _joined(answer, _pieces(answer))]
    return [one for one in found if one.start < one.end]


def _pieces(answer: str) -> list[tuple[int, int]]:
    cuts: list[int] = []
    at = 0
    while (atom := _ATOM.search(answer, at)) is not None:
        at = atom.end()
        kind = atom.lastgroup
        if kind in ("stop", "dot"):
            if kind == "dot" and _ABBREVIATION.search(answer[max(0, atom.start() - 8) : atom.start()]):
                continue
            if (after := _AFTER.match(answer, at)) is not None:
                at = after.end()
            cuts.append(at)
        elif kind == "line" or atom["block"] is not None or atom["fence"] is not None:
            cuts.append(at)
        elif (text := _inner(atom)) is not None and text.rstrip()[-1:] in _ENDS:
            if (after := _AFTER.match(answer, at)) is not None:
                at = after.end()
            if _NEXT.match(answer, at):
                cuts.append(at)
    ends = list(dict.fromkeys([*cuts, len(answer)]))
    whole = zip([0, *ends[:-1]], ends, strict=True)
    return [part for start, end in whole for part in _by_number(answer, start, end)]


def _by_number(answer: str, start: int, end: int) -> list[tuple[int, int]]:
    """A sentence with several numbers in parts, so that each number stands for the words before it."""
    marks = [atom for atom in _ATOM.finditer(answer, start, end) if atom.lastgroup == "mark_n"]
    begin, parts = start, list[tuple[int, int]]()
    for atom in marks[:-1]:
        more = _MORE.match(answer, atom.end(), end)
        if more is not None and not _BY.search(answer[begin : atom.start()]):
            parts.append((begin, more.end()))
            begin = more.end()
    return [*parts, (begin, end)]


def _inner(atom: re.Match[str]) -> str | None:
    return next((atom[name] for name in ("q1", "q2", "q3", "q4") if atom[name] is not None), None)


def _joined(answer: str, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """White space and numbers alone go with what is before them, a few words with what follows, and a block with the
    words that lead to it."""
    found: list[tuple[int, int]] = []
    begin = -1
    for start, end in pieces:
        text = answer[start:end]
        if not text.strip() or (begin < 0 and found and _ONLY_MARKS.fullmatch(text)):
            if begin < 0 and found:
                found[-1] = found[-1][0], end
            continue
        begin = start if begin < 0 else begin
        if end - begin <= _FEW_CHARS and _few(answer[begin:end].strip()) and "\n" not in answer[begin:end]:
            continue
        if (
            text.lstrip().startswith((">", "```", "~~~"))
            and found
            and _LEADS.search(answer[slice(*found[-1])].rstrip())
        ):
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
        begin = -1
    if begin >= 0:
        found.append((begin, len(answer)))
    return found


def _few(text: str) -> bool:
    bare = re.sub(r"[\W_]+", "", text)
    if "[" in text or "【" in text:
        return False
    return len(bare) <= _SHORT if not bare.isascii() else len(text.split()) <= 2


def _sentence(answer: str, start: int, end: int) -> Sentence:
    text = answer[start:end]
    quotes: list[Quote] = []
    numbers: list[int] = []
    said: list[str] = []
    at = 0
    for atom in _ATOM.finditer(text):
        said.append(text[at : atom.start()])
        at = atom.end()
        if atom["block"] is not None:
            quotes += _block(atom["block"], start + atom.start())
        elif (inner := _inner(atom)) is not None:
            begin = start + atom.start() + 1
            if len(inner.strip()) >= MIN_QUOTE:
                lead = len(inner) - len(inner.lstrip())
                quotes.append(Quote(inner.strip(), begin + lead, begin + lead + len(inner.strip())))
                said.append("「」")
            else:  # emphasis: words of the sentence
                said.append(inner)
        elif atom["n"] is not None:
            numbers += [int(n) for n in re.findall(r"\d+", atom["n"])]
        elif atom["code"] is None and atom["fence"] is None:
            said.append(atom[0])
    said.append(text[at:])
    return Sentence(start, end, text, tuple(quotes), tuple(dict.fromkeys(numbers)), "".join(said))


def _block(block: str, start: int) -> list[Quote]:
    """A block quote is a quotation; one within it, in marks of its own, is what is meant."""
    text = _BLOCK_MARK.sub("", block).strip()
    for opening, closing in _QUOTED:
        if text.startswith(opening) and text.endswith(closing) and closing not in text[1:-1]:
            text = text[1:-1].strip()
    return [Quote(text, start, start + len(block))] if len(text) >= MIN_QUOTE else []
