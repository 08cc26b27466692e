"""The text protocol's grammar: where a reply decides, and which of its parts are reasoning, protocol or answer.

``locate`` finds the first decision of a reply. Whether it is a final answer depends only on the text up to and
including its marker, so the streaming filter (release.py) asks the same function about a prefix that the parser
(react.py) asks about the whole: the two cannot drift apart. Patterns are bounded and compiled once; every function is
linear in its input and total on any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

SPACE = r"[ \t\xa0\u3000]{0,8}"
_PAD = r"[ \t\xa0\u3000\ufeff\u200b#>*_`~+\-]{0,16}"
_BOLD = r"[*_`]{0,3}"
_COLON = rf"{_BOLD}{SPACE}[:：]{_BOLD}"
_GAP = rf"{SPACE}(?:\r?\n{SPACE})?"
_NUMBER = r"(?: ?\d{1,2})?"
_ACTION = rf"(?:(?i:action){_NUMBER}|行动|动作)"
_FINAL = rf"(?i:final(?:[ _]answer)?){_BOLD}{SPACE}[:：]"
_ANSWER = rf"(?:(?i:final[ _]answer)|最终答案){_BOLD}{SPACE}[:：]"

_DECIDES = (
    rf"{_PAD}(?:{_ACTION}{_COLON}{_GAP}{_BOLD}(?:(?P<tool>(?i:tool){SPACE}[:：])|(?P<final>{_FINAL}))"
    # A bare Chinese word is ordinary prose; only the English keyword decides without "tool:" or "final:".
    rf"|(?P<answer>{_ANSWER})|(?P<other>(?i:action){_NUMBER}{_COLON}))"
)
_AT_START = re.compile(_DECIDES)
# The literal newline in front lets the regex engine skip from line to line.
_AT_LINE = re.compile("\n" + _DECIDES)
FINAL_HINT = re.compile(rf"(?:\A|[\n>▷\]]){_PAD}(?:{_ACTION}{_COLON}{_GAP}{_BOLD}{_FINAL}|{_ANSWER})")
"""Worth asking ``locate`` about; ``HINT_WINDOW`` characters hold any such marker."""
HINT_WINDOW = 128

THOUGHT = re.compile(rf"(?:\s*(?:```|~~~)\w*\s*\n)?\s*{_PAD}(?:(?i:thought){_NUMBER}|思考|想法){_COLON}")
ARGS = re.compile(rf"\s*{_PAD}(?i:args|arguments|action[ _]input|parameters|参数){_COLON}")
RESIDUE = re.compile(
    rf"(?m)^{_PAD}(?i:thought|action|observation|args|arguments|action[ _]input|final[ _]answer){_NUMBER}{_COLON}"
)
"""A line that shows that the model meant the protocol, though it decided nothing."""
FENCE = re.compile(r"(?m)^[ \t]{0,3}(```+|~~~+)")

_THINK = r"(?:seed:)?(?i:think|thinking|thought|reasoning)"
# No tag may hold the first character of another, or a stream could recognise the inner one before the outer.
_WITHIN = r"[^<>◁\[\n]"
_SPECIAL = r"<[|｜][^<>◁\[|｜\n]{1,40}[|｜]>"
_CALL = rf"(?:[a-z]{{1,12}}:)?(?:tool_calls?|toolcall|function_calls?)>|(?:function=|invoke name=){_WITHIN}{{1,80}}>"
TAG = re.compile(
    rf"<(?P<close>/)?(?:(?P<think>{_THINK}) ?>|(?P<call>{_CALL}))|(?P<special>{_SPECIAL})"
    r"|◁(?P<close2>/)?(?P<think2>think)▷|\[(?P<close3>/)?(?P<think3>THINK)\]|(?P<list>\[TOOL_CALLS\])"
)
TAG_BEGUN = re.compile(
    rf"(?:</?(?:[A-Za-z:_]{{0,28}} ?|invoke [a-z]{{0,4}}(?:={_WITHIN}{{0,80}})?|function={_WITHIN}{{0,80}})"
    r"|<[|｜][^<>◁\[|｜\n]{0,40}[|｜]?|◁/?[a-z]{0,5}|\[/?[A-Z_]{0,10})\Z"
)
"""A tail that may still grow into a TAG (and sometimes cannot: then it is only held a little longer)."""
TAG_WINDOW = 128
_CALLS_TOKEN = re.compile(r"tool|python_tag|channel|DSML")

TagKind = Literal["open", "close", "call", "noise"]


def tag_kind(tag: re.Match[str]) -> TagKind:
    """What a TAG is: reasoning opens or closes, a tool call is written out, or noise such as an end-of-turn token."""
    if tag["think"] or tag["think2"] or tag["think3"]:
        return "close" if tag["close"] or tag["close2"] or tag["close3"] else "open"
    if tag["special"]:
        return "call" if _CALLS_TOKEN.search(tag["special"]) else "noise"
    return "call" if (tag["call"] or tag["list"]) and not tag["close"] else "noise"


def find_tags(text: str, start: int = 0) -> Iterable[re.Match[str]]:
    """All tags from ``start`` on, without a regex scan where the text cannot hold one."""
    return TAG.finditer(text, start) if _may_hold_tag(text, start, len(text)) else ()


def _may_hold_tag(text: str, start: int, end: int) -> bool:
    # Written out: this runs on every reply, and a generator would cost more than the three searches.
    return text.find("<", start, end) >= 0 or text.find("[", start, end) >= 0 or text.find("◁", start, end) >= 0


def holds_tag(text: str, start: int = 0, end: int | None = None) -> bool:
    """Whether a tag stands between ``start`` and ``end``."""
    end = len(text) if end is None else end
    return _may_hold_tag(text, start, end) and TAG.search(text, start, end) is not None


def stray_close(text: str, start: int) -> int | None:
    """End of the first closing reasoning tag after ``start`` that nothing after ``start`` opened."""
    inside = False
    for tag in find_tags(text, start):
        kind = tag_kind(tag)
        if kind == "close" and not inside:
            return tag.end()
        if kind in ("open", "close"):
            inside = kind == "open"
    return None


@dataclass(frozen=True, slots=True)
class Mark:
    """The first decision of a reply.

    ``tool``/``other``: an Action line, its value begins at ``end`` (``other``: neither ``tool:`` nor ``final:``);
    ``final``: the answer begins at ``end``; ``call``: a tool call in a model's own tags, ``end`` is where the tag
    begins; ``none``: nothing decides; ``unclosed``: nothing does, and the reasoning was never ended. ``prelude`` is
    what came before, without reasoning. ``regular`` tells that no closing tag that may still come can turn the part
    before it into reasoning.
    """

    kind: Literal["tool", "final", "other", "call", "none", "unclosed"]
    start: int
    end: int
    prelude: str
    regular: bool = False


def locate(text: str, start: int = 0) -> Mark:
    """The first decision at or after ``start`` outside reasoning.

    Chat templates may open the reasoning themselves, so that only its end arrives: a closing tag that nothing opened
    makes all before it reasoning. After a closing tag a line begins.
    """
    marker = _AT_START.match(text, start) or _AT_LINE.search(text, start)
    if marker is not None and not holds_tag(text, start, marker.start()):
        return _marked(marker, text[start : marker.start()], regular=start == 0)
    pieces: list[str] = []
    at, inside, regular = start, False, start == 0
    for tag in find_tags(text, start):
        if not inside and marker is not None and marker.start() < tag.start():
            break
        kind = tag_kind(tag)
        if kind == "open":
            # Reasoning that names its own opening tag may end later than its first closing tag.
            regular = regular and not inside
            if not inside:
                pieces.append(text[at : tag.start()])
            inside = True
        elif kind == "close":
            if not inside:
                pieces.clear()
                regular = False
            inside, at = False, tag.end()
            if marker is not None and marker.start() < at:
                marker = _AT_START.match(text, at) or _AT_LINE.search(text, at)
            elif here := _AT_START.match(text, at):
                marker = here
        elif kind == "call" and not inside:
            pieces.append(text[at : tag.start()])
            return Mark("call", tag.start(), tag.start(), "".join(pieces))
    if inside:
        return Mark("unclosed", len(text), len(text), "".join(pieces))
    if marker is None:
        pieces.append(text[at:])
        return Mark("none", len(text), len(text), "".join(pieces))
    pieces.append(text[at : marker.start()])
    return _marked(marker, "".join(pieces), regular)


def _marked(marker: re.Match[str], prelude: str, regular: bool) -> Mark:
    if marker["tool"]:
        return Mark("tool", marker.start(), marker.end(), prelude)
    if marker["other"]:
        return Mark("other", marker.start(), marker.end(), prelude)
    # Reasoning hardly begins with a keyword of the protocol; prose may be the inside of a block opened by the template.
    begins = not prelude or prelude.isspace() or THOUGHT.match(prelude) is not None
    return Mark("final", marker.start(), marker.end(), prelude, regular and begins and FENCE.search(prelude) is None)


@dataclass(frozen=True, slots=True)
class Opening:
    """Where an answer begins. ``adorned``: its keywords were bold. ``unsure``: the next characters decide.

    ``bold`` is a mark that was opened before the answer and not closed where it begins.
    """

    start: int
    adorned: bool
    unsure: bool = False
    bold: str = ""


def opening(text: str, mark: Mark) -> Opening:
    """Skip the mark that closes ``**Action: final:**``, but no mark that belongs to the answer."""
    marker = text[mark.start : mark.end]
    for bold in ("**", "__", "`"):
        if bold in marker:
            if marker.count(bold) % 2 == 0:
                return Opening(mark.end, adorned=True)
            if text.startswith(bold, mark.end):
                return Opening(mark.end + len(bold), adorned=True)
            return Opening(mark.end, True, unsure=len(text) < mark.end + len(bold), bold=bold)
    return Opening(mark.end, adorned=False)
