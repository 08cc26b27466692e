"""The parser of replies: total, exact, and never fooled by reasoning, quotes or invented observations."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.messages import ModelReply, NativeCall
from devassist.core.react import (
    Call,
    Decision,
    Fault,
    Final,
    ToolCalls,
    correction,
    is_correction,
    parse,
    protocol_instructions,
)
from devassist.core.tooling import ToolSpec
from tests.core.replies import TOOLS, replies

ASK = "Thought: t\nAction: tool:search_docs\nargs: "
QUERY = {"query": "q"}


def decide(text: str, finish_reason: str | None = "stop", **more: Any) -> Decision:
    return parse(ModelReply(text, finish_reason=finish_reason), TOOLS, **more)


def native(*calls: tuple[str, str], text: str = "", finish_reason: str = "tool_calls") -> Decision:
    made = tuple(NativeCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(calls))
    return parse(ModelReply(text, made, finish_reason), TOOLS)


@given(
    st.text() | replies,
    st.sampled_from(["stop", "length", None]),
    st.integers(0, 1),
    st.sampled_from(["text", "tools"]),
)
def test_total(text: str, ended: str | None, corrections: int, protocol: Any) -> None:
    """Any text gives a decision; a call has a registered name, an answer is neither blank nor padded."""
    match decide(text, ended, corrections=corrections, protocol=protocol):
        case ToolCalls(thought, calls, discarded):
            assert {call.name for call in calls} <= set(TOOLS)
            assert len(calls) == 1
            assert text.endswith(discarded)
            json.dumps([call.args for call in calls], allow_nan=False).encode()
            assert thought == thought.strip()
        case Final(_, answer, unstructured):
            assert answer
            assert answer == answer.strip()
            assert ended != "length"
            assert not unstructured or (corrections and protocol == "text")
        case Fault(code, detail):
            assert code
            assert detail


@given(st.text() | replies, st.text() | replies, st.text())
def test_total_on_native_calls(text: str, arguments: str, name: str) -> None:
    """Whatever stands in a native call, what runs has a registered name and an object."""
    decision = native(("search_docs", arguments), (name, "{}"), text=text)
    if isinstance(decision, ToolCalls):
        assert decision.calls[0].name == "search_docs"
        assert all(call.name in TOOLS and isinstance(call.args, dict) for call in decision.calls)


@given(replies)
def test_being_final_does_not_depend_on_the_tools(text: str) -> None:
    """The same replies are answers, with the same text, whichever tools exist."""
    found = [parse(ModelReply(text), names) for names in (TOOLS, (), ("foo", "nope"))]
    assert len({d.text if isinstance(d, Final) else None for d in found}) == 1


SECRET = st.sampled_from(
    [
        "<think>SECRET</think>",
        "<thinking>\nSECRET\nAction: final: SECRET\n</thinking>",
        "◁think▷SECRET◁/think▷",
        "[THINK]SECRET[/THINK]",
        "<think>SECRET<think>SECRET</think>SECRET</think>",
    ]
)
PLAIN = st.sampled_from(
    [
        *("Thought: a\n", "\nAction: final: ", "Action: final: ", "Action: tool:search_docs\n", "```\n", "<tool_call>"),
        *('args: {"query": "x"}\n', "Observation: y\n", "text", "**", "\n", " "),
    ]
)
UNCLOSED = st.sampled_from(["", "<think>SECRET", "<think>SECRET\nAction: final: SECRET"])


@given(st.lists(SECRET | PLAIN, max_size=10), UNCLOSED)
def test_reasoning_never_leaks(pieces: list[str], end: str) -> None:
    """No text of a reasoning block, closed or not, is part of an answer or of a thought."""
    decision = decide("".join(pieces) + end, corrections=1)
    assert "SECRET" not in decision.thought
    assert not isinstance(decision, Final) or "SECRET" not in decision.text


LINES = st.sampled_from(
    [
        *("Thought: a\n", "text\n", "Action: final: ", "Observation: b\n", "Thought: c\n", "Action: tool:x\n"),
        *("Action: search\nAction Input: {}\n", "<tool_call>", "  ", "\n"),
    ]
)
PLAYS_ON = re.compile(r"\n {0,3}(Observation:|Thought:|Action: (tool|final):|Action: \w+\nAction Input:)")


@given(st.lists(LINES, max_size=10))
def test_no_protocol_line_in_an_answer(pieces: list[str]) -> None:
    """Without a code fence no line after the first of an answer plays on."""
    decision = decide("".join(pieces))
    assert not isinstance(decision, Final) or not PLAYS_ON.search(decision.text)


UNFINISHED = (
    *("", "Thought: a", "plain", "Action: final: X", "Action: tool:search_d", "<think>hm", "<tool_call>{"),
    *(ASK, ASK + '{"query": "q"', ASK + "{'query': 'q'}"),
)


@pytest.mark.parametrize("text", UNFINISHED)
@pytest.mark.parametrize("ended", ["length", "max_tokens", "MAX_TOKENS"])
def test_cut_off(text: str, ended: str) -> None:
    """At the token limit nothing unfinished is acted on, shown or guessed."""
    decision = decide(text, ended, corrections=1)
    assert isinstance(decision, Fault)
    assert decision.code == "reply_truncated"


def test_cut_off_after_the_arguments() -> None:
    """A call whose strict JSON is closed is complete, whatever was cut off behind it."""
    assert decide(ASK + '{"query": "q"}\nObserv', "length") == ToolCalls("t", (Call("search_docs", QUERY),), "Observ")
    assert isinstance(native(("search_docs", '{"query": "q"}'), finish_reason="length"), ToolCalls)
    for arguments in ("", '{"query": "q', "{'query': 'q'}"):
        decision = native(("search_docs", '{"query": "q"}'), ("search_docs", arguments), finish_reason="length")
        assert isinstance(decision, Fault)
        assert decision.code == "reply_truncated"


def test_content_filter() -> None:
    """A blocked reply is neither empty nor to be repeated, whatever it holds."""
    for text in ("", "Action: final: X"):
        decision = decide(text, "content_filter")
        assert isinstance(decision, Fault)
        assert decision.code == "content_filtered"


def test_native_calls_in_order() -> None:
    """Several native calls keep their order and ids; the text is their thought, without its reasoning."""
    decision = native(("search_docs", '{"query":"q"}'), ("Execute_Code", ""), text="<think>x</think>Thought: both")
    assert decision == ToolCalls("both", (Call("search_docs", QUERY, "c0"), Call("execute_code", {}, "c1")))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("nope", "{}"), "tool_not_found"),
        (("", "{}"), "tool_not_found"),
        (("search_docs", "null"), "tool_arguments_not_object"),
        (("search_docs", "{"), "tool_arguments_malformed"),
        (("search_docs", '{"a":1}{"a":2}'), "tool_arguments_malformed"),
    ],
)
def test_one_bad_native_call_stops_all(call: tuple[str, str], code: str) -> None:
    """No call of a reply runs when one of them is faulty."""
    decision = native(("search_docs", '{"query":"q"}'), call)
    assert isinstance(decision, Fault)
    assert decision.code == code


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_corrections(lang: Any) -> None:
    """Every fault has a correction, which is recognised as ours and carries the detail unharmed."""
    codes = ["reply_empty", "reply_truncated", "reply_format_invalid", "tool_arguments_malformed", "tool_not_found",
             "tool_arguments_not_object", "tool_arguments_invalid", "content_filtered", "some_new_code"]  # fmt: skip
    texts = [correction(Fault(code, "wants {braces}", tool="t"), lang, TOOLS) for code in codes]
    assert all(map(is_correction, texts))
    assert len(set(texts)) == len(codes) - 1, "a code without a text of its own gets the general one"
    assert "wants {braces}" in texts[2]
    assert not is_correction("Correct this")


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_instructions(lang: Any) -> None:
    """The system prompt names both formats and every tool with its whole schema; its own example parses."""
    schema = {"type": "object", "properties": {"query": {"type": "string", "description": "要查的 {内容}"}}}
    text = protocol_instructions(lang, [ToolSpec("search_docs", "Find\n  text.", schema), ToolSpec("other", "x", {})])
    assert json.dumps(schema, ensure_ascii=False, separators=(",", ":")) in text
    assert "- search_docs: Find text." in text
    assert "Action: tool:" in text
    assert "Action: final:" in text
    assert "other" in text
    assert protocol_instructions(lang, [])


def test_hostile_replies_cost_linear_time() -> None:
    """Repetitions that make careless patterns explode are read in well under a second each."""
    hostile = [
        "Action: tool:search_docs\nargs: {“a</think>\n" * 3000,
        "Action: final: a" + "\nAction: foo\n" * 4000,
        "Action: final: a\n" + "```" * 30_000,
        "Action: final: " + "<" * 60_000,
        "<think>" + "\nAction: final: x" * 4000,
        "Action: tool:search_docs" + " \n" * 40_000 + "args: x",
        ASK + "{'a':'" + "\\'" * 40_000,
        ASK + "{}" + "}" * 80_000,
        "# > * " * 15_000,
        ASK + "{}\n" + "</abc> " * 10_000 + "x",
    ]
    for text in hostile:
        began = time.perf_counter()
        decide(text, corrections=1)
        assert time.perf_counter() - began < 2
