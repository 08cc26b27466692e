"""The header of a legal text (pure): its history, and from when it holds.

Two traps decide the rules. The day of adoption is not the day of effect: a law of December may hold from July. And the
day that is printed is often that of the first version: an amended text still ends with the old sentence, while the
amendment's own day stands in another document. So a printed day counts only when it is no earlier than the last entry
of the history; else the day of promulgation is assumed, and said to be assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from devassist.knowledge.parsing.cleaning import unblanked
from devassist.knowledge.parsing.numerals import number_of
from devassist.ports.knowledge_store import Action, Basis, HistoryEntry

_ZH_YEAR, _ZH_FEW = "[零〇○一二三四五六七八九]{4}", "[一二三四五六七八九十]{1,3}"
_PLAIN_DAY = (
    rf"(?:[12][0-9]{{3}}|{_ZH_YEAR})年(?:1[0-2]|0?[1-9]|{_ZH_FEW})月(?:3[01]|[12][0-9]|0?[1-9]|{_ZH_FEW})日"
    r"|[12][0-9]{3}-[0-9]{2}-[0-9]{2}"
)
_DAY = re.compile(
    rf"(?P<y>[12][0-9]{{3}}|{_ZH_YEAR})\s*年\s*(?P<m>1[0-2]|0?[1-9]|{_ZH_FEW})\s*月\s*"
    rf"(?P<d>3[01]|[12][0-9]|0?[1-9]|{_ZH_FEW})\s*日|(?P<iso>[12][0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}})"
)
_MONTHS = "January February March April May June July August September October November December".split()
_NAMES = "|".join(_MONTHS)
_ENGLISH_DAY = re.compile(
    rf"(?P<d1>[0-9]{{1,2}})(?:st|nd|rd|th)? (?P<n1>{_NAMES}),? (?P<y1>[0-9]{{4}})|"
    rf"(?P<n2>{_NAMES}) (?P<d2>[0-9]{{1,2}})(?:st|nd|rd|th)?,? (?P<y2>[0-9]{{4}})"
)
_TITLES = re.compile(r"《[^《》]*(?:《[^《》]*》[^《》]*)*》")
_ACTIONS: tuple[tuple[str, Action], ...] = (
    ("废止", "repealed"), ("修正", "amended"), ("修改", "amended"), ("修订", "revised"), ("更正", "corrected"),
    *((word, "adopted") for word in ("通过", "公布", "发布", "颁布", "批准", "制定", "印发")),
)  # fmt: skip
_PRINTED = ("公布", "发布", "颁布", "印发")
_TAKES_EFFECT = "(?:起)?(?:正式)?(?:施行|实施|生效|执行|实行)"
_SUBJECT = "(?:本|修订后的|修改后的)[^。；，,;]{0,12}?"
_STATED = re.compile(rf"{_SUBJECT}自(?P<day>{_PLAIN_DAY})(?:零时)?{_TAKES_EFFECT}")
_AT_ONCE = re.compile(rf"{_SUBJECT}自\s*(?:公布|发布|颁布|印发|通过)之日{_TAKES_EFFECT}")
_LATER = re.compile(rf"{_SUBJECT}自\s*(?:公布|发布|颁布|印发)之日起?[^。]{{1,12}}后{_TAKES_EFFECT}")
_STATED_EN = re.compile(
    r"\b(?:takes? effect|effective|(?:enters?|comes?) into force|applies)\s+(?:on|from|as of|as from)\s+",
    re.IGNORECASE,
)
_SESSION = re.compile(
    r"(?:审判委员会|检察委员会)?第[零〇一二三四五六七八九十百0-9]+(?:届|次[^第]{0,6}会议)|[0-9]+次会议|根据|经|由"
)
_ORDER = re.compile(r"(?P<by>[\u4e00-\u9fff、]{2,30}?)(?:令|公告)\s*(?:第?\s*[0-9零〇一二三四五六七八九十百]+\s*号)?")
_LONGEST_EVENT = 300
_LONGEST_BACKDATING = 366  # days; a text that says more was printed without the history of its amendments


@dataclass(frozen=True, slots=True)
class Validity:
    """From when a text holds, and how that is known."""

    promulgated_on: str | None
    effective_date: str | None
    basis: Basis
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """What the lines above a legal text say; ``rest`` are those that are no history."""

    history: tuple[HistoryEntry, ...]
    printed_on: str | None  # the last day on which the text was published, where the header says so
    effective: str | None  # a day of effect that stands in the header itself
    rest: tuple[str, ...]


def iso_day(text: str) -> str | None:
    """The first day that ``text`` names (2024年7月1日, 2024-07-01, 1 July 2024) as ISO; None if it never was."""
    match = _DAY.search(text)
    if match is not None:
        return _iso(match)
    match = _ENGLISH_DAY.search(text)
    if match is None:
        return None
    name: str = match["n1"] or match["n2"]
    month = [*_MONTHS].index(name) + 1
    return _checked(int(match["y1"] or match["y2"]), month, int(match["d1"] or match["d2"]))


def _iso(match: re.Match[str]) -> str | None:
    if match["iso"]:
        return _checked(*map(int, match["iso"].split("-")))
    year, month, day = (number_of(match[name].replace("○", "〇")) for name in ("y", "m", "d"))
    return _checked(year or 0, month or 0, day or 0)


def _checked(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def read_header(lines: Iterable[str]) -> Header:
    """Lines such as ``2018年10月26日 …通过``, one or several entries in each."""
    history: list[HistoryEntry] = []
    rest: list[str] = []
    printed = effective = None
    for line in _whole(lines):
        entries = _entries(line)
        used = False
        for day, event in entries:
            if re.match(rf"{_TAKES_EFFECT}", event):
                effective, used = day, True
                continue
            entry = _entry(day, event)
            if entry is None:
                continue
            used = True
            history.append(entry)
            if any(word in _TITLES.sub("", event) for word in _PRINTED):
                printed = day
        if not used:
            rest.append(line)
    history.sort(key=lambda entry: entry.date)
    return Header(tuple(history), printed, effective, tuple(rest))


def _whole(lines: Iterable[str]) -> list[str]:
    """Lines with what broke off them: a title that is still open, or a day without what happened on it."""
    found: list[str] = []
    for line in lines:
        if found and not _DAY.match(line) and _is_broken(found[-1]):
            found[-1] += line
        else:
            found.append(line)
    return found


def _is_broken(line: str) -> bool:
    if line.count("《") > line.count("》"):
        return True
    begins = _DAY.match(line)
    return begins is not None and all(
        _entry(day, event) is None and event[:2] != "施行" for day, event in _entries(line)
    )


def _entries(line: str) -> list[tuple[str, str]]:
    """(day, what happened) for each day outside of titles."""
    titles = [match.span() for match in _TITLES.finditer(line)]
    days = [m for m in _DAY.finditer(line) if not any(a <= m.start() < b for a, b in titles)]
    if (
        not days
        or len(line) > _LONGEST_EVENT * (len(days) + 1)
        or len(line[: days[0].start()].strip(" （(根据自")) > 20
    ):
        return []
    found: list[tuple[str, str]] = []
    for match, following in zip(days, [*days[1:], None], strict=True):
        event = line[match.end() : following.start() if following else len(line)]
        day = _iso(match)
        if day is not None:
            found.append((day, _trimmed(event)))
    return found


def _trimmed(event: str) -> str:
    """Without the blanks, brackets and conjunctions that join entries."""
    event = event.strip(" \t\u3000,，;；、")
    event = re.sub(r"[\s\u3000]*(?:根据|自|并?于)$", "", event).strip(" \t\u3000,，;；、。")
    for opening, closing in ("（）", "()"):
        while event.endswith(closing) and event.count(closing) > event.count(opening):
            event = event[:-1].rstrip()
    return event


def _entry(day: str, event: str) -> HistoryEntry | None:
    bare = _TITLES.sub("", event)
    titles = _TITLES.findall(event)
    action: Action | None = next((action for word, action in _ACTIONS if word in bare), None)
    amends = any("修正案" in title or "修改" in title for title in titles)
    if action is None and not amends:
        return None
    if action is None or (action == "adopted" and amends):
        action = "amended"
    order = _ORDER.match(bare)
    instrument = titles[0] if titles else order[0] if order and "号" in order[0] else None
    return HistoryEntry(day, _by(bare, titles), action, instrument)


def _by(bare: str, titles: Sequence[str]) -> str:
    """Who acted: what stands before the act or the instrument, or the one that the instrument's title names."""
    order = _ORDER.match(bare)
    if order:
        return order["by"]
    named = re.split(
        r"第[一二三四五六七八九十0-9]+次(?=修)|关于|通过|公布|发布|颁布|批准|修正|修订|修改|印发|制定|公告", bare
    )[0].strip(" 的根据决定")
    if not named and titles and "关于" in titles[0]:
        named = titles[0][1:].split("关于")[0]
    return named


def issuer_of(history: Sequence[HistoryEntry]) -> str | None:
    """Who made the text: for a law who adopted it, for a regulation the State Council even where a ministry published
    it first."""
    names = [name for entry in history if (name := _SESSION.sub("", entry.by).strip())]
    if any("国务院" in name for name in names):
        return "国务院"
    return names[0] if names else None


def validity(
    header: Header, closing: Sequence[str], *, named_on: str | None = None, lang: Literal["zh", "en"] = "zh"
) -> Validity:
    """From when a text holds.

    ``closing`` are the texts of its articles, in order; the last sentence about its taking effect counts. ``named_on``
    is a day in the file's name, which collections use for the version's.
    """
    warnings: list[str] = []
    history = header.history
    last = max((entry.date for entry in history), default=None)
    promulgated = max(filter(None, (last, header.printed_on)), default=None)
    if named_on is not None and (promulgated is None or named_on > promulgated):
        if promulgated is not None:
            warnings.append(f"The file's name says {named_on}, and its own history ends {promulgated}.")
        promulgated = named_on
    changed = any(entry.action in ("amended", "revised", "corrected") for entry in history) or (
        last is not None and promulgated is not None and promulgated > last
    )
    stated, at_once = _stated(closing, lang) if not header.effective else (header.effective, False)
    if header.effective and (promulgated is None or header.effective < promulgated):
        stated, at_once = _stated(closing, lang)
    if stated is not None and (promulgated is None or stated >= promulgated):
        return Validity(promulgated, stated, "stated", tuple(warnings))
    if (
        stated is not None
        and promulgated is not None
        and not changed
        and _days(stated, promulgated) <= _LONGEST_BACKDATING
    ):
        warnings.append(f"It says that it holds from {stated}, before it was promulgated on {promulgated}.")
        return Validity(promulgated, stated, "stated", tuple(warnings))
    if promulgated is None:
        return Validity(None, None, "unknown", tuple(warnings))
    if stated is not None:
        warnings.append(f"The printed day of effect, {stated}, is that of an earlier version.")
        return Validity(promulgated, promulgated, "assumed_promulgation", tuple(warnings))
    if at_once:
        is_stated = not changed and header.printed_on == promulgated
        return Validity(promulgated, promulgated, "stated" if is_stated else "assumed_promulgation", tuple(warnings))
    if any(_LATER.search(unblanked(text)) for text in closing[-5:]) and not changed:
        warnings.append("It takes effect some time after its promulgation, on a day that it does not print.")
        return Validity(promulgated, None, "unknown", tuple(warnings))
    return Validity(
        promulgated, promulgated if changed else None, "assumed_promulgation" if changed else "unknown", tuple(warnings)
    )


def _days(earlier: str, later: str) -> int:
    return (date.fromisoformat(later) - date.fromisoformat(earlier)).days


def _stated(closing: Sequence[str], lang: Literal["zh", "en"]) -> tuple[str | None, bool]:
    """The day of effect that the text prints, and whether it prints that it holds at once."""
    for text in reversed(closing):
        if lang == "en":
            match = _STATED_EN.search(text)
            if match and (day := iso_day(text[match.end() : match.end() + 30])):
                return day, False
            continue
        plain = unblanked(text)
        match = _STATED.search(plain)
        if match:
            return iso_day(match["day"]), False
        if _AT_ONCE.search(plain):
            return None, True
    return None, False
