"""Where a quotation stands in a clause: word for word, or in a view without white space and full-width forms (pure).

The view never makes one number of two or one word of two: superscripts, fractions and circled digits stay as they are,
white space between letters or digits stays a space, and no quotation may begin or end within a figure or a word.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal, NamedTuple

from devassist.core.figures_in_text import figures

_FOLDED = ("<wide>", "<narrow>", "<compat>", "<noBreak>", "<small>")


class Place(NamedTuple):
    """Code points of the clause's own text."""

    start: int
    end: int
    match: Literal["exact", "normalised"]


def place_of(quote: str, text: str) -> Place | None:
    """Where ``quote`` stands in ``text``, exactly before otherwise; None where it does not."""
    return exact_place(quote, text) or normalised_place(quote, text)


def exact_place(quote: str, text: str) -> Place | None:
    """Where it stands word for word."""
    at = text.find(quote)
    while at >= 0 and quote:
        if not _cuts(text, at, at + len(quote)):
            return Place(at, at + len(quote), "exact")
        at = text.find(quote, at + 1)
    return None


def normalised_place(quote: str, text: str) -> Place | None:
    """Where it stands in the view."""
    wanted, _ = _view(quote)
    seen, origin = _view(text)
    at = seen.find(wanted) if wanted else -1
    while at >= 0:
        start, end = origin[at], origin[at + len(wanted) - 1] + 1
        if not _cuts(text, start, end):
            return Place(start, end, "normalised")
        at = seen.find(wanted, at + 1)
    return None


@lru_cache(maxsize=256)
def _view(text: str) -> tuple[str, tuple[int, ...]]:
    """The view of a text, and for each of its characters the code point that it comes from."""
    seen: list[str] = []
    origin: list[int] = []
    gap = -1
    for at, char in enumerate(text):
        if char.isspace():
            gap = at if gap < 0 else gap
            continue
        if unicodedata.category(char) == "Cf":  # invisible: a zero-width space, a soft hyphen
            continue
        folded = unicodedata.normalize("NFKC", char) if unicodedata.decomposition(char).startswith(_FOLDED) else char
        if gap >= 0 and seen and _wordy(seen[-1]) and _wordy(folded[:1]):
            seen.append(" ")
            origin.append(gap)
        gap = -1
        seen += folded
        origin += [at] * len(folded)
    return "".join(seen), tuple(origin)


def _wordy(char: str) -> bool:
    return char.isascii() and char.isalnum()


@lru_cache(maxsize=256)
def _spans(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((figure.start, figure.end) for figure in figures(text) if figure.end - figure.start > 1)


def _cuts(text: str, start: int, end: int) -> bool:
    """Whether a span begins or ends within a figure or a word: 5日 of 15日 is another number, not a part of it."""
    for at in (start, end):
        if 0 < at < len(text) and _wordy(text[at - 1]) and _wordy(text[at]):
            return True
    return any(first < start < last or first < end < last for first, last in _spans(text))
