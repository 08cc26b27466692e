"""Text as every reader hands it on (pure): NFC, LF, without characters that nobody sees."""

from __future__ import annotations

import re
import unicodedata

CJK = "\u2e80-\u2fdf\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"

# Zero-width space, byte order mark, soft hyphen, word joiner and direction marks: left over from web pages and word
# processors, they break quotes, numbers of articles and hashes. The joiners U+200C and U+200D carry meaning and stay.
_UNSEEN = re.compile("[\u200b\ufeff\u00ad\u2060\u200e\u200f\u202a-\u202e]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BETWEEN_CJK = re.compile(rf"(?<=[{CJK}])[ \t\u00a0\u3000]+(?=[{CJK}])")


def clean(text: str) -> str:
    """``text`` in NFC with LF, without unseen and control characters."""
    return unicodedata.normalize("NFC", _CONTROL.sub("", _UNSEEN.sub("", _BREAKS.sub("\n", text))))


def line(text: str) -> str:
    """One line: cleaned, without blanks (full-width ones too) at its ends."""
    return clean(text).replace("\n", " ").strip()


def paragraphs(text: str) -> str:
    """Lines without blanks at their ends and without empty ones among them."""
    return "\n".join(stripped for each in clean(text).split("\n") if (stripped := each.strip()))


def closed_up(text: str) -> str:
    """Without the blanks that spread out Chinese titles: 总　则 is 总则."""
    return _BETWEEN_CJK.sub("", text)


def unblanked(text: str) -> str:
    """Without any white space: the form in which texts of different files are compared."""
    return "".join(text.split())
