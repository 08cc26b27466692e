"""Token deltas: whatever happens to them on the way, what a connection was sent joins to the answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from devassist.core.deltas import CHUNK, Heard
from devassist.core.frames import Watcher
from tests.core.build import TRACE
from tests.core.client import Client
from tests.core.runs import retried


def test_pieces_are_trimmed_and_gaps_wait() -> None:
    """What was had is not sent twice; after a gap nothing is sent until the missing piece or the answer comes."""
    heard, client = Heard(), Client()
    for message in [
        *heard.delta(1, 0, "abc"), *heard.delta(1, 0, "abc"), *heard.delta(1, 2, "cde"), *heard.delta(1, 9, "j"),
        *heard.delta(1, 1, "b"),
    ]:  # fmt: skip
        client.one(message)
    assert client.text == "abcde"
    for message in [*heard.partial(1, "abcdefg"), *heard.delta(2, 3, "x"), *heard.settle(1, "abcdefghij")]:
        client.one(message)
    assert client.text == "abcdefghij"
    assert client.types == ["partial", "delta", "delta", "delta", "delta"]


def test_a_new_attempt_starts_over() -> None:
    """Deltas of a higher attempt begin at 0, older ones are ignored, and what differs is reset."""
    heard, client = Heard(), Client()
    for message in [*heard.delta(1, 0, "wrong"), *heard.delta(2, 0, "ri"), *heard.delta(1, 5, "er")]:
        client.one(message)
    assert client.text == "ri"
    for message in heard.settle(2, "other"):
        client.one(message)
    assert client.types[-2:] == ["reset", "delta"]
    assert client.text == "other"


def test_an_empty_answer_takes_back_what_was_shown() -> None:
    """An older attempt's text does not stay where the last attempt has none."""
    heard, client = Heard(), Client()
    for message in [*heard.delta(1, 0, "draft"), *heard.settle(2, "")]:
        client.one(message)
    assert (client.text, client.attempt) == ("", 2)


pieces = st.one_of(
    st.tuples(st.just("delta"), st.integers(0, 3), st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.just("partial"), st.integers(0, 3), st.integers(0, 40), st.just(0)),
    st.tuples(st.just("reset"), st.integers(0, 3), st.just(0), st.just(0)),
    st.tuples(st.just("noise"), st.integers(0, 3), st.integers(0, 5), st.integers(0, 40)),
    st.tuples(st.just("event"), st.just(0), st.just(0), st.just(0)),
)


@given(st.text(max_size=40), st.lists(pieces, max_size=40), st.integers(-1, 3))
def test_every_connection_joins_to_the_answer(
    answer: str, happens: list[tuple[str, int, int, int]], after: int
) -> None:
    """Whatever was lost, repeated, reordered or wrong on the bus, and wherever the client came back, the last attempt's
    partial and deltas join to the answer's text."""
    script = retried()
    final = script.placed[-1][0]
    script.texts[final.answer] = answer  # type: ignore[union-attr]
    watcher, client, waiting = Watcher(trace_id=TRACE, text=script.text, after=after), Client(), list(script.placed)
    for kind, attempt, start, length in happens:
        match kind:
            case "delta":
                client.take(watcher.delta(attempt, start, answer[start : start + length]))
            case "noise":
                client.take(watcher.delta(attempt, start, "#" * length))
            case "partial":
                client.take(watcher.partial(attempt, answer[:start]))
            case "reset":
                client.take(watcher.reset(attempt))
            case _:
                client.take(watcher.feed(*waiting.pop(0)) if len(waiting) > 1 else [])
    while waiting:
        client.take(watcher.feed(*waiting.pop(0)))
    settled, done = client.messages[-2:]
    assert client.text == settled["text"] == done["answer"] == answer
    assert client.types.count("partial") == 1
    assert client.types[-3:] == ["step", "answer", "done"]


@given(st.integers(0, 3 * CHUNK), st.integers(0, 3 * CHUNK))
def test_long_texts_go_in_pieces(had: int, whole: int) -> None:
    """No piece is longer than a message may hold, whichever way the text comes."""
    text, heard, client = "长" * max(had, whole), Heard(), Client()
    for message in [*heard.partial(1, text[:had]), *heard.settle(1, text)]:
        client.one(message)
        assert len(message.get("content", message.get("text", ""))) <= CHUNK
    assert client.text == text
