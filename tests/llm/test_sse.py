"""The event-stream reader: same events for every chunking, lines end only where the standard says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.llm.sse import EventTooLong, SseEvent, SseParser


def read(*chunks: bytes, limit: int = 1 << 20) -> list[SseEvent]:
    parser = SseParser(limit)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.flush()


def data_of(*chunks: bytes) -> list[bytes]:
    return [event.data for event in read(*chunks)]


def test_comments_and_unknown_fields_are_skipped() -> None:
    """Keep-alive comments, ids, retry hints and unknown fields give no event and lose none."""
    stream = b": ping\n\n:\n\nid: 7\nretry: 10\nnonsense\ndata: a\n\n: bye\n\ndata:b\n\n"
    assert data_of(stream) == [b"a", b"b"]


def test_data_lines_are_joined_by_a_line_feed() -> None:
    """Several data lines of one event are one text, and exactly one leading space is dropped."""
    assert data_of(b"data: {\ndata:  1\ndata:}\n\n") == [b"{\n 1\n}"]


def test_an_event_keeps_its_type_and_the_next_has_none() -> None:
    """The type belongs to one event, also when that event had no data."""
    assert read(b"event: error\ndata: x\n\ndata: y\n\nevent: lost\n\ndata: z\n\n") == [
        SseEvent(b"x", b"error"),
        SseEvent(b"y"),
        SseEvent(b"z"),
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    """CR, LF and CRLF end lines alike."""
    assert data_of(b"data: a" + end + b"data: b" + end + end + b"data: c" + end + end) == [b"a\nb", b"c"]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_other_line_separators_are_data(mark: str) -> None:
    """What str.splitlines takes for a line end is data here."""
    text = f"one{mark}two".encode()
    assert data_of(b"data: " + text + b"\n\n") == [text]


def test_a_byte_order_mark_is_dropped_once() -> None:
    """A BOM at the very beginning is no part of the first field's name, wherever the chunks are cut."""
    assert data_of(b"\xef", b"\xbb", b"\xbfdata: a\n\n") == [b"a"]


def test_an_event_without_its_last_line_end_is_given_at_the_end() -> None:
    """A provider that forgets the closing blank line, or even the last line feed, loses nothing."""
    assert data_of(b"data: a\n\ndata: [DONE]") == [b"a", b"[DONE]"]


def test_too_long_a_line_is_refused_before_it_ends() -> None:
    """A line that never ends does not fill the memory, and neither does an event of endless lines."""
    for chunks in ([b"x"] * 200, [b"data: x\n"] * 200, [b"data: " + b"x" * 200 + b"\n\n"]):
        with pytest.raises(EventTooLong):
            read(*chunks, limit=100)


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:",
        b"data: \xe4\xbd\xa0\xe5\xa5\xbd \xe2\x80\xa8 \xc2\x85 \xf0\x9f\x9a\x80",
        b": comment",
        b"event: error",
        b"id: 1",
        b"data",
        b"",
        b"",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_chunk_boundaries_mean_nothing(stream: bytes, cuts: list[int]) -> None:
    """However the bytes are cut, also inside CRLF and UTF-8 sequences, the events are the same."""
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    chunks = [stream[begin:end] for begin, end in pairwise(edges)]
    assert read(*chunks) == read(stream) == read(*(stream[at : at + 1] for at in range(len(stream))))


@given(st.binary(max_size=300))
def test_any_bytes_are_read(stream: bytes) -> None:
    """The reader is total: bytes from anywhere give events, never another error."""
    assert all(b"\r" not in event.data for event in read(stream))
