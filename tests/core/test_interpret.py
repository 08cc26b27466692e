"""From a reply to a decision: schemas, grounded agents, and what counts as an answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devassist.core.codec import json_text
from devassist.core.definition import Definition
from devassist.core.event_parts import Limits
from devassist.core.interpret import Draft, DraftCall, consulted, interpret
from devassist.core.messages import ModelReply, NativeCall, with_safe_ids
from devassist.core.run_state import RunState
from devassist.core.tooling import ToolSpec
from devassist.tools.schema import SchemaChecker
from tests.core.build import Script

SEARCH = ToolSpec(
    "search_docs",
    "Searches.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 1}, "top_k": {"type": "integer", "maximum": 50}},
        "required": ["query"],
        "additionalProperties": False,
    },
    effect="pure",
)
ANY = ToolSpec("anything", "Takes all.", {"type": "object"}, effect="once")
CHECK = SchemaChecker().check
CALL = 'Thought: look.\nAction: tool:search_docs\nargs: {"query": "x", "top_k": "4"}'
ANSWER = "Thought: done.\nAction: final: It is so."


def defined(**changes: Any) -> Definition:
    fields = {
        "agent": "dev", "system": "s", "prompt_version": "v", "lang": "en", "tools": (SEARCH, ANY), "model": "m",
        "model_kind": "scripted", "limits": Limits(),
    }  # fmt: skip
    return Definition(**(fields | changes))


def fresh(corrections: int = 0) -> RunState:
    script = Script()
    script.think()
    return script.now._replace(corrections=corrections)


def looked() -> RunState:
    script = Script()
    script.think()
    script.calls(("search_docs", {}, "pure"))
    script.attempt()
    script.returned(0, {"hits": []})
    script.think()
    return script.now


def drafted(text: str | ModelReply, state: RunState | None = None, **changes: Any) -> Draft:
    reply = ModelReply(text) if isinstance(text, str) else text
    return interpret(reply, defined(**changes), CHECK, state or fresh())


def test_arguments_are_checked_and_stored_as_they_reach_the_tool() -> None:
    """Lossless coercion happens here once; the effect class is the definition's."""
    draft = drafted(CALL)
    assert draft.decision == "calls"
    assert draft.calls == (DraftCall("search_docs", "pure", '{"query":"x","top_k":4}', None),)
    assert draft.thought == "look."


@pytest.mark.parametrize(
    ("args", "said"),
    [('{"Query": "x"}', "query"), ('{"query": ""}', "query"), ('{"query": "x", "top_k": 51}', "top_k")],
)
def test_arguments_that_do_not_fit_go_back(args: str, said: str) -> None:
    """The correction names the path; nothing is called."""
    draft = drafted(f"Action: tool:search_docs\nargs: {args}")
    assert (draft.decision, draft.calls) == ("fault", ())
    assert (draft.code, draft.tool) == ("tool_arguments_invalid", "search_docs")
    assert said in draft.correction


def test_one_bad_call_of_several_stops_all() -> None:
    """A decision is acted on whole or not at all."""
    calls = (NativeCall("a", "search_docs", '{"query": "x"}'), NativeCall("b", "search_docs", "{}"))
    draft = drafted(ModelReply("", calls), protocol="tools")
    assert (draft.decision, draft.calls) == ("fault", ())


def test_native_ids_are_kept() -> None:
    """So that each result can be told to its call."""
    calls = (NativeCall("a", "search_docs", '{"query": "x"}'), NativeCall("", "anything", "{}"))
    draft = drafted(ModelReply("", calls), protocol="tools")
    assert [c.native_id for c in draft.calls] == ["a", None]


def test_an_unknown_tool_goes_back_with_the_names() -> None:
    """A tool that the run does not have is not found, whatever exists elsewhere; the name is the model's text, so it
    stands in the correction and not in the event."""
    draft = drafted("Action: tool:get_policy\nargs: {}")
    assert (draft.code, draft.tool) == ("tool_not_found", None)
    assert "get_policy" in draft.correction
    assert "search_docs, anything" in draft.correction


def test_a_grounded_agent_must_look_first() -> None:
    """An answer from memory goes back once more; with the last correction used up it is taken (and flagged later)."""
    draft = drafted(ANSWER, grounded=True)
    assert (draft.decision, draft.code, draft.answer) == ("fault", "answer_ungrounded", "")
    assert draft.correction.startswith("[Correction] ")
    assert drafted(ANSWER, fresh(corrections=2), grounded=True).decision == "final"
    assert drafted(ANSWER, looked(), grounded=True).answer == "It is so."
    assert drafted(ANSWER, grounded=True, tools=()).decision == "final"
    assert drafted(ANSWER).decision == "final"


def test_consulted_means_that_a_tool_showed_something() -> None:
    """A decision to look is no look yet."""
    script = Script()
    script.think()
    script.calls(("search_docs", {}, "pure"))
    assert not consulted(script.now)
    script.attempt()
    script.returned(0, 1)
    assert consulted(script.now)


def test_what_follows_the_action_is_counted() -> None:
    """So many characters at the end of the raw reply are no evidence and are not shown again."""
    raw = CALL + "\nObservation: invented\nAction: final: wrong"
    draft = drafted(raw)
    assert draft.decision == "calls"
    assert raw[-draft.discarded :] == "Observation: invented\nAction: final: wrong"
    after = drafted(ANSWER + "\nObservation: more")
    assert (after.answer, after.discarded) == ("It is so.", len("Observation: more"))


def test_a_plain_text_is_asked_for_again_once() -> None:
    """A46: then it is delivered, marked as unstructured; in the tools protocol it is an ordinary answer."""
    assert drafted("I cannot help.").code == "reply_format_invalid"
    again = drafted("I cannot help.", fresh(corrections=1))
    assert (again.decision, again.answer, again.unstructured) == ("final", "I cannot help.", True)
    assert drafted("I cannot help.", protocol="tools").unstructured is False


@pytest.mark.parametrize(
    "args", ["NaN", '{"x": NaN}', '{"x": 1e999}', '{"x": "\\ud800"}', '{"x": "a\\u0000"}', "[" * 9999]
)
@pytest.mark.parametrize("native", [False, True])
def test_arguments_that_no_store_could_hold_go_back(args: str, native: bool) -> None:
    """Numbers that are none, half characters, NUL and endless nesting, in either protocol."""
    calls = (NativeCall("a", "anything", args),)
    reply = ModelReply("", calls) if native else ModelReply(f"Action: tool:anything\nargs: {args}")
    assert drafted(reply).decision == "fault"


pieces = st.sampled_from([
    "Thought: a\n", "Action: tool:search_docs\n", "args: ", '{"query": "x"}', '{"a": 1e400}', "Action: final: ",
    "<think>", "</think>", "```json\n", "```", "\n", "Observation: x\n", '{"name": "anything", "arguments": {}}',
    "<tool_call>", "{", "}",
])  # fmt: skip


@settings(max_examples=300)
@given(st.lists(pieces | st.text(max_size=10), max_size=8).map("".join), st.integers(0, 3), st.booleans())
def test_every_reply_is_a_decision(text: str, corrections: int, grounded: bool) -> None:
    """Total: calls with arguments that are JSON objects, a final answer with text, or a fault with a correction."""
    draft = drafted(text, fresh(corrections), grounded=grounded)
    assert 0 <= draft.discarded <= len(text)
    if draft.decision == "calls":
        assert [json_text(json.loads(c.args)) for c in draft.calls] == [c.args for c in draft.calls]
    elif draft.decision == "final":
        assert draft.answer.strip()
    else:
        assert draft.code
        assert draft.correction


def test_a_providers_free_text_is_no_call_id() -> None:
    """Ids stand in event bodies: short tokens stay, anything else is replaced, and no two calls share one."""
    good = (NativeCall("call_1", "a", "{}"), NativeCall("call_2", "a", "{}"))
    assert with_safe_ids(good) is good
    for bad in (("Ms Li's refund", "x"), ("same", "same"), ("", "x"), ("x" * 65, "y")):
        calls = with_safe_ids(tuple(NativeCall(i, "a", "{}") for i in bad))
        assert len({c.id for c in calls}) == 2
        assert all(re.fullmatch(r"call_[0-9a-f]{16}", c.id) for c in calls)
