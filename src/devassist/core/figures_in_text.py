"""Numbers and dates in a text by their values: 90日 and 九十日 are one, so are 85% and 百分之八十五 (pure).

``claimed`` reads a sentence strictly: what may be a turn of speech (一般, 一个), a label (第五条) or a name (utf-8) is
no figure of it. ``held`` reads evidence generously, so that whatever a sentence may claim of it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple, cast

Key = tuple[str, object]
"""What a figure says: (``n``, value), (``r``, share of one), (``d``, (year, month, day)) with None for what is not
given, or (``v``, text) for versions and times of day."""


class Figure(NamedTuple):
    """A figure and where it stands. ``loose``: it may as well be a turn of speech."""

    key: Key
    start: int
    end: int
    loose: bool = False


_HAN_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "廿": 20, "卅": 30}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10_000, "亿": 100_000_000}
_HAN = "〇零一二两三四五六七八九十百千廿卅"
_HAN_ALL = _HAN + "万亿"
_ONE_BY_ONE, _TO_99 = "〇零一二三四五六七八九", "一二三四五六七八九十"
_MEASURES = (
    r"(?:余|多|几)?(?:个(?:工作日|自然日|百分点|小时|星期|季度|月|人|周)|工作日|自然日|周岁|小时|分钟|公里|公斤"
    r"|百分点|平方米|[日天年月周岁元人倍米克吨户成秒角分])"
)
_FEW = re.compile(
    r"(?:个(?:工作日|自然日|百分点|小时|星期|季度|月|周)|工作日|自然日|周岁|小时|分钟|[日天年月周岁元倍])"
)
_ENGLISH = {
    word: n
    for n, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
} | {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_TENS = "|".join(word for word, n in _ENGLISH.items() if n >= 20)
_ONES = "|".join(word for word, n in _ENGLISH.items() if 0 < n < 10)
_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name: n for n, name in enumerate(_NAMES, 1)} | {name[:3]: n for n, name in enumerate(_NAMES, 1)}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
# A figure that belongs to a name (utf-8, OAuth2, x86_64) is none; ASCII bounds, since \b sees none beside Han.
_FREE = r"(?<![A-Za-z0-9_.])(?<![A-Za-z]-)"
_TOKEN = re.compile(
    rf"""(?ix)
    (?P<date>(?<!\d)(?P<y>\d{{4}})(?:-(?P<m>\d{{1,2}})-(?P<d>\d{{1,2}})|/(?P<m2>\d{{1,2}})/(?P<d2>\d{{1,2}})
        |\.(?P<m3>\d{{1,2}})\.(?P<d3>\d{{1,2}}))(?!\d))
    |(?P<han>(?<!\d)(?:(?P<hy>\d{{4}}|[{_ONE_BY_ONE}]{{4}})[ ]?年)?[ ]?(?P<hm>\d{{1,2}}|[{_TO_99}]{{1,3}})[ ]?月
        (?!份?内)(?:[ ]?(?P<hd>\d{{1,2}}|[{_TO_99}]{{1,3}})[ ]?[日号])?)
    |(?P<hyear>(?<!\d)(?:\d{{4}}|[{_ONE_BY_ONE}]{{4}})(?=[ ]?年))
    |(?P<en>\b(?:(?P<ed>\d{{1,2}})[ ](?P<em>{_MONTH})\.?,?[ ](?P<ey>\d{{4}})
        |(?P<em2>{_MONTH})\.?[ ](?P<ed2>\d{{1,2}}),?[ ](?P<ey2>\d{{4}}))\b)
    |(?P<version>{_FREE}\d+(?:\.\d+){{2,}}(?![\w]))
    |(?P<clock>{_FREE}\d{{1,2}}[:：]\d{{2}}(?::\d{{2}})?(?!\d))
    |(?P<share>(?P<per>[百千万])分之(?P<part>[{_HAN_ALL}点]+|{_DIGITS}))
    |(?P<frac>(?P<low>[{_HAN}]+|\d+)分之(?P<high>[{_HAN}]+|\d+))
    |(?P<num>{_FREE}{_DIGITS}(?P<large>[万亿千百]*)(?:[ ]?(?P<pct>%|％|‰|[ ]?per[ ]?cent\b))?
        (?![A-Za-z0-9_]*[A-Za-z_]|\.\d))
    |(?P<zh>(?:[{_HAN}]+[万亿]*)+(?:点[{_ONE_BY_ONE}]+)?)
    |(?P<word>\b(?:(?:{_TENS})-(?:{_ONES})|{"|".join(_ENGLISH)}|hundred)\b(?:[ ]hundred\b)?
        (?:[ ](?P<wpct>per[ ]?cent)\b)?)
    """
)
_WIDE = {ord(wide): plain for wide, plain in zip("０１２３４５６７８９．％，：－／", "0123456789.%,:-/", strict=True)}
_LABEL = re.compile(
    rf"第[ ]?(?:\d+|[{_HAN}]+)[ ]?"
    rf"(?:条|款|项|章|节|编|目|次|届|批|号|类|级|页|期|[三二]方|位)(?:之[{_HAN}\d]+)?"
    rf"|第(?:\d+|[{_HAN}]+)"
    r"|(?i:\b(?:articles?|sections?|clauses?|rules?|annex(?:es)?|chapters?|steps?|paragraphs?|items?|no\.|table|figure)"
    r"[ ]\d+(?:\.\d+)*(?:[ ]?(?:-|to|and|,)[ ]?\d+(?:\.\d+)*)*)"
    r"|\[\d{1,3}\]|【\d{1,3}】"
    rf"|(?m:^[ \t>*-]*(?:\d{{1,2}}(?:\.(?!\d)|[、)）])"
    rf"|[（(](?:\d{{1,2}}|[{_HAN}]{{1,3}})[）)]|[{_HAN}]{{1,3}}、)[ \t]*)"
    r"|（[一二三四五六七八九十]{1,3}）"
)


def figures(text: str) -> Iterator[Figure]:
    """Every figure in ``text``, in order; labels, list marks and citation marks are none."""
    plain = text.translate(_WIDE)
    hidden = [match.span() for match in _LABEL.finditer(plain)]
    at = 0
    for match in _TOKEN.finditer(plain):
        while at < len(hidden) and hidden[at][1] <= match.start():
            at += 1
        if at < len(hidden) and hidden[at][0] < match.end():
            continue
        found = _figure(match, plain)
        if found is not None:
            yield found


def held(text: str) -> frozenset[Key]:
    """What evidence holds: each figure, and what follows from a date (its year, its month, month and day)."""
    found: set[Key] = set()
    for figure in figures(text):
        kind, value = figure.key
        found.add(figure.key)
        if kind == "d":
            year, month, day = cast("tuple[int | None, int | None, int | None]", value)
            found |= {
                ("d", (year, None, None)),
                ("d", (year, month, None)),
                ("d", (None, month, day)),
                ("n", Fraction(year or 0)),
            }
    return frozenset(found)


def claimed(text: str) -> list[Figure]:
    """What a sentence claims: its figures but for turns of speech."""
    return [figure for figure in figures(text) if not figure.loose]


def date_key(iso: str | None) -> Key | None:
    """The key of an ISO day."""
    match = re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})", iso or "")
    return None if match is None else ("d", (int(match[1]), int(match[2]), int(match[3])))


def supports(key: Key, evidence: frozenset[Key]) -> bool:
    """Whether evidence holds what a sentence claims; a year is a number like any other."""
    if key in evidence:
        return True
    kind, value = key
    if kind != "d":
        return False
    year, *rest = cast("tuple[int | None, int | None, int | None]", value)
    return rest == [None, None] and ("n", Fraction(year or 0)) in evidence


def _figure(match: re.Match[str], text: str) -> Figure | None:
    group, start, end = match.lastgroup, match.start(), match.end()
    g = match.groupdict()
    if g["date"]:
        month, day = g["m"] or g["m2"] or g["m3"], g["d"] or g["d2"] or g["d3"]
        return Figure(("d", (int(g["y"]), int(month), int(day))), start, end)
    if g["han"]:
        return _han_date(g, text, start, end)
    if g["hyear"]:
        return Figure(("d", (_whole(g["hyear"]), None, None)), start, end)
    if g["en"]:
        day, month, year = g["ed"] or g["ed2"], g["em"] or g["em2"], g["ey"] or g["ey2"]
        return Figure(("d", (int(year), _MONTHS[month.lower()], int(day))), start, end)
    if g["version"] or g["clock"]:
        return Figure(("v", (g["version"] or g["clock"]).replace("：", ":")), start, end)
    if g["share"]:
        value = _decimal(g["part"])
        return (
            None
            if value is None
            else Figure(("r", value / {"百": 100, "千": 1000, "万": 10_000}[g["per"]]), start, end)
        )
    if g["frac"]:
        low, high = _decimal(g["low"]), _decimal(g["high"])
        return None if not low or high is None else Figure(("r", high / low), start, end)
    if g["num"]:
        return _number(g, start, end)
    if g["zh"]:
        return _chinese(g["zh"], text, start, end)
    return None if group is None else _english(g, start, end)


def _han_date(g: dict[str, str | None], text: str, start: int, end: int) -> Figure | None:
    year, month = g["hy"], _whole(g["hm"] or "")
    day = _whole(g["hd"]) if g["hd"] else None
    if year is None and day is None:  # 三月 alone is a month, 3个月 never comes here
        return Figure(("d", (None, month, None)), start, end, loose=True)
    return Figure(("d", (None if year is None else _whole(year), month, day)), start, end)


def _number(g: dict[str, str | None], start: int, end: int) -> Figure:
    digits = re.match(_DIGITS, g["num"] or "")
    assert digits is not None, "the pattern begins with digits"
    value = Fraction(digits[0].replace(",", ""))
    for unit in g["large"] or "":
        value *= (_LARGE | _UNITS)[unit]
    pct = g["pct"]
    if pct:
        return Figure(("r", value / (1000 if pct.strip() == "‰" else 100)), start, end)
    return Figure(("n", value), start, end)


def _chinese(numeral: str, text: str, start: int, end: int) -> Figure | None:
    value = _decimal(numeral)
    if value is None:
        return None
    after = text[end:]
    single = len(numeral) == 1
    if numeral in ("万", "亿", "千", "百", "千万", "十"):
        measured = re.match(_MEASURES, after) is not None and numeral != "千万"
        return Figure(("n", value), start, end, loose=not measured or after[:1] == "分")
    if numeral in ("一", "两", "零", "〇"):
        measured = _FEW.match(after) is not None and not re.match(r"(?:年级|日常|时|定|周边|月份?度)", after)
        return Figure(
            ("n", value), start, end, loose=not measured or text[max(start - 1, 0) : start] in tuple("统同唯万之第每任")
        )
    measured = re.match(_MEASURES + r"|[个名位项件次种份条款]", after) is not None
    return Figure(("n", value), start, end, loose=single and not measured)


def _english(g: dict[str, str | None], start: int, end: int) -> Figure:
    words = re.findall(r"[a-z]+", (g["word"] or "").lower())
    value = sum(_ENGLISH.get(word, 0) for word in words)
    if "hundred" in words:
        value = max(value, 1) * 100
    if g["wpct"]:
        return Figure(("r", Fraction(value, 100)), start, end)
    return Figure(("n", Fraction(value)), start, end, loose=value <= 1)


def _whole(numeral: str) -> int:
    """A year or a day: digits, digits written in Chinese one by one, or a numeral."""
    if numeral.isascii():
        return int(numeral)
    if not any(c in _UNITS for c in numeral):
        return int("".join(str(_HAN_DIGITS[c]) for c in numeral))
    return int(_decimal(numeral) or 0)


def _decimal(numeral: str) -> Fraction | None:
    """The value of Chinese or Arabic digits; None for what is no numeral."""
    if numeral[0].isascii():
        return Fraction(numeral.replace(",", ""))
    whole, _, rest = numeral.partition("点")
    if not whole:
        return None
    if len(whole) > 1 and not any(c in _UNITS or c in _LARGE for c in whole):
        value = Fraction(int("".join(str(_HAN_DIGITS[c]) for c in whole)))
    else:
        value = Fraction(_units(whole))
    if rest:
        value += Fraction(int("".join(str(_HAN_DIGITS[c]) for c in rest)), 10 ** len(rest))
    return value


def _units(numeral: str) -> int:
    total, section, digit = 0, 0, 0
    for c in numeral:
        if c in _LARGE:
            part = (section + digit or 1) * _LARGE[c]
            total = (total + section + digit or 1) * _LARGE[c] if c == "亿" else total + part
            section = digit = 0
        elif c in _UNITS:
            section += (digit or 1) * _UNITS[c]
            digit = 0
        else:
            digit = _HAN_DIGITS[c]
    return total + section + digit
