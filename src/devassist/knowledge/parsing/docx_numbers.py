"""Numbers and bullets that Word prints but does not store: 第三条 may be nothing but a paragraph of a numbered list.

Counters run through the document as Word runs them: a level begins again when one above it goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from docx.oxml.ns import qn

from devassist.knowledge.parsing.numerals import numeral

_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_DEEPEST_STYLE = 20


def _roman(value: int) -> str:
    text = ""
    for size, letters in _ROMAN:
        while value >= size:
            text, value = text + letters, value - size
    return text


def _letters(value: int) -> str:
    return chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1)


def _chinese(value: int) -> str:
    return numeral(value) if 0 < value < 10_000 else str(value)


_FORMATS: dict[str, Callable[[int], str]] = {
    "decimal": str,
    "decimalZero": lambda value: f"{value:02d}",
    "lowerLetter": _letters,
    "upperLetter": lambda value: _letters(value).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda value: _roman(value).upper(),
    "decimalEnclosedCircle": lambda value: chr(0x245F + value) if value <= 20 else str(value),
    "decimalEnclosedCircleChinese": lambda value: chr(0x245F + value) if value <= 20 else str(value),
    **dict.fromkeys(
        ("chineseCounting", "chineseCountingThousand", "ideographDigital", "japaneseCounting", "taiwaneseCounting",
         "taiwaneseCountingThousand", "koreanCounting", "ideographTraditional"), _chinese,
    ),
}  # fmt: skip


class Numbering:
    """The lists of one document. ``mark`` must be asked for every numbered paragraph, in order."""

    def __init__(self, numbering: Any, styles: Any) -> None:
        self._levels: dict[str, dict[int, Any]] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._counters: dict[str, dict[int, int]] = {}
        self._owner: dict[str, str] = {}
        self._styles = (
            {style.get(qn("w:styleId")): style for style in styles.findall(qn("w:style"))} if styles is not None else {}
        )
        if numbering is None:
            return
        abstract = {each.get(qn("w:abstractNumId")): each for each in numbering.findall(qn("w:abstractNum"))}
        for num in numbering.findall(qn("w:num")):
            name = num.get(qn("w:numId"))
            owner = _value(num, "w:abstractNumId")
            base = abstract.get(owner)
            self._owner[name] = owner or name
            levels: Any = base.findall(qn("w:lvl")) if base is not None else ()
            self._levels[name] = {_int(level.get(qn("w:ilvl"))): level for level in levels}
            for override in num.findall(qn("w:lvlOverride")):
                level = _int(override.get(qn("w:ilvl")))
                start = _value(override, "w:startOverride")
                if start is not None:
                    self._starts[name, level] = _int(start)
                    self._owner[name] = name  # it counts for itself
                own = override.find(qn("w:lvl"))
                if own is not None:
                    self._levels[name][level] = own

    def place(self, paragraph: Any) -> tuple[str, int] | None:
        """The list that a paragraph belongs to, by itself or by its style, and its level from 0."""
        properties = paragraph.find(qn("w:pPr"))
        if properties is None:
            return None
        found = _list_of(properties)
        style = _value(properties, "w:pStyle")
        for _ in range(_DEEPEST_STYLE):
            if found is not None or style is None or style not in self._styles:
                break
            inherited = self._styles[style].find(qn("w:pPr"))
            found = _list_of(inherited) if inherited is not None else None
            style = _value(self._styles[style], "w:basedOn")
        if found is None or found[0] == "0" or found[0] not in self._levels:
            return None
        return found

    def mark(self, place: tuple[str, int]) -> str:
        """What Word prints before the next paragraph of this list and level; ``-`` for any bullet."""
        name, level = place
        counters = self._counters.setdefault(self._owner[name], {})
        for above in range(level):
            counters.setdefault(above, self._start(name, above))
        counters[level] = counters[level] + 1 if level in counters else self._start(name, level)
        for deeper in [each for each in counters if each > level]:
            del counters[deeper]
        definition = self._levels[name].get(level)
        form = _value(definition, "w:numFmt") if definition is not None else "decimal"
        text = (_value(definition, "w:lvlText") if definition is not None else f"%{level + 1}.") or ""
        if form == "bullet":
            return "-"
        if form == "none":
            return ""
        legal = definition is not None and definition.find(qn("w:isLgl")) is not None
        return re.sub(r"%([1-9])", lambda m: self._shown(name, int(m[1]) - 1, counters, legal), text).strip()

    def _start(self, name: str, level: int) -> int:
        definition = self._levels[name].get(level)
        stated = _value(definition, "w:start") if definition is not None else None
        return self._starts.get((name, level), _int(stated) if stated is not None else 1)

    def _shown(self, name: str, level: int, counters: dict[int, int], legal: bool) -> str:
        definition = self._levels[name].get(level)
        form = _value(definition, "w:numFmt") if definition is not None else None
        value = counters.get(level, 1)
        return str(value) if legal else _FORMATS.get(form or "decimal", str)(value)


def _list_of(properties: Any) -> tuple[str, int] | None:
    found = properties.find(qn("w:numPr"))
    name = _value(found, "w:numId") if found is not None else None
    return None if name is None else (name, _int(_value(found, "w:ilvl")))


def _value(element: Any, tag: str) -> str | None:
    if element is None:
        return None
    child = element.find(qn(tag))
    return None if child is None else child.get(qn("w:val"))


def _int(text: str | None) -> int:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else 0
