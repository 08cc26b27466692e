"""What a program prints is taken in whole or with both its ends, however it comes, and nothing in it counts as more."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from devassist.sandbox.output import KEPT_CHARS, Frames, Kept

NONCE = b"0123456789abcdef" * 4
MARK = b"\0\x1e" + NONCE
READY = b"\0\x1eready\n"


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def shown(text: str) -> str:
    """The contract's rule, on the whole text."""
    between = len(text) - 2 * KEPT_CHARS
    if between <= 0:
        return text
    return f"{text[:KEPT_CHARS]}… {between} characters omitted …{text[-KEPT_CHARS:]}"


def in_pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [piece for piece in (*pieces, data) if piece]


@given(st.binary(max_size=200), st.integers(0, 600), st.lists(st.integers(0, 9000), max_size=12))
def test_a_stream_is_kept_whatever_it_holds(data: bytes, times: int, sizes: list[int]) -> None:
    """Decoded as a whole and cut in the middle, in however many pieces it came."""
    whole = data * times
    kept = Kept()
    for piece in in_pieces(whole, sizes):
        kept.feed(piece)
    assert kept.text() == shown(whole.decode("utf-8", "replace"))


def test_a_gigabyte_is_taken_in_little_memory() -> None:
    """The ends and the count are right, and less than two MiB were ever held."""
    kept, block = Kept(), b"x" * (1 << 16)
    tracemalloc.start()
    for _ in range(1 << 14):
        kept.feed(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"… {(1 << 30) - 2 * KEPT_CHARS} characters omitted …" in kept.text()
    assert peak < 2 << 20


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=80)), max_size=8),
    st.integers(-64, 255),
    st.lists(st.integers(0, 40), max_size=30),
)
def test_streams_are_told_apart_and_their_end_is_found(
    written: list[tuple[int, bytes]], status: int, sizes: list[int]
) -> None:
    """Every byte of the program is in its stream, none of the supervisor's is, cut where it may be."""
    trailer = MARK + f" {status} 1500 1 2\n".encode()
    data = b"".join(frame(stream, payload) for stream, payload in [(1, READY), *written, (1, trailer), (2, trailer)])
    frames = Frames(NONCE)
    for piece in in_pieces(data, sizes):
        assert not frames.ended
        frames.feed(piece)
    frames.finish()
    assert frames.ready
    assert frames.ended
    assert frames.trailer is not None
    assert (frames.trailer.status, frames.trailer.wall_us) == (status, 1500)
    assert (frames.trailer.timed_out, frames.trailer.oom) == (True, 2)
    for number, kept in ((1, frames.stdout), (2, frames.stderr)):
        assert kept.text() == b"".join(data for one, data in written if one == number).decode("utf-8", "replace")


@given(st.integers(1, len(MARK)), st.lists(st.integers(0, 30), max_size=10))
def test_what_only_begins_like_an_end_is_output(length: int, sizes: list[int]) -> None:
    """Held back while it may be one, shown when nothing more comes."""
    frames = Frames(NONCE)
    for piece in in_pieces(frame(1, READY) + frame(1, b"a" + MARK[:length]), sizes):
        frames.feed(piece)
    frames.finish()
    assert not frames.ended
    assert frames.stdout.text() == ("a" + MARK[:length].decode())


def test_another_nonce_ends_nothing() -> None:
    """A trailer that is signed otherwise is output."""
    forged = b"\0\x1e" + b"0" * 64 + b" 0 1 0 0\n"
    frames = Frames(NONCE)
    frames.feed(frame(1, READY) + frame(1, forged) + frame(2, forged))
    frames.finish()
    assert frames.trailer is None
    assert frames.stdout.text() == forged.decode()


def test_a_flood_is_counted_over_both_streams() -> None:
    """One byte above the bound; what follows is not kept."""
    frames = Frames(NONCE, most_bytes=100)
    frames.feed(frame(1, READY) + frame(1, b"a" * 60) + frame(2, b"b" * 40))
    assert not frames.flooded
    frames.feed(frame(1, b"c") + frame(2, b"d" * 50))
    assert frames.flooded
    assert (frames.stdout.text(), frames.stderr.text()) == ("a" * 60, "b" * 40)


def test_an_image_without_python_is_no_program() -> None:
    """What comes without the supervisor's first word leaves it not ready, and is there to be shown."""
    frames = Frames(NONCE)
    frames.feed(frame(2, b"exec failed") + frame(1, b"hello"))
    frames.finish()
    assert not frames.ready
    assert (frames.stdout.text(), frames.stderr.text()) == ("hello", "exec failed")
