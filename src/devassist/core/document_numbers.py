"""Numbers by which documents are called: 国发〔2024〕3号, AX-13, GB/T 7714-2015, RFC 9457 (pure).

Each becomes one term, whatever its brackets, hyphens and spaces look like, so that a number is found as a whole and not
as its digits.
"""

from __future__ import annotations

import re
import unicodedata

_HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff"
_GAP = r"\s{0,3}"  # bounded: a page of spaces is no number
_FILE_NUMBER = re.compile(
    rf"(?P<issuer>[{_HAN}]{{1,24}}){_GAP}[〔\[(【]{_GAP}(?P<year>(?:19|20)[0-9]{{2}}){_GAP}年?{_GAP}[〕\])】]{_GAP}"
    rf"(?:第{_GAP})?(?P<number>[0-9]{{1,5}}){_GAP}号"
)
_LONGEST_ISSUER = 8
_HYPHEN = "[-\u2010-\u2015]"
_CODE = re.compile(
    r"(?<![A-Za-z0-9_./\-])(?P<letters>[A-Za-z]{1,8}(?:/[A-Za-z]{1,3})?)"
    rf"(?P<between>\s?{_HYPHEN}\s?|\s?)(?P<digits>[0-9]{{1,6}}(?:(?:{_HYPHEN}|[.])[0-9]{{1,6}}){{0,3}}(?::(?:19|20)[0-9]{{2}})?)"
    r"(?![A-Za-z0-9_/])"
)
_JOINTS = re.compile(rf"{_HYPHEN}|:")


def numbers(text: str) -> list[tuple[str, ...]]:
    """The numbers in a text in their order, each as the terms that may stand for it, the most exact first.

    A code has one. A file number has one for each length of its issuer's abbreviation, because nothing says where that
    begins: 根据国办发〔2023〕15号 is 2023-15-国办发 as well as 2023-15-据国办发, and where the two meet they have the
    longest in common.
    """
    plain = unicodedata.normalize("NFKC", text)
    found = [(match.start(), _file_terms(match)) for match in _FILE_NUMBER.finditer(plain)]
    found += [(match.start(), (_code_term(match),)) for match in _CODE.finditer(plain) if _is_code(match)]
    return [terms for _, terms in sorted(found)]


def _file_terms(match: re.Match[str]) -> tuple[str, ...]:
    """The digits come first: a term that begins with a character counts as a place where that character stands."""
    issuer, number = match["issuer"][-_LONGEST_ISSUER:], f"{match['year']}-{int(match['number'])}-"
    return tuple(number + issuer[start:] for start in range(max(1, len(issuer) - 1)))


def _is_code(match: re.Match[str]) -> bool:
    """Letters and digits with only a space between them are a code where the letters are capitals (RFC 9457, but not
    ``python 3``); with nothing between them they are a word already."""
    letters, between = match["letters"], match["between"]
    if between.strip() or (not between and "/" in letters):
        return True
    return bool(between) and len(letters) > 1 and letters.isupper()


def _code_term(match: re.Match[str]) -> str:
    """One word for any tokenizer: ISO/IEC 27001:2022 is isoiec27001-2022."""
    return (match["letters"].replace("/", "") + _JOINTS.sub("-", match["digits"])).lower()
