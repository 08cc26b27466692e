"""Prompt assembly: within the budget, steps whole, and never silently shorter."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from devassist.core.commands import CallModel
from devassist.core.definition import Definition
from devassist.core.event_parts import Limits
from devassist.core.messages import ChatMessage, NativeCall
from devassist.core.prompt import Prompt, assemble, estimate_tokens, native_calls, native_json, render
from devassist.core.run_state import Entry
from tests.core.simulate import simulate

BASE = Definition(
    agent="dev", system="You help.", prompt_version="v", lang="en", tools=(), model="m", model_kind="scripted",
    limits=Limits(),
)  # fmt: skip


def defined(context_tokens: int, lang: Any = "en") -> Definition:
    return replace(BASE, context_tokens=context_tokens, lang=lang)


def put(texts: dict[str, str], text: str) -> str:
    ref = f"r{len(texts)}"
    texts[ref] = text
    return ref


@st.composite
def transcripts(draw: st.DrawFn) -> tuple[tuple[Entry, ...], dict[str, str]]:
    """Past messages, a question, and steps of every shape."""
    texts: dict[str, str] = {}
    text = st.integers(0, 600).map(lambda size: "x" * size)
    entries = [
        Entry("past", 1, put(texts, draw(text)), draw(st.sampled_from(["user", "assistant"])))
        for _ in range(draw(st.integers(0, 4)))
    ]
    entries.append(Entry("user", 0, put(texts, draw(text))))
    seq = 1
    for step in range(draw(st.integers(0, 5))):
        shape = draw(st.sampled_from(["text", "native", "fault"]))
        seq += 1
        native = put(texts, native_json((NativeCall("a", "t", draw(text)),))) if shape == "native" else None
        entries.append(Entry("reply", seq, put(texts, draw(text)), "fault" if shape == "fault" else "", native, step))
        if shape == "fault":
            entries.append(Entry("correction", seq, put(texts, draw(text)), "", None, step))
            continue
        for call in range(draw(st.integers(1, 3))):
            seq += 2
            entries.append(Entry("observation", seq, put(texts, draw(text)), "t", None, step, call=call))
    return tuple(entries), texts


def assembled(transcript: tuple[Entry, ...], texts: dict[str, str], budget: int, lang: str = "en") -> Prompt:
    return assemble(transcript, defined(budget, lang), texts.__getitem__, lambda ref: estimate_tokens(texts[ref]))


def kept(transcript: tuple[Entry, ...], prompt: Prompt) -> list[Entry]:
    """What of the transcript is in the prompt, told from ``left_history`` and ``left`` alone."""
    past = [e for e in transcript if e.role == "past"][prompt.left_history :]
    low, high = prompt.left or (0, 0)
    return past + [e for e in transcript if e.role != "past" and not low <= e.seq < high]


@settings(max_examples=200)
@given(transcripts(), st.integers(0, 1500))
def test_the_budget_holds(given_: tuple[tuple[Entry, ...], dict[str, str]], budget: int) -> None:
    """The estimate is within the budget, unless nothing is left but system, question and newest step."""
    transcript, texts = given_
    prompt = assembled(transcript, texts, budget)
    last = max(e.step for e in transcript)
    free = [e for e in kept(transcript, prompt) if e.role == "past" or (e.role != "user" and e.step != last)]
    assert prompt.tokens <= budget or not free
    written = [f"{m.content}{native_json(m.tool_calls) if m.tool_calls else ''}" for m in prompt.messages]
    assert sum(map(estimate_tokens, written)) <= prompt.tokens + 8 * len(written)  # "Observation: " and the like


@settings(max_examples=200)
@given(transcripts(), st.integers(0, 1500))
def test_what_was_left_out_is_said_and_recorded(
    given_: tuple[tuple[Entry, ...], dict[str, str]], budget: int
) -> None:  # fmt: skip
    """``left_history`` and ``left`` say exactly which entries are missing, and the system message says how many."""
    transcript, texts = given_
    prompt = assembled(transcript, texts, budget)
    inside = kept(transcript, prompt)
    assert prompt.messages[1:] == tuple(render(e, texts.__getitem__) for e in inside)
    missing = len(transcript) - len(inside)
    notice = f"\n({missing} earlier messages were left out of this prompt to keep it short.)" if missing else ""
    assert prompt.messages[0].content == f"You help.{notice}"


@settings(max_examples=200)
@given(transcripts(), st.integers(0, 1500))
def test_steps_go_whole_and_oldest_first(given_: tuple[tuple[Entry, ...], dict[str, str]], budget: int) -> None:
    """Never a reply without its results; the past goes before any step; question and newest step stay."""
    transcript, texts = given_
    inside = kept(transcript, assembled(transcript, texts, budget))
    steps = {e.step for e in transcript if e.step >= 0}
    there = {e.step for e in inside if e.step >= 0}
    assert [e for e in inside if e.step in there] == [e for e in transcript if e.step in there]
    assert there == {s for s in steps if s >= min(there)} if there else not steps
    if there != steps:
        assert not any(e.role == "past" for e in inside)
    assert any(e.role == "user" for e in inside)


def test_nothing_is_left_out_without_need() -> None:
    """A prompt that fits exactly is whole."""
    texts: dict[str, str] = {}
    transcript = (Entry("past", 1, put(texts, "a" * 30), "user"), Entry("user", 0, put(texts, "b" * 30)))
    whole = assembled(transcript, texts, 10_000)
    assert (whole.left_history, whole.left, len(whole.messages)) == (0, (), 3)
    assert assembled(transcript, texts, whole.tokens) == whole
    assert assembled(transcript, texts, whole.tokens - 1).left_history == 1


def test_the_notice_is_in_the_runs_language() -> None:
    """A Chinese prompt says it in Chinese."""
    texts: dict[str, str] = {}
    transcript = (Entry("past", 1, put(texts, "长" * 300), "user"), Entry("user", 0, put(texts, "问")))
    assert "较早的 1 条内容没有放入" in assembled(transcript, texts, 100, "zh").messages[0].content


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=200))
def test_the_estimate_is_no_underestimate(text: str) -> None:
    """At least a token for each Chinese character and for three Latin letters."""
    assert estimate_tokens(text) >= len(text) / 3


@given(st.integers(0, 2**40))
def test_a_prompt_is_its_base_and_what_was_added(seed: int) -> None:
    """Along the chain of ``base``, what is newer than each base adds up to the transcript, each once and in order."""
    chain: list[int] = []
    for state, command in simulate(Random(seed), cancels=0.0).decided:
        if isinstance(command, CallModel):
            seqs = list(dict.fromkeys(e.seq for e in state.transcript if e.role != "past"))
            chain += [seq for seq in seqs if seq > state.base]
            assert chain == seqs


def test_messages_of_every_role() -> None:
    """How each entry is put to the model."""
    texts: dict[str, str] = {}
    native = put(texts, native_json((NativeCall("id1", "search", '{"q": 1}'),)))
    text = put(texts, "hello")

    def shown(*fields: object, **more: object) -> ChatMessage:
        return render(Entry(*fields, **more), texts.__getitem__)  # type: ignore[arg-type]

    assert shown("past", 1, text, "assistant") == ChatMessage("assistant", "hello")
    assert shown("past", 1, text, "user") == shown("user", 0, text) == ChatMessage("user", "hello")
    assert shown("reply", 2, text) == ChatMessage("assistant", "hello")
    assert shown("reply", 2, text, cut=2) == ChatMessage("assistant", "hel")
    assert shown("observation", 4, text, "search") == ChatMessage("user", "Observation: hello")
    assert shown("observation", 4, text, "search", "id1") == ChatMessage("tool", "hello", tool_call_id="id1")
    assert shown("correction", 2, text) == ChatMessage("user", "hello")
    assert shown("reply", 2, text, "", native).tool_calls == (NativeCall("id1", "search", '{"q": 1}'),)


def test_refused_native_calls_are_shown_as_text() -> None:
    """No result will follow them, and a provider refuses an assistant's call without one."""
    texts: dict[str, str] = {}
    native = put(texts, native_json((NativeCall("a", "serach", '{"q": 1}'), NativeCall("b", "x", ""))))
    entry = Entry("reply", 2, put(texts, ""), "fault", native)
    assert render(entry, texts.__getitem__) == ChatMessage("assistant", 'serach({"q": 1})\nx()')


@given(st.lists(st.builds(NativeCall, st.text(max_size=5), st.text(max_size=5), st.text(max_size=20)), max_size=4))
def test_native_calls_round_trip(calls: list[NativeCall]) -> None:
    """Whatever the model wrote as arguments."""
    assert native_calls(native_json(tuple(calls))) == tuple(calls)
