"""What one connection has had of a model attempt's text, so that what it was sent joins to the answer.

A client keeps ``partial`` and appends deltas; a delta of a higher ``attempt``, or any ``reset``, starts it over.
Offsets count code points. Pieces may come twice, overlap, or be lost: what is known is trimmed, and after a gap nothing
more is sent until the missing text comes, at the latest when the answer is settled.
"""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]

CHUNK = 10_000
"""Characters of one message: six bytes each, at most, as JSON."""


class Heard:
    """Pure bookkeeping of one connection; methods return the messages to send."""

    __slots__ = ("_length", "_open", "_parts", "attempt")

    def __init__(self) -> None:
        self.attempt = 0
        self._open = False  # whether the connection had its one ``partial``
        self._parts: list[str] = []
        self._length = 0

    def partial(self, attempt: int, text: str) -> list[Message]:
        """The whole text of ``attempt`` so far."""
        if attempt < self.attempt:
            return self._opened()
        if self._open:
            return self._bring_to(attempt, text, whole=False)
        self.attempt, head = attempt, text[:CHUNK]
        self._forget()
        self._keep(head)
        self._open = True
        return [{"type": "partial", "text": head, "attempt": attempt}, *self._say(text[CHUNK:])]

    def delta(self, attempt: int, offset: int, content: str) -> list[Message]:
        """A piece of the text of ``attempt``."""
        if attempt < self.attempt or not content:
            return []
        had = self._length if attempt == self.attempt else 0
        if not offset <= had < offset + len(content):
            return []
        self._turn_to(attempt)
        return self._opened() + self._say(content[had - offset :])

    def reset(self, attempt: int) -> list[Message]:
        """The text of ``attempt`` begins anew."""
        if attempt != self.attempt or not self._length:
            return []
        self._forget()
        return [{"type": "reset", "attempt": attempt}]

    def settle(self, attempt: int, text: str) -> list[Message]:
        """Bring the connection to ``text``, the answer of ``attempt``."""
        return self._opened(attempt) + self._bring_to(max(attempt, self.attempt), text, whole=True)

    def _bring_to(self, attempt: int, text: str, *, whole: bool) -> list[Message]:
        """``whole`` False: the connection may already have more than ``text``."""
        stale = attempt != self.attempt and self._length > 0
        self._turn_to(attempt)
        if stale and not text:  # no delta would tell that the older attempt's text counts no more
            return [{"type": "reset", "attempt": attempt}]
        had = "".join(self._parts)
        if text.startswith(had):
            return self._say(text[len(had) :])
        if not whole and had.startswith(text):
            return []
        return [*self.reset(attempt), *self._say(text)]

    def _opened(self, attempt: int = 0) -> list[Message]:
        if self._open:
            return []
        self._open = True
        self._turn_to(max(attempt, self.attempt))
        return [{"type": "partial", "text": "", "attempt": self.attempt}]

    def _turn_to(self, attempt: int) -> None:
        if attempt != self.attempt:
            self.attempt = attempt
            self._forget()

    def _say(self, text: str) -> list[Message]:
        messages: list[Message] = []
        for start in range(0, len(text), CHUNK):
            piece = text[start : start + CHUNK]
            messages.append({"type": "delta", "content": piece, "offset": self._length, "attempt": self.attempt})
            self._keep(piece)
        return messages

    def _keep(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _forget(self) -> None:
        self._parts.clear()
        self._length = 0
