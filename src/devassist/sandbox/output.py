"""What a program prints, taken in with bounded memory: pure, fed with bytes as they come.

``Kept`` holds of one stream its first and last characters. ``Frames`` takes an engine's attached stream apart, finds
what the supervisor says in it (supervisor.py), and hands the rest to one ``Kept`` per stream.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

KEPT_CHARS = 10_000
"""Characters that are kept of each end of a stream."""
OUTPUT_BYTES = 256 << 20
"""A program that has written so much, both streams together, is killed."""
MARK = b"\0\x1e"
READY = MARK + b"ready\n"
_STDOUT, _STDERR = 1, 2
_HEADER = 8
_CUT_AT = 4 * KEPT_CHARS
"""The tail is cut to size when it is longer than this: seldom, so that one byte at a time costs no more than many."""


class Kept:
    """One stream: its first and last ``KEPT_CHARS`` characters, and how many lie between. Invalid UTF-8 is replaced."""

    __slots__ = ("_decoder", "_head", "_room", "_tail", "_tail_chars", "omitted")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head: list[str] = []
        self._room = KEPT_CHARS
        self._tail: list[str] = []
        self._tail_chars = 0
        self.omitted = 0

    def feed(self, data: bytes, *, last: bool = False) -> None:
        text = self._decoder.decode(data, last)
        if self._room:
            head = text[: self._room]
            self._head.append(head)
            self._room -= len(head)
            text = text[len(head) :]
        if text:
            self._tail.append(text)
            self._tail_chars += len(text)
            if self._tail_chars > _CUT_AT:
                self._cut()

    def _cut(self) -> None:
        joined = "".join(self._tail)
        self.omitted += max(0, len(joined) - KEPT_CHARS)
        self._tail = [joined[-KEPT_CHARS:]]
        self._tail_chars = len(self._tail[0])

    def text(self) -> str:
        """The stream, as the contract shows it: ``omitted`` is settled from here on."""
        self.feed(b"", last=True)
        self._cut()
        between = f"… {self.omitted} characters omitted …" if self.omitted else ""
        return "".join([*self._head, between, *self._tail])


@dataclass(frozen=True, slots=True)
class Trailer:
    """The supervisor's last word. ``status`` is negative for a signal, ``oom`` counts processes killed for memory."""

    status: int
    wall_us: int
    timed_out: bool
    oom: int


class Frames:
    """An attached stream of 8-byte headers and payloads. ``nonce`` (hex) is what the supervisor signs its end with.

    ``ready``: the supervisor stands. ``ended``: both streams have their trailer, so nothing follows. ``flooded``: more
    than ``most_bytes`` were written, and what follows is thrown away.
    """

    def __init__(self, nonce: bytes, most_bytes: int = OUTPUT_BYTES) -> None:
        self._streams = {_STDOUT: _Stream(nonce), _STDERR: _Stream(nonce)}
        self._most = most_bytes
        self._header = b""
        self._stream = _STDOUT
        self._left = 0
        self.ready = False
        self._before = b""
        self.written = 0

    @property
    def flooded(self) -> bool:
        return self.written > self._most

    @property
    def trailer(self) -> Trailer | None:
        return self._streams[_STDOUT].trailer

    @property
    def ended(self) -> bool:
        return all(stream.trailer is not None for stream in self._streams.values())

    @property
    def stdout(self) -> Kept:
        return self._streams[_STDOUT].kept

    @property
    def stderr(self) -> Kept:
        return self._streams[_STDERR].kept

    def finish(self) -> None:
        """Nothing more comes: what was held back as a possible trailer is the program's own."""
        for stream in self._streams.values():
            stream.finish()

    def feed(self, data: bytes) -> None:
        for stream, payload in self._payloads(data):
            if not self.ready:
                payload = self._after_ready(stream, payload)
            self.written += len(payload)
            if not self.flooded and payload:
                self._streams[stream].feed(payload)

    def _after_ready(self, stream: int, payload: bytes) -> bytes:
        """What follows the supervisor's first word; before that only an image that cannot run it writes."""
        if stream != _STDOUT:
            return payload
        self._before += payload
        if len(self._before) < len(READY) and READY.startswith(self._before):
            return b""
        payload, self._before = self._before, b""
        if payload.startswith(READY):
            self.ready = True
            return payload[len(READY) :]
        return payload

    def _payloads(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        at = 0
        while at < len(data):
            if not self._left:
                need = _HEADER - len(self._header)
                self._header += data[at : at + need]
                at += need
                if len(self._header) < _HEADER:
                    return
                self._stream = _STDERR if self._header[0] == _STDERR else _STDOUT
                self._left = int.from_bytes(self._header[4:], "big")
                self._header = b""
            payload = data[at : at + self._left]
            at += len(payload)
            self._left -= len(payload)
            yield self._stream, payload


class _Stream:
    """One stream up to its trailer. Bytes that may begin one are held back until it is clear what they are."""

    __slots__ = ("_held", "_mark", "kept", "trailer")

    def __init__(self, nonce: bytes) -> None:
        self._mark = MARK + nonce + b" "
        self._held = b""
        self.kept = Kept()
        self.trailer: Trailer | None = None

    def feed(self, payload: bytes) -> None:
        data = self._held + payload if self._held else payload
        at = data.find(self._mark)
        if at >= 0:
            if data.endswith(b"\n"):
                self.trailer = _trailer(data[at + len(self._mark) :])
                self._held = b""
            else:
                self._held = data[at:]
        else:
            at = self._possible(data)
            self._held = data[at:]
        self.kept.feed(data[:at])

    def finish(self) -> None:
        if self.trailer is None:
            self.kept.feed(self._held)
            self._held = b""

    def _possible(self, data: bytes) -> int:
        """Where an unfinished mark begins at the end of ``data``; it holds one NUL, its first byte."""
        at = data.rfind(b"\0", max(0, len(data) - len(self._mark)))
        return at if at >= 0 and self._mark.startswith(data[at:]) else len(data)


def _trailer(text: bytes) -> Trailer:
    status, wall_us, timed_out, oom = map(int, text.split())
    return Trailer(status, wall_us, bool(timed_out), oom)
