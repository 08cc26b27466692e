"""Which language a question is asked in, as far as that decides which texts its words can stand in (pure)."""

from __future__ import annotations

import re
from typing import Literal

_CJK = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_WORD = re.compile(r"[A-Za-z]{2,}")
_SENTENCE = 3


def script_of(query: str) -> Literal["zh", "en"] | None:
    """``zh`` for a question with Chinese in it, ``en`` for one of several English words, None for what belongs to no
    language: names, codes and numbers, which may stand in any text."""
    if _CJK.search(query):
        return "zh"
    return "en" if len(_WORD.findall(query)) >= _SENTENCE else None
