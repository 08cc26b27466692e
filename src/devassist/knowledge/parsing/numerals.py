"""Chinese numerals as they stand in numbers of articles (pure). Reading them is in knowledge.references."""

from __future__ import annotations

from devassist.knowledge.references import chinese_number

NUMERAL = r"[0-9０-９]{1,4}|[零〇一二两三四五六七八九十百千]{1,9}"
"""A numeral of an article, Chinese or of digits, as a part of a pattern."""

_DIGITS = "零一二三四五六七八九"
_WIDE = str.maketrans("０１２３４５６７８９", "0123456789")


def number_of(text: str) -> int | None:
    """The value of a numeral up to 9,999, whose characters may be spread out; None when it is none."""
    return chinese_number("".join(text.split()).translate(_WIDE))


def numeral(value: int) -> str:
    """The Chinese numeral of 1..9999 as statutes write it: 10 is 十, 105 一百零五, 1010 一千零一十."""
    if not 0 < value < 10_000:
        raise ValueError(f"{value} is not within 1..9999")
    text, zero = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = value // unit % 10
        if not digit:
            zero = bool(text)
            continue
        text += ("零" if zero else "") + _DIGITS[digit] + name
        zero = False
    return text.removeprefix("一") if 10 <= value < 20 else text
