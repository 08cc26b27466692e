"""What an answer quotes and what it cites, read from its text alone."""

from __future__ import annotations

import re

MIN_QUOTE = 6
"""Shorter quotations are emphasis, not evidence."""

_TITLE = r"《(?P<title>[^》]*)》"
# A title is matched first, so that quotation marks within it are none; one within a quotation belongs to it.
_MARKED = re.compile(_TITLE + r"|「([^」]+)」|『([^』]+)』|“([^”]+)”|\"([^\"\n]+)\"")
_TITLES = re.compile(_TITLE)
_BLOCK = re.compile(r"(?m)(?:^[ ]{0,3}>.*(?:\n|\Z))+")
_BLOCK_MARK = re.compile(r"(?m)^[ ]{0,3}>[ ]?")
_NUMERALS = "〇零一二三四五六七八九十百千0-9"
_ARTICLE = re.compile(rf"第([{_NUMERALS}]+)条(?:之([{_NUMERALS}]+))?")
_ENGLISH = re.compile(r"(?i)\b(article|section|clause|rule|annex)\s+(\d+(?:\.\d+)*)(?![\d])")
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0}
_UNITS = {"十": 10, "百": 100, "千": 1000}


def quotations(answer: str) -> list[str]:
    """What the answer puts in quotation marks or block quotes, long enough to be evidence."""
    prose, blocks = _BLOCK.sub("\n", answer), _BLOCK.findall(answer)
    found = [next(g for g in m.groups()[1:] if g is not None) for m in _MARKED.finditer(prose) if m["title"] is None]
    for block in blocks:
        text = _BLOCK_MARK.sub("", block).strip()
        inner = _MARKED.fullmatch(text)
        found.append(text[1:-1] if inner is not None and inner["title"] is None else text)
    return [q.strip() for q in found if len(q.strip()) >= MIN_QUOTE]


def prose(answer: str) -> str:
    """The answer's own words: without its quotations, with the titles that it names."""
    return _MARKED.sub(lambda m: "「」" if m["title"] is None else m[0], _BLOCK.sub("\n", answer))


def titles(text: str) -> list[str]:
    """What stands between 《 and 》."""
    return [m["title"] for m in _TITLES.finditer(text)]


def labels(text: str) -> set[tuple[str | int, ...]]:
    """The numbered clauses that a text names; 第五条 and 第5条 are one, 第五条 and 第五条之一 are two."""
    han = {("条", _number(m[1]), _number(m[2]) if m[2] else 0) for m in _ARTICLE.finditer(text)}
    return han | {(m[1].lower(), m[2]) for m in _ENGLISH.finditer(text)}


def names(text: str, label: str) -> bool:
    """Whether ``text`` names the clause ``label``."""
    return own <= labels(text) if (own := labels(label)) else bool(label) and label in text


def _number(numeral: str) -> int:
    if numeral.isdigit() and numeral.isascii():
        return int(numeral)
    total, digit = 0, 0
    for c in numeral:
        if c in _UNITS:
            total += (digit or 1) * _UNITS[c]
            digit = 0
        else:
            digit = digit * 10 + (int(c) if c.isascii() else _DIGITS[c])
    return total + digit
