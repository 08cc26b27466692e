"""The forms in which models write answers and calls: what is read, what is refused, and what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devassist.core.messages import ModelReply
from devassist.core.react import Call, Decision, Fault, Final, ToolCalls, parse
from tests.core.replies import TOOLS

QUERY = {"query": "q"}


def decide(text: str, **more: Any) -> Decision:
    return parse(ModelReply(text), TOOLS, **more)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Action: final: X", "X"),
        ("Thought: a\nAction: final:\n\nline 1\n\nline 2\n", "line 1\n\nline 2"),
        ("Thought：a\r\nAction：final：答案\r\n", "答案"),
        ("思考：好\n行动：final：答案", "答案"),
        ("Final Answer: 42", "42"),
        ("**Final Answer:** 42", "42"),
        ("最终答案：好", "好"),
        ("**Action: final:** **Bold** text", "**Bold** text"),
        ("**Action:** final: **Bold** text", "**Bold** text"),
        ("Action: final: **Bold** text", "**Bold** text"),
        ("Thought: t\n**Action: final: X**", "X"),
        ("```\nThought: a\nAction: final: X\n```", "X"),
        ("```\nThought: a\nAction: final: X\n```py\n1\n```\n```", "X\n```py\n1\n```"),
        ("Action:\nfinal: X", "X"),
        ("Action: Final Answer: X", "X"),
        ("Action: final: a </think> b", "a  b"),
        ("Action: final: X<|im_end|>", "X"),
        ("Action: final: a <tool_call> b", "a  b"),
        ("Action: final: Runbook\nAction: restart it\nOwner: me", "Runbook\nAction: restart it\nOwner: me"),
        ("Action: final: says\n- Thought: a word\n> Observation: too", "says\n- Thought: a word\n> Observation: too"),
        ("Action: final: **Observation:** x\n**Thought:** y", "**Observation:** x\n**Thought:** y"),
        ("Action: final: see\n```\nObservation: o\n```\nend", "see\n```\nObservation: o\n```\nend"),
        ("Action: final: ```\nThought: in a block\n```", "```\nThought: in a block\n```"),
        ("Action: final: ```\nopen\nObservation: in an open block", "```\nopen\nObservation: in an open block"),
        ("I think so.\n</think>\nAction: final: X", "X"),
        ("</think>Action: final: X", "X"),
        ("Thought: a\n<think>\nAction: final: no\n</think>\nAction: final: yes", "yes"),
        ("because\nAction: final: no\n</think>\nThought: b\nAction: final: yes", "yes"),
        ("Thought: a\nAction: tool:search_docs\nargs: {}\n</think>\nAction: final: yes", "yes"),
        ("Action: final: the args: {} and Observation: mid-line", "the args: {} and Observation: mid-line"),
    ],
)  # fmt: skip
def test_answers(text: str, answer: str) -> None:
    """The answer is all that was written for the user, and nothing else."""
    decision = decide(text)
    assert isinstance(decision, Final)
    assert decision.text == answer
    assert not decision.unstructured


@pytest.mark.parametrize(
    "tail",
    [
        "Observation: y\nThought: z",
        "Thought: let me verify\nAction: tool:search_docs\nargs: {}",
        "Action: final: again",
        "Action: search_docs\nAction Input: {}",
        "<tool_call>{}",
        "  observation 2: y",
        "Observation: y <thi",
    ],
)
def test_played_on_after_the_answer(tail: str) -> None:
    """What plays on after an answer is discarded and kept as an exact tail of the reply."""
    assert decide(f"Thought: a\nAction: final: X\n{tail}") == Final("a", "X", discarded=tail.lstrip())


def test_bold_keywords_end_an_answer_where_the_reply_used_them() -> None:
    """Bold words play on only in a reply whose own keywords are bold."""
    decision = decide("**Thought:** a\n**Action:** final: X\n**Observation:** y")
    assert decision == Final("a", "X", discarded="**Observation:** y")


BLANK = ["Action: final:", "Action: final:  \n", "Action: final: <think>x", "Action: final:\nThought: x"]


@pytest.mark.parametrize("text", BLANK)
def test_blank_answer(text: str) -> None:
    """A blank answer is no answer."""
    decision = decide(text)
    assert isinstance(decision, Fault)
    assert decision.code == "reply_empty"


def test_plain_text_in_the_tools_protocol() -> None:
    """To a model that calls tools natively a plain text is an ordinary answer, and 'Action:' a word."""
    assert decide("Hello", protocol="tools") == Final("", "Hello")
    assert decide("Plan\nAction: restart it", protocol="tools") == Final("", "Plan\nAction: restart it")
    assert isinstance(decide("Thought: hm", protocol="tools"), Fault)
    assert isinstance(decide("Action: final: X", protocol="tools"), Final)


@pytest.mark.parametrize(
    "text",
    [
        'Action: tool:search_docs\nargs: {"query": "q"}',
        'ACTION : TOOL : search_docs\n\nARGS : {"query": "q"}',
        'Action: tool: "search_docs"\nargs: {"query": "q"}',
        'Action: tool:search_docs args: {"query": "q"}',
        'Action: search_docs({"query": "q"})',
        'Action: `search_docs`\nArguments:\n{"query": "q"}',
        'Action 1: search_docs\nAction Input 1: {"query": "q"}'.replace("Input 1", "Input"),
        'Action: tool:search_docs\n```json\n{"query": "q"}\n```',
        '```\nThought: a\nAction: tool:search_docs\nargs: {"query": "q"}\n```',
        '行动：tool：search_docs\n参数：{"query": "q"}',
        'Action:\ntool:search_docs\nargs: {"query": "q"}',
        '- **Action**: tool:search_docs\n- **args**: {"query": "q"}',
        '<think>hm</think>Action: tool:search_docs\nargs: {"query": "q"}',
        '<tool_call>{"name": "search_docs", "arguments": {"query": "q"}}',
        '<tool_call>{"name": "search_docs", "arguments": "{\\"query\\": \\"q\\"}"}</tool_call>',
        'I will look.\n<tool_call>\n{"name": "search_docs", "parameters": {"query": "q"}}\n</tool_call>',
        '<function=search_docs>{"query": "q"}</function>',
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search_docs<｜tool▁sep｜>{"query": "q"}<｜tool▁call▁end｜>',
        '{"name": "search_docs", "arguments": {"query": "q"}}',
        '```json\n{"action": "search_docs", "action_input": {"query": "q"}}\n```',
    ],
)
def test_calls(text: str) -> None:
    """Decoration and foreign formats whose name and arguments are plain to see are understood."""
    decision = decide(text)
    assert isinstance(decision, ToolCalls), decision
    assert decision.calls == (Call("search_docs", QUERY),)
    assert decision.discarded == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Action: tool:search_docs", "tool_arguments_malformed"),
        ("Action: tool:search_docs\nargs:", "tool_arguments_malformed"),
        ('Action: tool:search_docs\nThought: b\nargs: {"query": "q"}', "tool_arguments_malformed"),
        ('Action: tool:search_docs\nAction: tool:execute_code\nargs: {"code": "1"}', "tool_arguments_malformed"),
        ("Action: tool:search\nargs: {}", "tool_not_found"),
        ("Action: tool:search docs\nargs: {}", "tool_not_found"),
        ("Action: search\nAction Input: {}", "tool_not_found"),
        ("Action: I will answer now", "reply_format_invalid"),
        ("Action: none", "reply_format_invalid"),
        ("Action: tool:None\nargs: {}", "reply_format_invalid"),
        ("Action: final_answer\nAction Input: {}", "reply_format_invalid"),
        ("Action:", "reply_format_invalid"),
        ("Thought: it is 5. Action: final: 5", "reply_format_invalid"),
        ("<think>never closed\nAction: final: X", "reply_format_invalid"),
        ("<think>only reasoning</think>", "reply_empty"),
        ("Thought: a\nAction: tool:search_docs\nargs: {}\n</think>\nplain", "reply_format_invalid"),
        ("because\nAction: final: use </think> to close", "reply_format_invalid"),
        ('<tool_call>{"name": "search_docs"}</tool_call>', "reply_format_invalid"),
        ('<tool_call>{"name": "nope", "arguments": {}}</tool_call>', "tool_not_found"),
        ('<tool_call>{"name": "search_docs", "arguments": {"a": ', "tool_arguments_malformed"),
        ("<function=search_docs><parameter=query>q</parameter></function>", "reply_format_invalid"),
        ('[TOOL_CALLS][{"name": "search_docs", "arguments": {}}]', "reply_format_invalid"),
        ("<|channel|>final<|message|>X", "reply_format_invalid"),
        ('{"name": "nope", "arguments": {}}', "reply_format_invalid"),
        ("\n</think>" * 40 + "\nAction: tool:search_docs\nargs: x</think>" * 40, "reply_format_invalid"),
    ],
)
def test_faults(text: str, code: str) -> None:
    """What cannot be acted on is named precisely, also when the model was corrected before."""
    for corrections in (0, 1):
        decision = decide(text, corrections=corrections)
        assert isinstance(decision, Fault)
        assert decision.code == code


def test_case_is_folded_only_for_one_tool() -> None:
    """Of two tools that differ in case alone only the exact name is meant."""
    text = "Action: tool:RUN\nargs: {}"
    assert isinstance(parse(ModelReply(text), ["run"]), ToolCalls)
    assert isinstance(parse(ModelReply(text), ["run", "Run"]), Fault)
    assert parse(ModelReply(text), ["run", "RUN"]) == ToolCalls("", (Call("RUN", {}),))


def test_arguments_may_speak_of_tags() -> None:
    """Tags and keywords inside strict JSON are data."""
    code = "print('<think></think>')\nAction: final: no\n<tool_call>"
    decision = decide(f"Thought: t\nAction: tool:execute_code\nargs: {json.dumps({'code': code})}")
    assert decision == ToolCalls("t", (Call("execute_code", {"code": code}),))
