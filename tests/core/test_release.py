"""What is shown while a reply streams: for every way to cut it, exactly the answer that the parser finds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.messages import ModelReply
from devassist.core.react import Final, parse
from devassist.core.release import ReleaseFilter
from tests.core.replies import TOOLS, replies


def answer_of(text: str) -> str:
    decision = parse(ModelReply(text), TOOLS)
    return decision.text if isinstance(decision, Final) else ""


def deltas(pieces: list[str]) -> tuple[list[str], str]:
    """What came while the pieces were fed, and what came at the end."""
    release = ReleaseFilter()
    return [release.feed(piece) for piece in pieces], release.finish()


def cut(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({min(at, len(text)) for at in cuts})
    return [text[a:b] for a, b in itertools.pairwise([0, *ends, len(text)])]


@given(replies, st.lists(st.integers(0, 200), max_size=8))
def test_equals_the_parser_for_every_chunking(text: str, cuts: list[int]) -> None:
    """What is released joins to the parser's answer, or to nothing, however the reply is cut."""
    for pieces in (cut(text, cuts), list(text), [text]):
        early, late = deltas(pieces)
        assert "".join(early) + late == answer_of(text)


@given(st.text(), st.lists(st.integers(0, 50), max_size=5))
def test_equals_the_parser_on_any_text(text: str, cuts: list[int]) -> None:
    """The same holds for text of any kind before and after the marker."""
    for reply in (text, f"Action: final: {text}", f"Thought: {text}\nAction: final: {text}"):
        early, late = deltas(cut(reply, cuts))
        assert "".join(early) + late == answer_of(reply)


@given(replies)
def test_every_moment_shows_a_beginning_of_the_answer(text: str) -> None:
    """At no moment does the page show anything that the answer does not begin with."""
    answer, sofar = answer_of(text), ""
    for delta in deltas(list(text))[0]:
        sofar += delta
        assert answer.startswith(sofar)


@pytest.mark.parametrize(
    "head",
    [
        "Thought: a\nAction: final: ",
        "Action: final:",
        "**Action: final:** ",
        "**Thought:** a\n**Action:** final: ",
        "<think>b\nAction: final: no</think>\n\nThought: a\nAction: final: ",
        "Thought：好\nAction：final：",
        "Final Answer: ",
    ],
)
def test_answers_stream(head: str) -> None:
    """A regular answer is shown as it is written, before its end is known."""
    body = "The window is 30 days.\n\n- unused\n- see <b>4.2</b> [1]\n\n| a | b |\n|---|---|\n\n`code` and more text"
    early, late = deltas(list(head + body))
    assert "".join(early) + late == body
    assert late == ""
    # Not one big piece at some later point either: it comes as it is written.
    assert sum(map(bool, early)) > len(body) * 0.6


@pytest.mark.parametrize(
    "text",
    [
        'Thought: a\nAction: tool:search_docs\nargs: {"query": "Action: final: no"}\nAction: final: no',
        "I'm sorry, but I can't help with that.",
        "<think>Action: final: no\nAction: final: no",
        "Thought: final: answer: Action final",
        "<tool_call>{}</tool_call>\nAction: final: no",
        "Action: final:   \n ",
        "",
    ],
)
def test_nothing_else_is_shown(text: str) -> None:
    """Calls, plain text, reasoning and blank answers release nothing."""
    assert deltas(list(text)) == ([""] * len(text), "")


def test_held_beginnings_come_out_when_they_turn_out_harmless() -> None:
    """Text that only looked like protocol is shown as soon as it no longer can be, and at the latest at the end."""
    release = ReleaseFilter()
    assert release.feed("Action: final: a\nObserv") == "a"
    assert release.feed("atory") == "\nObservatory"
    assert release.feed(" <thin") == ""
    assert release.feed("gs>") == " <things>"
    assert release.feed("\n  ") == ""
    assert release.feed("\nThoug") == ""
    assert release.finish() == "\n  \nThoug"


def test_after_the_answer_nothing_is_shown() -> None:
    """Once the model plays on, the rest is swallowed, however long it is."""
    release = ReleaseFilter()
    assert release.feed("Action: final: a\nObservation: b") == "a"
    assert release.feed("\n```\nmore") == ""
    assert release.feed("x" * 10_000) == ""
    assert release.finish() == ""


def test_irregular_replies_wait_for_their_end() -> None:
    """Where a closing tag may still turn the answer into reasoning, it is shown at the end only."""
    assert deltas(["So it is.\nAction: final: X", " and Y"]) == (["", ""], "X and Y")
    assert deltas(["So it is.\nAction: final: X\n</think>\nAction: final: Y"]) == ([""], "Y")


def test_many_false_markers() -> None:
    """Markers inside reasoning do not end the search for the real one too early to be right."""
    text = "<think>" + "\nAction: final: no" * 50 + "</think>\nAction: final: yes"
    early, late = deltas(list(text))
    assert "".join(early) + late == "yes"
