"""What of a reply may be shown while it is still being written: only text of its final answer, never protocol.

``ReleaseFilter`` takes raw content in pieces. For every way to cut a reply that is complete (neither cut off by the
token limit nor blocked) and has no native calls, what it returned joins to the text of ``parse``'s structured Final,
and to nothing where ``parse`` gives anything else. It shows an answer as it comes where the grammar makes sure that
nothing that follows can turn it into something else; for irregular replies it waits for the end and asks ``parse``.
Time is linear in the reply; what is held is the reply's head, later at most a line's beginning and white space.
"""

from __future__ import annotations

from devassist.core.answer import AnswerCleaner
from devassist.core.grammar import FINAL_HINT, HINT_WINDOW, locate, opening
from devassist.core.messages import ModelReply
from devassist.core.react import Final, parse

_MAX_LOOKS = 16
"""Markers that turn out to be none (say, inside reasoning) before the reply is left to its end; keeps time linear."""


class ReleaseFilter:
    """Feed it every piece, then ``finish`` once."""

    __slots__ = ("_cleaner", "_looks", "_parts", "_unsure", "_window")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._window: str = ""
        self._looks = 0
        self._unsure = False
        self._cleaner: AnswerCleaner | None = None

    def feed(self, chunk: str) -> str:
        """Take the next piece of raw content; return what can be shown now."""
        if self._cleaner is not None:
            return "" if self._cleaner.cut else self._cleaner.feed(chunk)
        self._parts.append(chunk)
        if self._looks >= _MAX_LOOKS or not chunk:
            return ""
        window = self._window + chunk
        # Every marker ends with a colon.
        hint = FINAL_HINT.search(window) if ":" in chunk or "：" in chunk else None
        if hint is None and not self._unsure:
            self._window = window[-HINT_WINDOW:]
            return ""
        self._window = window[hint.end() if hint else 0 :][-HINT_WINDOW:]
        self._looks += 1
        return self._look()

    def finish(self) -> str:
        """The reply is complete: return the rest."""
        if self._cleaner is not None:
            return self._cleaner.finish()
        decision = parse(ModelReply(text="".join(self._parts)), ())
        self._parts.clear()
        return decision.text if isinstance(decision, Final) else ""

    def _look(self) -> str:
        text = "".join(self._parts)
        self._parts = [text]
        mark = locate(text)
        if mark.kind in ("none", "unclosed"):
            return ""
        start = opening(text, mark)
        self._unsure = start.unsure
        if mark.kind != "final" or not mark.regular or start.bold:
            # Decided, but not as something to show while it comes; unless the next character closes a bold keyword.
            self._looks = self._looks if start.unsure else _MAX_LOOKS
            return ""
        self._cleaner = AnswerCleaner(adorned=start.adorned)
        self._parts.clear()
        return self._cleaner.feed(text[start.start :])
