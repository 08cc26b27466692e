"""Group A of the failure cases from the field (model output drift), every case, through parser, filter and schemas."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import ToolArgumentsInvalid
from devassist.core.messages import ModelReply
from devassist.core.react import Decision, Fault, Final, ToolCalls, correction, parse
from devassist.core.release import ReleaseFilter
from devassist.core.tool_deltas import CallAssembler
from devassist.core.tooling import ToolSpec
from devassist.tools.schema import SchemaChecker

FILE = Path(__file__).parents[1] / "cases" / "group_a.jsonl"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
}
OUR_CODES = {
    "bad_json": {"tool_arguments_malformed"},
    "args_not_object": {"tool_arguments_not_object"},
    "schema_error": {"tool_arguments_invalid"},
    "unknown_tool": {"tool_not_found"},
    "bad_format": {"reply_format_invalid"},
    "empty_reply": {"reply_empty"},
    "truncated": {"reply_truncated"},
}


def reply_of(case: dict[str, Any]) -> ModelReply:
    """The case's input as an adapter would hand it over."""
    given, context = case["input"], case["context"]
    calls = CallAssembler()
    match context["input_type"]:
        case "text":
            return ModelReply(given, finish_reason=context.get("finish_reason", "stop"))
        case "chunks":
            return ModelReply("".join(given))
        case "delta_json":
            for chunk in given:
                calls.add(chunk["choices"][0]["delta"]["tool_calls"])
            return ModelReply("", calls.result(), "tool_calls")
        case "response_json":
            choice = given["choices"][0]
            calls.add(choice["message"].get("tool_calls", []))
            return ModelReply(choice["message"]["content"], calls.result(), choice["finish_reason"])
        case other:
            raise AssertionError(f"no way to read {other}")


def decide(case: dict[str, Any], reply: ModelReply | None = None) -> Decision:
    """Parse, then check the arguments as the runtime does."""
    tools = case["context"]["tools"]
    decision = parse(reply or reply_of(case), list(tools))
    if not isinstance(decision, ToolCalls):
        return decision
    checker, calls = SchemaChecker(), []
    for call in decision.calls:
        try:
            args = checker.check(ToolSpec(call.name, "A tool.", tools[call.name]), call.args)
        except ToolArgumentsInvalid as error:
            return Fault(error.code, error.detail, decision.thought, call.name)
        calls.append(type(call)(call.name, args, call.native_id))
    return ToolCalls(decision.thought, tuple(calls), decision.discarded)


def fits(decision: Decision, wanted: dict[str, Any]) -> bool:
    match decision:
        case ToolCalls(calls=(call,)):
            same = wanted["outcome"] == "tool_call" and (call.name, call.args) == (wanted["tool"], wanted["args"])
            return same and wanted.get("id", call.native_id) == call.native_id
        case Final(text=text):
            return wanted["outcome"] == "final" and text == wanted["answer"]
        case Fault(code=code):
            return wanted["outcome"] in ("retry", "failed") and code in OUR_CODES.get(wanted["code"], set())
        case _:
            return False


def shown(text: str, size: int | None = None) -> str:
    """All that the filter releases of ``text``, fed whole or in pieces."""
    release = ReleaseFilter()
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    return "".join(map(release.feed, pieces)) + release.finish()


def test_all_forty_cases_are_here() -> None:
    """The file holds the whole group, so that no case can go missing unseen."""
    assert len(CASES) == 40
    assert all(case_id.startswith("A") for case_id in CASES)


@pytest.mark.parametrize("case_id", CASES)
def test_outcome(case_id: str) -> None:
    """The reply leads to an outcome that the case accepts, and what is shown while it streams agrees with it."""
    case = CASES[case_id]
    decision = decide(case)
    assert any(fits(decision, wanted) for wanted in case["expected"]["accept"]), decision
    expected = decision.text if isinstance(decision, Final) else ""
    reply = reply_of(case)
    if not reply.calls:
        assert {shown(reply.text, size) for size in (None, 1, 2, 3, 7)} == {expected}


@pytest.mark.parametrize("case_id", [case_id for case_id in CASES if case_id != "A40"])
def test_first_choice(case_id: str) -> None:
    """The outcome is the one that the case prefers (A40's two are the same but for the name of the code)."""
    assert fits(decide(CASES[case_id]), CASES[case_id]["expected"]["accept"][0])


def test_a09_names_the_place() -> None:
    """The correction says where the JSON breaks, so that one turn mends it."""
    decision = decide(CASES["A09"])
    assert isinstance(decision, Fault)
    assert "character 16" in correction(decision, "en", ["search_docs"])


def test_a10_the_invented_observation_is_kept_for_the_record() -> None:
    """All from the invented Observation on is discarded, as an exact tail of the raw reply."""
    decision = decide(CASES["A10"])
    assert isinstance(decision, ToolCalls)
    assert decision.discarded.startswith("Observation: The late fee is 9 credits.")
    assert CASES["A10"]["input"].endswith(decision.discarded)
    assert "9 credits" not in decision.thought


@pytest.mark.parametrize("case_id", ["A11", "A12"])
def test_second_action_is_discarded(case_id: str) -> None:
    """The second action of a reply is recorded and never acted on."""
    decision = decide(CASES[case_id])
    assert isinstance(decision, ToolCalls)
    assert "Action: " in decision.discarded


def test_a31_correction_asks_for_less() -> None:
    """A reply cut by the token limit is answered by asking for a smaller one, in both languages."""
    decision = decide(CASES["A31"])
    assert isinstance(decision, Fault)
    assert "token limit" in correction(decision, "en", [])
    assert "smaller" in correction(decision, "en", [])
    assert "长度上限" in correction(decision, "zh", [])


def test_a36_lists_the_tools() -> None:
    """An unknown tool is answered with the names that exist."""
    decision = decide(CASES["A36"])
    assert isinstance(decision, Fault)
    assert decision.tool == "web_browse"
    for lang in ("zh", "en"):
        assert "search_docs, execute_code" in correction(decision, lang, ["search_docs", "execute_code"])


def test_a38_says_how_to_answer() -> None:
    """'Action: None' is answered by naming the way to answer without a tool."""
    decision = decide(CASES["A38"])
    assert isinstance(decision, Fault)
    assert "Action: final:" in decision.detail
    assert "Action: final:" in correction(decision, "zh", [])


def test_a39_names_both_keys() -> None:
    """A wrongly cased key is answered by naming the missing and the unexpected one."""
    decision = decide(CASES["A39"])
    assert isinstance(decision, Fault)
    assert "Query" in decision.detail
    assert "query" in decision.detail


@pytest.mark.parametrize("value", ['["refund", 3]', "7", "true", '"text"', "null", "None", "False"])
def test_a40_every_value_that_is_no_object(value: str) -> None:
    """Valid data of the wrong type is a fault of its own, and no object is invented for it."""
    text = CASES["A40"]["input"].removesuffix("null") + value
    decision = decide(CASES["A40"], ModelReply(text))
    assert isinstance(decision, Fault)
    assert decision.code == "tool_arguments_not_object"


def test_a42_encodes() -> None:
    """A surrogate pair becomes the one character that it means."""
    decision = decide(CASES["A42"])
    assert isinstance(decision, ToolCalls)
    assert decision.calls[0].args["query"].encode() == "🚀 launch list".encode()


@pytest.mark.parametrize("value", ['"4.0"', '"4 docs"', "true", '"0x4"', "4.5"])
def test_a35_coerces_only_without_loss(value: str) -> None:
    """What is no integer in another dress does not become one."""
    text = CASES["A35"]["input"].replace('"4"', value)
    decision = decide(CASES["A35"], ModelReply(text))
    assert isinstance(decision, Fault)
    assert decision.code == "tool_arguments_invalid"


def test_a46_is_asked_again_once() -> None:
    """A plain text is asked for again once, then delivered and marked; protocol text never takes that exit."""
    reply = reply_of(CASES["A46"])
    assert isinstance(parse(reply, ["search_docs"]), Fault)
    assert parse(reply, ["search_docs"], corrections=1) == Final("", reply.text, unstructured=True)
    assert shown(reply.text) == ""
    for line in ("Action: now", "Observation: x", "args: {}", "Thought: x", "<tool_call>"):
        assert isinstance(parse(ModelReply(f"{reply.text}\n{line}"), ["search_docs"], corrections=1), Fault)


def test_a47_for_every_cut_in_two_and_three() -> None:
    """Wherever the stream is cut, the deltas join to the answer, and none holds protocol."""
    text = "".join(CASES["A47"]["input"])
    answer = CASES["A47"]["expected"]["accept"][0]["answer"]
    for first, second in itertools.combinations(range(len(text) + 1), 2):
        release = ReleaseFilter()
        deltas = [release.feed(text[:first]), release.feed(text[first:second]), release.feed(text[second:])]
        deltas.append(release.finish())
        assert "".join(deltas) == answer
        assert not any(word in delta for delta in deltas for word in ("Thought", "Action", "final"))


def test_a47_for_random_cuts() -> None:
    """Any number of cuts gives the same answer, and most of it is out before the end."""
    text = "".join(CASES["A47"]["input"])
    answer = CASES["A47"]["expected"]["accept"][0]["answer"]
    chance = random.Random(47)
    for _ in range(300):
        cuts = sorted(chance.sample(range(1, len(text)), chance.randint(1, 20)))
        release = ReleaseFilter()
        early = "".join(release.feed(text[a:b]) for a, b in itertools.pairwise([0, *cuts, len(text)]))
        assert early + release.finish() == answer
        assert len(early) > len(answer) - 3


def test_a49_keeps_the_text_as_thought() -> None:
    """Beside a native call the text is a thought, whatever it claims to be."""
    decision = decide(CASES["A49"])
    assert isinstance(decision, ToolCalls)
    assert decision.thought == "Let me check. Action: final: It is 5."


def test_a57_is_no_empty_reply() -> None:
    """An empty text at the token limit is truncation, and the detail says so."""
    decision = decide(CASES["A57"])
    assert isinstance(decision, Fault)
    assert decision.code == "reply_truncated"
    assert "token limit" in decision.detail
