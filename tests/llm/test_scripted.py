"""The scripted model: its replies depend on the request alone, and its file form says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import ConfigInvalid, ProviderError
from devassist.core.messages import ChatMessage, ModelReply, NativeCall
from devassist.core.react import Fault, correction
from devassist.core.scope import Scope
from devassist.llm.script_file import load_script, parse_script
from devassist.llm.scripted import AfterFailures, Chunks, Scripted
from devassist.ports.model import Model, ModelRequest

SCOPE = Scope("default", "ann")
CALL = 'Thought: look\nAction: tool:get_policy\nargs: {"question": "年假"}'
FINAL = "Thought: ok\nAction: final: 5 天"


def prompt(*turns: str, question: str = "年假有几天？", attempt: int | None = None) -> ModelRequest:
    """A prompt after these assistant messages, each followed by an observation."""
    messages = [ChatMessage("system", "s"), ChatMessage("user", "早"), ChatMessage("assistant", "早")]
    messages.append(ChatMessage("user", question))
    for turn in turns:
        messages += [ChatMessage("assistant", turn), ChatMessage("user", 'Observation: {"found": true}')]
    return ModelRequest(tuple(messages), attempt=len(turns) + 1 if attempt is None else attempt)


async def text_of(model: Model, request: ModelRequest) -> str:
    return (await model.complete(SCOPE, request)).text


async def test_the_turn_chooses_the_reply() -> None:
    """Two fresh instances, as before and after a restart, answer the same prompt alike; history does not count."""
    for _ in range(2):
        model = Scripted([CALL, FINAL])
        assert await text_of(model, prompt(CALL)) == FINAL
        assert await text_of(model, prompt()) == CALL
        assert await text_of(model, prompt()) == CALL


async def test_a_correction_is_no_new_question() -> None:
    """After a correction the same question is asked, so the next reply is due."""
    request = prompt()
    faulty = ChatMessage("assistant", "nonsense")
    told = ChatMessage("user", correction(Fault("reply_format_invalid", "no action"), "zh", ["get_policy"]))
    request = ModelRequest((*request.messages, faulty, told))
    assert await text_of(Scripted(["nonsense", FINAL]), request) == FINAL


async def test_a_native_result_counts_like_an_observation() -> None:
    """Native calls and their tool messages belong to the turn."""
    call = ChatMessage("assistant", "", (NativeCall("c1", "get_policy", "{}"),))
    request = ModelRequest((*prompt().messages, call, ChatMessage("tool", "{}", tool_call_id="c1")))
    assert await text_of(Scripted([CALL, FINAL]), request) == FINAL


async def test_a_script_that_ends_too_early_says_so() -> None:
    """A missing reply is an error that is not retried."""
    with pytest.raises(ProviderError) as caught:
        await text_of(Scripted([CALL]), prompt(CALL))
    assert (caught.value.code, caught.value.retryable) == ("script_exhausted", False)


async def test_a_function_is_a_script() -> None:
    """A function of the request gives any kind of reply."""
    reply = ModelReply("x", calls=(NativeCall("c", "t", "{}"),), input_tokens=1, output_tokens=2)
    model = Scripted(lambda request: reply if request.attempt == 1 else ProviderError("no", retryable=True))
    assert await model.complete(SCOPE, prompt()) is reply
    with pytest.raises(ProviderError):
        await model.complete(SCOPE, prompt(attempt=2))


async def test_errors_before_a_reply() -> None:
    """Attempts that gave no assistant turn count, so 'twice an error, then an answer' needs no memory."""
    flaky = AfterFailures((ProviderError("a", retryable=True), ProviderError("b", retryable=True)), FINAL)
    model = Scripted([CALL, flaky])
    for attempt, detail in ((2, "a"), (3, "b")):
        with pytest.raises(ProviderError) as caught:
            await model.complete(SCOPE, prompt(CALL, attempt=attempt))
        assert caught.value.detail == detail
    assert await text_of(model, prompt(CALL, attempt=4)) == FINAL


async def test_streaming_by_any_chunks() -> None:
    """Explicit pieces are streamed as they are, texts in pieces of the size asked for, and joins are the reply."""
    for model, expected in (
        (Scripted([["Action: fi", ("nal: x", 1)]]), ["Action: fi", "nal: x"]),
        (Scripted([Chunks(("a", "", "b"))]), ["a", "b"]),
        (Scripted(["abcde"], chunk=2, delay_ms=1), ["ab", "cd", "e"]),
        (Scripted(["abcde"]), ["abcde"]),
        (Scripted([""]), []),
    ):
        deltas: list[str] = []
        reply = await model.complete(SCOPE, prompt(), deltas.append)
        assert deltas == expected
        assert reply.text == "".join(expected)
        assert reply.input_tokens > 0


async def test_a_stream_that_breaks_off() -> None:
    """Pieces may be followed by an error, as when a connection is lost."""
    deltas: list[str] = []
    model = Scripted([Chunks(("The limit is 10",), ProviderError("lost", code="stream_interrupted", retryable=True))])
    with pytest.raises(ProviderError) as caught:
        await model.complete(SCOPE, prompt(), deltas.append)
    assert (caught.value.code, deltas) == ("stream_interrupted", ["The limit is 10"])


SCRIPT: dict[str, Any] = {
    "name": "demo",
    "rules": [
        {"match": "年假", "observations": 1, "replies": ["Action: final: again", FINAL], "chunk": 3},
        {"match": "年假", "replies": [{"text": "", "calls": [{"name": "get_policy", "arguments": {"question": "x"}}]}]},
        {"match": "^fail$", "replies": [{"errors": [{"detail": "busy", "retryable": True}], "then": "fine"}]},
        {"match": "^lost$", "replies": [{"chunks": ["a", ["b", 1]], "error": {"code": "stream_interrupted"}}]},
        {"match": "^error$", "replies": [{"error": {"code": "x", "retry_after_ms": 5, "provider_status": 429}}]},
        {"replies": ["no rule"]},
    ],
}


async def test_a_script_file(tmp_path: Path) -> None:
    """The first rule that fits the last plain message and the number of observations gives the reply."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT), "utf-8")
    model = load_script(path)
    assert (model.name, model.kind) == ("demo", "scripted")
    reply = await model.complete(SCOPE, prompt())
    assert reply.calls == (NativeCall("call_1", "get_policy", '{"question": "x"}'),)
    assert reply.finish_reason == "tool_calls"
    assert reply.output_tokens > 0
    deltas: list[str] = []
    assert (await model.complete(SCOPE, prompt(CALL), deltas.append)).text == "Action: final: again"
    assert deltas[0] == "Act"
    corrected = ModelRequest((*prompt(CALL).messages, ChatMessage("assistant", "x"), ChatMessage("user", "【更正】y")))
    assert await text_of(model, corrected) == FINAL
    assert await text_of(model, prompt(question="else")) == "no rule"


async def test_errors_of_a_script_file() -> None:
    """Failures before a reply, broken streams and plain errors can be written in a file."""
    model = parse_script(SCRIPT)
    with pytest.raises(ProviderError) as caught:
        await model.complete(SCOPE, prompt(question="fail"))
    assert (caught.value.detail, caught.value.retryable) == ("busy", True)
    assert await text_of(model, prompt(question="fail", attempt=2)) == "fine"
    deltas: list[str] = []
    with pytest.raises(ProviderError):
        await model.complete(SCOPE, prompt(question="lost"), deltas.append)
    assert deltas == ["a", "b"]
    with pytest.raises(ProviderError) as caught:
        await model.complete(SCOPE, prompt(question="error"))
    assert (caught.value.code, caught.value.retry_after_ms, caught.value.provider_status) == ("x", 5, 429)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ([], "script"),
        ({"rules": {}}, "rules"),
        ({"rules": [], "rule": []}, "unknown rule"),
        ({"rules": [{"match": "("}]}, "rules[0]"),
        ({"rules": [{"replies": "x"}]}, "rules[0].replies"),
        ({"rules": [{"replies": [{"tekst": "x"}]}]}, "rules[0].replies[0]"),
        ({"rules": [{"replies": [{}]}]}, "rules[0].replies[0]"),
        ({"rules": [{"replies": [{"chunks": [3]}]}]}, "rules[0].replies[0]"),
        ({"rules": [{"replies": [], "observations": "1"}]}, "rules[0]"),
    ],
)
def test_a_wrong_script_names_the_place(data: Any, place: str) -> None:
    """What is wrong in a script file is said with its place."""
    with pytest.raises(ConfigInvalid) as caught:
        parse_script(data)
    assert place in caught.value.detail


def test_an_unreadable_script_names_the_file(tmp_path: Path) -> None:
    """A missing or broken file is a setting error that names it."""
    broken = tmp_path / "broken.json"
    broken.write_text("{", "utf-8")
    for path in (broken, tmp_path / "none.json"):
        with pytest.raises(ConfigInvalid) as caught:
            load_script(path)
        assert str(path) in caught.value.detail


async def test_a_script_without_a_fitting_rule_says_so() -> None:
    """No rule that fits is an error that is not retried."""
    with pytest.raises(ProviderError) as caught:
        await parse_script({"rules": [{"match": "x", "replies": ["y"]}]}).complete(SCOPE, prompt())
    assert caught.value.code == "script_exhausted"
