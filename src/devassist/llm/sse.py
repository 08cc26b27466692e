"""Server-sent events (WHATWG HTML, "interpreting an event stream"): bytes in, events out. Pure; no clock, no socket.

Lines end only at CR, LF or CRLF, so U+2028 and U+0085 are data. A chunk may begin and end anywhere, also inside a
CRLF or a UTF-8 sequence: nothing is decoded here, and the events are the same for every chunking of the same bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_LF = 0x0A


class SseEvent(NamedTuple):
    """One dispatched event: its data lines joined by LF, and its type (empty when none was given)."""

    data: bytes
    event: bytes = b""


class EventTooLong(ValueError):
    """A line, or the data of one event, is longer than the reader accepts."""


class SseParser:
    """An incremental reader. ``feed`` and ``flush`` return the events that the bytes so far completed.

    ``limit`` bounds, in bytes, every line and the data of every event; beyond it EventTooLong is raised and the reader
    must not be used again. Comments and the fields ``id`` and ``retry`` are skipped.
    """

    __slots__ = ("_data", "_event", "_first", "_limit", "_parts", "_pending", "_size", "_skip_lf")

    def __init__(self, limit: int = 1 << 20) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # the unfinished line, joined only when its end arrives
        self._pending = 0  # bytes in _parts
        self._data: list[bytes] = []
        self._size = 0  # bytes in _data
        self._event = b""
        self._first = True
        self._skip_lf = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes. Raises EventTooLong."""
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if b"\r" in chunk:
            lines = _LINE_END.split(chunk)
            self._skip_lf = chunk.endswith(b"\r")
        else:
            lines = chunk.split(b"\n")
        tail = lines.pop()
        events: list[SseEvent] = []
        if lines:
            if self._parts:
                self._parts.append(lines[0])
                lines[0] = b"".join(self._parts)
                self._parts.clear()
                self._pending = 0
            for line in lines:
                self._line(line, events)
        if tail:
            self._parts.append(tail)
            self._pending += len(tail)
            if self._pending > self._limit:
                raise EventTooLong(f"a line is longer than {self._limit} bytes")
        return events

    def flush(self) -> list[SseEvent]:
        """The stream has ended: also give an event whose last line or closing blank line is missing.

        The standard drops such an event; real providers forget the last line feed. Whether it is whole is for the
        caller to judge from its data.
        """
        events: list[SseEvent] = []
        if self._parts:
            line = b"".join(self._parts)
            self._parts.clear()
            self._pending = 0
            self._line(line, events)
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(SseEvent(data, self._event))
                self._data.clear()
                self._size = 0
            self._event = b""
            return
        if len(line) > self._limit:
            raise EventTooLong(f"a line is longer than {self._limit} bytes")
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._size += len(value) + 1
            if self._size > self._limit:
                raise EventTooLong(f"the data of an event is longer than {self._limit} bytes")
            self._data.append(value)
        elif name == b"event":
            self._event = value.removeprefix(b" ")
