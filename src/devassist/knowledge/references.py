"""Exact references to articles, such as 公司法第十六条, 《公司法》第16条 or 第一百二十条之一 (pure).

They are read by a parser and never left to ranking: 第十二条 is a substring of 第二十二条, and the number of an article
says nothing of what it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from devassist.core.terms import normalise

_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_NUMBER = "[0-9]{1,4}|[零〇一二两三四五六七八九十百千]{1,8}"
_REFERENCE = re.compile(
    rf"(?P<prefix>第?)\s*(?P<article>{_NUMBER})\s*条(?:\s*之\s*(?P<sub>{_NUMBER}))?(?:第(?:{_NUMBER})[款项])*"
)
_LABEL = re.compile(rf"第(?P<article>{_NUMBER})条(?:之(?P<sub>{_NUMBER}))?")
_BRACKETED = re.compile(r"\([^()]*\)")
_NAME_EDGES = " 《》〈〉“”\"'「」的之,，"
_STATE = "中华人民共和国"
_FILLER = re.compile("(?:具体|原文|全文|条文|内容|怎么|规定|说|写|讲|和|与|及|或|、|,)+")
_LONGEST_NAME = 80
_MOST_REFERENCES = 8  # of one query: a pasted contract names hundreds, and they say nothing of what is asked
_LEAST_SUFFIX = 6  # 合同法第三条 must not find 劳动合同法: a name cut short is taken only from this length on


@dataclass(frozen=True, slots=True)
class Article:
    """The number of an article; ``sub`` is the Y of 第X条之Y, else 0."""

    article: int
    sub: int = 0


@dataclass(frozen=True, slots=True)
class Reference:
    """An article that a query names. ``titles`` are the documents meant, empty when the query names none."""

    article: Article
    titles: frozenset[str]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query taken apart.

    ``text`` is the query without the references (document names stay). ``rest`` lacks the names too, and the words
    that only ask for an article's wording: when it is blank, the query asks for those articles and nothing else.
    """

    references: tuple[Reference, ...]
    text: str
    rest: str


def chinese_number(text: str) -> int | None:
    """The value of a Chinese or ASCII numeral up to 9999, or None: 一百二十 is 120, 十六 is 16, 一六 is 16."""
    if text.isascii():
        return int(text) if text.isdecimal() else None
    if not any(char in _UNITS for char in text):
        digits = [_DIGITS.get(char) for char in text]
        return None if None in digits else int("".join(map(str, digits)))
    total, digit = 0, None
    for char in text:
        if char in _UNITS:
            total += (1 if digit is None else digit) * _UNITS[char]
            digit = None
        elif char in _DIGITS:
            digit = _DIGITS[char] or None  # the zero of 一百零五 only holds a place
        else:
            return None
    return total + (digit or 0)


def _article(match: re.Match[str]) -> Article | None:
    article = chinese_number(match["article"])
    sub = chinese_number(match["sub"]) if match["sub"] else 0
    return None if article is None or sub is None else Article(article, sub)


def article_of_label(label: str) -> Article | None:
    """The article number that a printed label holds, or None when it is no article."""
    match = _LABEL.match(normalise(label).strip())
    return _article(match) if match else None


class Titles:
    """The names by which the documents of a library are called.

    A title is known in full, without 中华人民共和国, without bracketed additions such as (试行), and by each of its
    parts between spaces (中华人民共和国民法典 合同编 is also 民法典 and 合同编).
    """

    def __init__(self, titles: Iterable[str]) -> None:
        self._names: dict[str, set[str]] = {}
        for title in titles:
            plain = normalise(title)
            for form in (plain, _BRACKETED.sub("", plain)):
                for name in (form, *form.split()):
                    for short in (name, name.removeprefix(_STATE)):
                        key = short.strip(_NAME_EDGES).replace(" ", "")
                        if len(key) > 1:
                            self._names.setdefault(key, set()).add(title)

    def before(self, text: str) -> tuple[frozenset[str], int]:
        """The documents that the end of ``text`` names, and how many of its last characters name them."""
        tail = text.rstrip(_NAME_EDGES)
        edge = len(text) - len(tail)
        tail = tail[-_LONGEST_NAME:]
        best: set[str] = set()
        length = 0
        for name, titles in self._names.items():
            shared = len(name) if tail.endswith(name) else _shared_end(tail, name)
            if shared == len(name) or shared >= _LEAST_SUFFIX:
                if shared > length:
                    best, length = set(titles), shared
                elif shared == length:
                    best |= titles
        return (frozenset(best), length + edge) if length else (frozenset(), 0)

    def parse(self, query: str) -> ParsedQuery:
        """Take the references out of a query; one without a name of its own inherits the last one's."""
        text = normalise(query)
        found: list[Reference] = []
        kept: list[str] = []
        rest: list[str] = []
        done, current = 0, frozenset[str]()
        for match in _REFERENCE.finditer(text):
            article = _article(match)
            between = text[done : match.start()]
            named, length = self.before(between)
            if article is None or not (match["prefix"] or named):
                continue  # "三条理由" without a document's name is no reference
            current = named or current
            found.append(Reference(article, current))
            kept.append(between)
            rest.append(between[: len(between) - length])
            done = match.end()
            if len(found) == _MOST_REFERENCES:
                break
        if not found:
            return ParsedQuery((), text, text)
        bare = _FILLER.sub(" ", " ".join([*rest, text[done:]]))
        return ParsedQuery(tuple(found), " ".join([*kept, text[done:]]), bare)


def _shared_end(left: str, right: str) -> int:
    """How many characters the two texts have in common at their ends."""
    count = 0
    for a, b in zip(reversed(left), reversed(right), strict=False):
        if a != b:
            break
        count += 1
    return count
