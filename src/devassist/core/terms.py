"""Text to search terms (pure): character bigrams for CJK runs, lower-cased words for the rest.

Bigrams need no dictionary and measured better than a word segmenter on Chinese statutes (nDCG@10 +.028). A document
keeps all its terms; a query loses the words that only make it a question, by a fixed list and never by frequency, so
the same question means the same in a library of sixty clauses and of ten thousand.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain, pairwise

from devassist.core.document_numbers import numbers

_CJK = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+(?:[.\-/][^\W{_CJK}]+)*%?")
_CJK_CHAR = re.compile(rf"[{_CJK}]")
_CJK_LAST = re.compile(rf"(?<=[{_CJK}])[{_CJK}](?![{_CJK}])")
_PERCENT = re.compile(r"(?<=\d)\s+%")
_PART = re.compile(r"[.\-/_%]+")

_PHRASES = """
请问 请教 我想问 我想知道 想知道 想问 告诉我 帮我 谢谢 你好 您好
是什么意思 是什么 有什么 什么时候 什么样 什么 为什么 为何 怎么样 怎么办 怎么 怎样 如何
是多少 有多少 多少钱 多少 多久 多长时间 多长 多大 几个
是哪些 有哪些 哪些 是哪个 哪个 哪里 哪儿 哪种 是谁 谁
是不是 是否 能不能 能否 可不可以 可否 会不会 有没有 应不应该 需不需要 要不要
""".split()
_PARTICLES = "吗呢吧啊呀嘛么"
_ASKING = re.compile(
    "|".join(sorted(map(re.escape, _PHRASES), key=lambda phrase: (-len(phrase), phrase)))
    + rf"|(?<![目标])的|了(?!解)|[{_PARTICLES}](?![{_CJK}])"
)
_ENGLISH = frozenset(
    """a about an and any are as at be by can could do does for from had has have how i if in into is it its may me
    might must my not of on or our please shall should so tell than that the their them then there these this to
    was we were what when where which who whom whose why will with would you your""".split()
)


def normalise(text: str) -> str:
    """NFKC, lower case, and no space between a number and its percent sign: the form in which texts are compared."""
    return _PERCENT.sub("%", unicodedata.normalize("NFKC", text).lower())


def has_words(text: str) -> bool:
    """Whether there is anything to search for: a letter or a digit of any script."""
    return any(char.isalnum() for char in text)


def _stem(word: str) -> str:
    """Fold English plurals, nothing else: ``policies`` and ``policy`` are one term, ``13%`` stays as it is."""
    if len(word) < 4 or not word.isascii() or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") else word


def _word_terms(word: str) -> list[str]:
    """A word; a compound that holds letters (``ax-13``, ``fastapi.depends``) also counts by its parts."""
    parts = [part for part in _PART.split(word) if part]
    if len(parts) < 2 or not any(map(str.isalpha, word)):
        return [_stem(word)]
    return [word, *map(_stem, parts)]


def terms(text: str) -> list[str]:
    """Every term of a stored text, repeats included; then those of its document numbers."""
    found: list[str] = []
    for run in _RUN.findall(normalise(text)):
        if not _CJK_CHAR.match(run):
            found += _word_terms(run)
        elif len(run) == 1:
            found.append(run)
        else:
            found += map("".join, pairwise(run))
    return [*found, *chain.from_iterable(numbers(text))]


def stored_terms(text: str) -> list[str]:
    """``terms``, and the last character of each CJK run: every character of the text now begins a term, so that all
    terms which begin with a character are all places where it stands."""
    return [*terms(text), *_CJK_LAST.findall(normalise(text))]


def query_terms(text: str) -> list[str]:
    """The distinct terms of a question in order, without the words that merely ask.

    Single characters that the cutting leaves over count only where there is nothing else, so 税 alone is a query.
    """
    found = dict.fromkeys(chain.from_iterable(numbers(text)))
    single: dict[str, None] = {}
    for run in _RUN.findall(_ASKING.sub(" ", normalise(text))):
        if not _CJK_CHAR.match(run):
            found.update(dict.fromkeys(word for word in _word_terms(run) if word not in _ENGLISH))
        elif len(run) == 1:
            single[run] = None
        else:
            found.update(dict.fromkeys(map("".join, pairwise(run))))
    return list(found or single)


def is_word(term: str) -> bool:
    """Whether a term is a whole word or number rather than a CJK character or bigram."""
    return _CJK_CHAR.match(term) is None
