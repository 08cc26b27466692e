"""Group A of the failure cases from the field, each as the first reply of a whole run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devassist.core.events import ModelReplied, RunFailed, RunFinished, ToolIntended, ToolReturned
from devassist.core.messages import ModelReply
from devassist.core.prompt import native_json
from devassist.core.states import State
from devassist.core.tool_deltas import CallAssembler
from devassist.core.tooling import ToolSpec
from devassist.llm.scripted import Chunks
from devassist.runtime.view import RunView
from devassist.tools.registry import Tool
from tests.runtime.read import Recording, answer, of
from tests.runtime.rig import USER, rig
from tests.runtime.world import final

FILE = Path(__file__).parents[1] / "cases" / "group_a.jsonl"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
}
ON_DISK = {"A42", "A44"}
OUR_CODES = {
    "bad_json": "tool_arguments_malformed", "args_not_object": "tool_arguments_not_object",
    "schema_error": "tool_arguments_invalid", "unknown_tool": "tool_not_found", "bad_format": "reply_format_invalid",
    "empty_reply": "reply_empty", "truncated": "reply_truncated",
}  # fmt: skip
PROTOCOL = ("Thought", "Action", "Observation", "args:", "<think>", "</think>", "<tool_call>", "｜")


def first_reply(case: dict[str, Any]) -> Any:
    """The case's input as an adapter hands it over; texts come in small pieces, as they do from a provider."""
    given, context = case["input"], case["context"]
    calls = CallAssembler()
    match context["input_type"]:
        case "text" if "finish_reason" in context:
            return ModelReply(given, finish_reason=context["finish_reason"])
        case "text":
            return Chunks([given[at : at + 3] for at in range(0, len(given), 3)])
        case "chunks":
            return Chunks(given)
        case "delta_json":
            for chunk in given:
                calls.add(chunk["choices"][0]["delta"]["tool_calls"])
            return ModelReply("", calls.result(), "tool_calls")
        case other:
            assert other == "response_json"
            choice = given["choices"][0]
            calls.add(choice["message"].get("tool_calls", []))
            tokens = given.get("usage", {}).get("completion_tokens", 0)
            return ModelReply(choice["message"]["content"], calls.result(), choice["finish_reason"], 0, tokens)


class Drift:
    """One run whose model drifts as the case says and then answers; with what reached the tools and the watchers."""

    def __init__(self, case: dict[str, Any], then: Any = None) -> None:
        self.case, self.reply = case, first_reply(case)
        self.model = Recording([self.reply, then if then is not None else final("Finished.")])
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.shown: dict[int, str] = {}

    def tools(self) -> list[Tool]:
        def tool(name: str) -> Tool:
            async def handler(**args: Any) -> dict[str, Any]:
                self.called.append((name, args))
                return {"hits": []}

            return Tool(ToolSpec(name, f"{name}.", self.case["context"]["tools"][name], None, "pure"), handler)

        return [tool(name) for name in self.case["context"]["tools"]]

    async def run(self, path: Path | None = None, **definition: Any) -> RunView:
        async with rig(self.model, self.tools(), path=path, **definition) as made:
            begin, add = made.bus.begin, made.bus.add
            attempts = [0]

            def noted_begin(stream: bytes, attempt: int) -> None:
                attempts.append(attempt)
                begin(stream, attempt)

            def noted_add(stream: bytes, text: str) -> None:
                self.shown[attempts[-1]] = self.shown.get(attempts[-1], "") + text
                add(stream, text)

            made.bus.begin, made.bus.add = noted_begin, noted_add
            started = await made.service.start(USER, made.start_run("go", watched=True))
            return await made.service.wait(USER, started.stream)

    @property
    def raw(self) -> str:
        return "".join(self.reply.pieces) if isinstance(self.reply, Chunks) else self.reply.text


def came_to(drift: Drift, view: RunView) -> dict[str, Any]:
    """What the first reply led to, in the words of the cases."""
    reply = of(view, ModelReplied)[0]
    if reply.decision == "calls":
        (call,) = drift.called
        return {"outcome": "tool_call", "tool": call[0], "args": call[1]}
    if reply.decision == "final":
        return {"outcome": "final", "answer": answer(view)}
    return {"outcome": "retry", "code": reply.code}


def in_our_words(accepted: dict[str, Any]) -> dict[str, Any]:
    wanted = {key: value for key, value in accepted.items() if key != "id"}
    if "code" in wanted:
        wanted["code"] = OUR_CODES.get(wanted["code"], wanted["code"])
    return wanted


@pytest.mark.parametrize("case_id", CASES)
async def test_a_run_survives_the_drift(case_id: str, tmp_path: Path) -> None:
    """An outcome that the case accepts; exactly the accepted arguments reach the tool, or none does. The raw reply is
    in the record, no protocol is shown, and the run comes to its answer."""
    case = CASES[case_id]
    drift = Drift(case)
    view = await drift.run(tmp_path if case_id in ON_DISK else None)
    outcome = came_to(drift, view)
    assert outcome in [in_our_words(accepted) for accepted in case["expected"]["accept"]]
    assert view.state.state is State.FINAL_ANSWER
    reply = of(view, ModelReplied)[0]
    assert view.texts[reply.reply] == drift.raw
    if reply.native is not None:
        assert view.texts[reply.native] == native_json(drift.reply.calls)
    if outcome["outcome"] == "final":
        assert drift.shown.get(1, "") == answer(view)
        return
    assert answer(view) == "Finished."
    assert drift.shown.get(1, "") == ""
    if outcome["outcome"] == "retry":
        assert drift.called == []
        assert view.state.attempts == 2
        assert drift.model.requests[1].messages[-1].content == view.texts[reply.correction]
        assert len(view.texts[reply.correction]) < 700
    else:
        assert len(drift.called) == len(of(view, ToolIntended)) == len(of(view, ToolReturned)) == 1


@pytest.mark.parametrize("case_id", ["A10", "A11", "A12"])
async def test_what_follows_the_action_is_evidence_of_nothing(case_id: str) -> None:
    """It is in the raw reply and counted; the next prompt does not hold it, nor does any result."""
    drift = Drift(CASES[case_id])
    view = await drift.run()
    reply = of(view, ModelReplied)[0]
    tail = drift.raw[-reply.discarded :]
    assert reply.discarded
    assert tail.startswith(("Observation:", "Thought:", "Action:"))
    assert not any(tail in m.content for m in drift.model.requests[1].messages)
    assert not any(tail.split(": ")[1][:20] in view.texts[e.shown] for e in of(view, ToolReturned))


@pytest.mark.parametrize("case_id", ["A29", "A31", "A36", "A39", "A57"])
async def test_a_drift_that_does_not_stop_fails_in_plain_words(case_id: str) -> None:
    """A bounded number of corrections, then ``failed`` with a reason; never an empty or protocol answer."""
    drift = Drift(CASES[case_id])
    drift.model = Recording(lambda _: drift.reply)
    view = await drift.run()
    assert view.state.state is State.ERROR
    assert len(drift.model.requests) == 3
    failed = of(view, RunFailed)[0]
    assert failed.code == OUR_CODES[CASES[case_id]["expected"]["accept"][0]["code"]]
    assert len(view.texts[failed.message]) > 20
    assert not any(word in view.texts[failed.message] for word in PROTOCOL)
    assert drift.called == []


async def test_a57_each_attempt_gets_more_room() -> None:
    """The budget that reasoning used up is not tried again unchanged."""
    drift = Drift(CASES["A57"])
    await drift.run()
    assert [request.max_tokens for request in drift.model.requests] == [None, 2 * 4096]


async def test_a46_is_delivered_when_it_says_so_again() -> None:
    """At most one question, then the plain text is the answer, marked as unstructured."""
    drift = Drift(CASES["A46"], then=CASES["A46"]["input"])
    view = await drift.run()
    assert answer(view) == CASES["A46"]["input"]
    assert of(view, RunFinished)[0].verdicts == ("unstructured",)


async def test_a49_keeps_the_text_beside_a_native_call_as_thought() -> None:
    """Nothing of it is streamed as an answer, in the tools protocol neither."""
    drift = Drift(CASES["A49"], then="Finished.")
    view = await drift.run(protocol="tools")
    reply = of(view, ModelReplied)[0]
    assert view.texts[reply.thought] == "Let me check. Action: final: It is 5."
    assert drift.shown == {}
    assert answer(view) == "Finished."
