"""Dates that a sentence says of its source: since when it is in force, when it was revised (pure)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

from devassist.core.figures_in_text import Key, claimed, date_key
from devassist.core.retrieved import Evidence

_IN_FORCE_AFTER = re.compile(r"\s*(?:起)?(?:正式)?(?:施行|实施|生效|执行)")
_IN_FORCE_BEFORE = re.compile(
    r"(?:(?:施行|实施|生效)(?:日期|时间)?(?:为|是|于|[:：])?"
    r"|(?i:\b(?:in force|effective)(?: (?:date|from|since|as of|as from|on))?:?))\s*$"
)
_REVISED_AFTER = re.compile(r"\s*(?:第[一二三四五六七八九十]+次)?(?:修订|修正|修改)")
_REVISED_BEFORE = re.compile(
    r"(?:(?:修订|修正|修改)(?:日期|时间)?(?:为|是|于|[:：])?|(?i:\b(?:revised|amended)(?: on)?:?))\s*$"
)


class SourceDate(NamedTuple):
    key: Key
    of: Literal["force", "revision"]
    start: int
    end: int


def dates_of(said: str) -> list[SourceDate]:
    """The dates that a sentence's own words bind to its source."""
    found: list[SourceDate] = []
    for figure in claimed(said):
        if figure.key[0] != "d":
            continue
        before, after = said[: figure.start], said[figure.end :]
        if _REVISED_AFTER.match(after) or _REVISED_BEFORE.search(before):
            found.append(SourceDate(figure.key, "revision", figure.start, figure.end))
        elif _IN_FORCE_AFTER.match(after) or _IN_FORCE_BEFORE.search(before):
            found.append(SourceDate(figure.key, "force", figure.start, figure.end))
    return found


def dates_fit(date: SourceDate, one: Evidence) -> bool:
    """Whether the clause's revision has that date; of a date that names no day, what it names."""
    known = (one.effective_date, one.valid_from) if date.of == "force" else (one.revision_date,)
    return any(_same(date.key, key) for iso in known if (key := date_key(iso)) is not None)


def _same(said: Key, known: Key) -> bool:
    mine, theirs = cast("tuple[int | None, ...]", said[1]), cast("tuple[int | None, ...]", known[1])
    return all(part is None or part == whole for part, whole in zip(mine, theirs, strict=True))
