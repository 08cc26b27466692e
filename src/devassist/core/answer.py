"""The text of an answer, cleaned piece by piece: what a reply wrote after ``Action: final:``.

``AnswerCleaner`` gives the same text for every way to cut its input: it releases a character only once nothing that
may follow can take it back. It leaves out reasoning blocks, tags and tokens of the model's own template, and all from
the line on where the model goes on playing both sides of the protocol (``Observation:``, ``Thought:``, another
``Action: tool:``) outside a code fence. White space at both ends is no part of an answer.
"""

from __future__ import annotations

import re
from typing import Literal

from devassist.core.grammar import SPACE, TAG_BEGUN, TAG_WINDOW, find_tags, holds_tag, tag_kind

_COLON = rf"{SPACE}[:：]"
_GAP = rf"{SPACE}(?:\r?\n{SPACE})?"
_INDENT = r"[ \t]{0,3}"
_ARGS = r"(?i:args|action[ _]input)"


def _going_on(bold: str) -> re.Pattern[str]:
    """A line that goes on with the protocol. Bold words count only where the reply's own keywords were bold."""
    begin = rf"{_INDENT}{bold}"
    action = rf"(?:(?i:action)|行动|动作){bold}{_COLON}{bold}"
    return re.compile(
        rf"{begin}(?:(?i:observation|thought)(?: ?\d{{1,2}})?{bold}{_COLON}"
        rf"|{action}{_GAP}{bold}(?:(?i:tool)|(?i:final){bold}){_COLON}"
        rf"|{action}{SPACE}`?[\w.\-]{{1,64}}`?[ \t]{{0,8}}\r?\n{begin}{_ARGS}{bold}{_COLON})"
    )


def _growing(*atoms: str) -> str:
    """A pattern for every beginning of the sequence of ``atoms``, each of which has no proper beginning of its own."""
    pattern = ""
    for atom in reversed(atoms):
        pattern = f"(?:{atom}{pattern})?"
    return pattern


def _beginnings(bold: str) -> re.Pattern[str]:
    """What may still become ``_going_on``; at most some hundred characters."""
    colon = (bold, SPACE, "[:：]")
    action = [(*word, bold, SPACE, "[:：]", bold) for word in (tuple("action"), tuple("行动"), tuple("动作"))]
    gap = (SPACE, r"\r?", r"\n?", SPACE)
    tails: list[tuple[str, ...]] = [
        (*"observation", " ?", r"\d{0,2}", *colon),
        (*"thought", " ?", r"\d{0,2}", *colon),
    ]
    for start in action:
        tails.append((*start, *gap, bold, *"tool", SPACE, "[:：]"))
        tails.append((*start, *gap, bold, *"final", *colon))
        name = (SPACE, "`?", r"[\w.\-]{0,64}", "`?", r"[ \t]{0,8}", r"\r?", r"\n?", _INDENT, bold)
        tails.append((*start, *name, *"args", *colon))
        tails.append((*start, *name, *"action", "[ _]", *"input", *colon))
    return re.compile(rf"{_INDENT}{bold}(?i:{'|'.join(_growing(*tail) for tail in tails)})")


_PATTERNS = {bold != "": (_going_on(bold), _beginnings(bold)) for bold in ("", r"[*_`]{0,3}")}
_FENCE = re.compile(r"[ \t]{0,3}(`{3,16}+|~{3,16}+)([^\n]{0,200}+)\n")
_FENCE_BEGUN = re.compile(r"[ \t]{0,3}(?:`{1,2}|~{1,2}|(?:`{3,16}+|~{3,16}+)[^\n]{0,200})?")
_NEEDS_CARE = re.compile(r"[\n<\[◁]")
_KEYWORD_LINE = re.compile(r"\n[ \t*_`]*(?:(?i:observation|thought|action)|行动|动作)")


def clean(body: str, *, adorned: bool = False, protocol: bool = True) -> tuple[str, str]:
    """The text of a whole answer, and what the model wrote after it."""
    if not holds_tag(body) and (not protocol or _KEYWORD_LINE.search(body) is None):
        return body.strip(), ""
    cleaner = AnswerCleaner(adorned=adorned, protocol=protocol)
    text = cleaner.feed(body) + cleaner.finish()
    return text, "".join(cleaner.discarded)


class AnswerCleaner:
    """Feed it the raw text after the marker; what it returns can be shown at once. ``cut`` once nothing more counts."""

    __slots__ = (
        "_begun",
        "_blank",
        "_depth",
        "_fence",
        "_first",
        "_going_on",
        "_growing",
        "_held",
        "_mid_line",
        "_protocol",
        "_raw",
        "cut",
        "discarded",
    )

    def __init__(self, *, adorned: bool = False, protocol: bool = True) -> None:
        """``protocol`` False: no line ends the answer, only tags are taken out."""
        self._going_on, self._growing = _PATTERNS[adorned]
        self._protocol = protocol
        self._raw: str = ""  # may still become a tag
        self._held: str = ""  # a line whose beginning may still become protocol, or a fence
        self._first = True  # the marker stands on this line, so no other can begin it
        self._mid_line = False
        self._depth = 0  # reasoning blocks may be nested in an answer; none of their text may leak
        self._fence = ""
        self._begun = False
        self._blank: list[str] = []
        self.cut = False
        self.discarded: list[str] = []

    def feed(self, chunk: str) -> str:
        """Take the next piece; return what can be released."""
        if self.cut:
            self.discarded.append(chunk)
            return ""
        out: list[str] = []
        if self._mid_line and not self._raw and not self._depth and not _NEEDS_CARE.search(chunk):
            self._emit(chunk, out)
            return "".join(out)
        text, at = self._raw + chunk, 0
        for tag in find_tags(text):
            self._visible(text[at : tag.start()], out)
            kind = tag_kind(tag)
            if kind == "open":
                self._depth += 1
            elif kind == "close":
                self._depth = max(0, self._depth - 1)
            elif kind == "call" and self._protocol and self._depth == 0 and self._at_line_start():
                self.cut = True
            if self.cut:
                at = tag.start()
                break
            at = tag.end()
        if self.cut:
            self._raw = ""
            self.discarded.append(text[at:])
            return "".join(out)
        begun = TAG_BEGUN.search(text, max(at, len(text) - TAG_WINDOW))
        end = begun.start() if begun else len(text)
        self._visible(text[at:end], out)
        if self.cut:
            self.discarded.append(text[end:])
        else:
            self._raw = text[end:]
        return "".join(out)

    def finish(self) -> str:
        """Nothing more comes: release what was only held because something might."""
        out: list[str] = []
        self._visible(self._raw, out)
        if not self.cut:
            self._emit(self._held, out)
        self._raw = self._held = ""
        return "".join(out)

    def _at_line_start(self) -> bool:
        return not self._fence and not self._held.strip() and not (self._mid_line and self._begun)

    def _visible(self, text: str, out: list[str]) -> None:
        """Go line by line: a line's beginning decides what the line is, the rest of it passes."""
        if self._depth or self.cut:
            return
        text, at = self._held + text, 0
        while at < len(text):
            if self._mid_line:
                end = text.find("\n", at) + 1
                self._emit(text[at : end or len(text)], out)
                self._mid_line, self._first = end == 0, self._first and end == 0
                at = end or len(text)
                continue
            line = self._classify(text, at)
            if line == "held":
                break
            if line == "protocol":
                self.cut = True
                self.discarded.append(text[at:])
                at = len(text)
            self._mid_line = True
        self._held = text[at:]

    def _classify(self, text: str, at: int) -> Literal["held", "protocol", "plain"]:
        if self._protocol and not self._fence and not self._first:
            if self._going_on.match(text, at):
                return "protocol"
            if self._growing.fullmatch(text, at):
                return "held"
        fence = _FENCE.match(text, at)
        if fence is None:
            return "held" if _FENCE_BEGUN.fullmatch(text, at) else "plain"
        mark, rest = fence[1], fence[2]
        if not self._fence:
            if mark[0] not in rest:
                self._fence = mark
        elif mark.startswith(self._fence) and not rest.strip():
            self._fence = ""
        return "plain"

    def _emit(self, text: str, out: list[str]) -> None:
        """Release ``text`` but for white space at either end of the answer."""
        shown = text.rstrip()
        if not shown:
            if self._begun:
                self._blank.append(text)
            return
        if self._begun:
            out.extend(self._blank)
        else:
            text, shown = text.lstrip(), shown.lstrip()
        self._begun = True
        out.append(shown)
        self._blank = [text[len(shown) :]]
