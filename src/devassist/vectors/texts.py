"""Texts as an embedder may read them."""

from __future__ import annotations

_PLACEHOLDER = "-"


def head(text: str, wide: int) -> str:
    """As much of a text's beginning as ``wide`` Chinese characters would fill; a character of an alphabet counts half,
    since it takes several of them to say what one says."""
    left = 2 * wide
    for at, char in enumerate(text):
        left -= 2 if char >= "\u2e80" else 1
        if left < 0:
            return text[:at]
    return text


def readable(text: str, most: int) -> str:
    """The first ``most`` characters. NUL ends a text in C, half a surrogate pair is no text, and endpoints refuse blank
    ones: each is replaced."""
    cut = text.strip()[:most].replace("\0", " ").encode("utf-8", "replace").decode()
    return cut if cut.strip() else _PLACEHOLDER
