"""The OpenAI-compatible adapter against a real local server: what is sent, and replies whole and streamed."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devassist.core.errors import ProviderError
from devassist.core.messages import ChatMessage, ModelReply, NativeCall
from devassist.llm.quirks import Quirks
from devassist.llm.render import render_messages
from devassist.ports.model import ModelRequest
from tests.llm.cases import case
from tests.llm.client import ASK, DONE, KEY, SCOPE, adapter, ask, chat, event
from tests.llm.stub import provider, sse, whole


async def test_a_whole_reply() -> None:
    """Text, finish reason, usage and the provider's model name arrive."""
    reply, _ = await ask(whole(chat("Hi", usage={"prompt_tokens": 11, "completion_tokens": 3})))
    assert reply == ModelReply("Hi", finish_reason="stop", input_tokens=11, output_tokens=3, model="m-1")


async def test_what_is_sent() -> None:
    """Model, messages, tools, limits and key are sent; streaming is asked for only with on_delta, usage with it."""
    tool = {"type": "function", "function": {"name": "search_docs", "parameters": {}}}
    request = ModelRequest(ASK.messages, tools=(tool,), max_tokens=77)
    answers = (whole(chat()), sse(event({"content": "x"}, "stop"), DONE))
    async with provider(*answers) as stub, adapter(stub, extra={"temperature": 0}) as model:
        await model.complete(SCOPE, request)
        await model.complete(SCOPE, request, lambda _: None)
    first, second = stub.bodies
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "你好"}]
    assert first == {"temperature": 0, "model": "m", "messages": messages, "tools": [tool], "max_tokens": 77}
    assert second == {**first, "stream": True, "stream_options": {"include_usage": True}}
    head = stub.requests[0][0]
    assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert f"authorization: Bearer {KEY}".lower() in head.lower()


async def test_one_connection_serves_many_calls() -> None:
    """Whole, streamed and refused calls leave the connection usable."""
    answers = [whole(chat()), sse(event({"content": "x"}, "stop"), DONE), whole({}, 429), whole(chat())]
    async with provider(*answers) as stub, adapter(stub) as model:
        await model.complete(SCOPE, ASK)
        await model.complete(SCOPE, ASK, lambda _: None)
        with pytest.raises(ProviderError):
            await model.complete(SCOPE, ASK)
        await model.complete(SCOPE, ASK)
        assert stub.connections == 1


@pytest.mark.parametrize("name", ["B10", "B14", "B15"])
async def test_streams_of_the_cases(name: str) -> None:
    """Comments, usage in a last chunk without choices, and raw U+2028 and U+0085 harm no streamed reply."""
    given = case(name)
    reply, deltas = await ask(sse(given["input"]), streamed=True)
    answer = given["expected"]["accept"][0]["answer"]
    assert reply.text == "".join(deltas) == f"Thought: ok\nAction: final: {answer}"
    if name == "B14":
        assert (reply.input_tokens, reply.output_tokens) == (611, 13)


CHUNKED = (
    event({"role": "assistant", "content": "Thought: 好"}) + event({"content": "🚀\u2028"}) + event({}, "stop") + DONE
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, len(CHUNKED.encode()) - 1), max_size=6), crlf=st.booleans())
def test_any_chunking_gives_the_same_reply(cuts: list[int], crlf: bool) -> None:
    """Chunk boundaries anywhere, also inside a UTF-8 sequence, change neither the reply nor the joined deltas."""
    stream = (CHUNKED.replace("\n", "\r\n") if crlf else CHUNKED).encode()
    edges = sorted({0, len(stream), *cuts})
    pieces = [stream[begin:end] for begin, end in pairwise(edges)]
    reply, deltas = asyncio.run(ask(sse(*pieces), streamed=True))
    assert reply.text == "".join(deltas) == "Thought: 好🚀\u2028"
    assert reply.finish_reason == "stop"


async def test_surrogate_halves_in_two_deltas_are_one_character() -> None:
    """A provider that cuts UTF-16 in the middle of a pair neither breaks the reply nor shows half a character."""
    halves = [
        'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n',
        'data: {"choices":[{"delta":{"content":"\\ude80b"}}]}\n\n',
    ]
    reply, deltas = await ask(sse(*halves, event({}, "stop"), DONE), streamed=True)
    assert reply.text == "".join(deltas) == "a🚀b"
    reply, _ = await ask(sse(halves[0], event({}, "stop"), DONE), streamed=True)
    assert reply.text == "a\ufffd"


async def test_a_stream_without_done_or_last_line_end() -> None:
    """A stream is whole when a finish reason came, also without [DONE] and the last blank line."""
    reply, _ = await ask(sse(event({"content": "x"}), event({}, "stop").rstrip("\n")), streamed=True)
    assert (reply.text, reply.finish_reason) == ("x", "stop")


async def test_usage_after_a_pause_is_waited_for() -> None:
    """Reading goes on after the finish reason, also where usage comes in a later packet."""
    usage = event(None, usage={"prompt_tokens": 5, "completion_tokens": 2})
    reply, _ = await ask(sse(event({"content": "x"}, "stop"), 0.05, usage, 0.05, DONE), streamed=True)
    assert (reply.input_tokens, reply.output_tokens) == (5, 2)


async def test_a_connection_held_open_after_done_does_not_hold_the_reply() -> None:
    """After [DONE] the reply is given though the server does not end its body."""
    started = asyncio.get_running_loop().time()
    reply, _ = await ask(sse(event({"content": "x"}, "stop"), DONE, end="hang"), streamed=True)
    assert reply.text == "x"
    assert asyncio.get_running_loop().time() - started < 2


async def test_a_connection_lost_after_the_finish_reason_loses_only_usage() -> None:
    """A reply that was whole stays so when the connection breaks afterwards."""
    reply, _ = await ask(sse(event({"content": "x"}, "stop"), end="reset"), streamed=True)
    assert (reply.text, reply.input_tokens) == ("x", 0)


async def test_b08_null_content_with_calls() -> None:
    """Null content is the empty text; replayed it is '' or null as the model's quirks want it, never 'None'."""
    reply, _ = await ask(whole(case("B08")["input"]))
    assert reply.text == ""
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [
        ("c1", "search_docs", {"query": "vat"})
    ]
    history = (
        ChatMessage("assistant", reply.text, reply.calls),
        ChatMessage("tool", "{}", tool_call_id="c1"),
    )
    for null_content, expected in ((False, ""), (True, None)):
        first, second = render_messages(history, Quirks(null_content=null_content))
        assert first["content"] == expected
        assert first["tool_calls"][0]["function"] == {"name": "search_docs", "arguments": '{"query":"vat"}'}
        assert second == {"role": "tool", "content": "{}", "tool_call_id": "c1"}
    spoken = ChatMessage("assistant", "Let me look.", reply.calls)
    assert render_messages((spoken,), Quirks(null_content=True))[0]["content"] == "Let me look."


async def test_b09_a_filtered_reply_is_passed_on_as_such() -> None:
    """content_filter with empty text is a reply of that finish reason, for the core to judge; it is not 'empty'."""
    reply, _ = await ask(whole(case("B09")["input"]))
    assert (reply.text, reply.finish_reason) == ("", "content_filter")


async def test_native_calls_by_deltas() -> None:
    """Argument pieces are joined in a stream, and its text deltas hold none of them."""
    pieces = [
        event(
            {"content": None, "tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}]}
        ),
        event({"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": ":1}"}}]}),
        event({}, "tool_calls"),
    ]
    reply, deltas = await ask(sse(*pieces, DONE), streamed=True)
    assert reply.calls == (NativeCall("c1", "f", '{"a":1}'),)
    assert (reply.text, deltas, reply.finish_reason) == ("", [], "tool_calls")


async def test_reasoning_stays_apart() -> None:
    """reasoning_content and reasoning are gathered once and never stand in text or deltas."""
    streamed = [
        event({"reasoning_content": "I ", "reasoning": "I "}),
        event({"reasoning": "think"}),
        event({"content": "4"}, "stop"),
    ]
    reply, deltas = await ask(sse(*streamed, DONE), streamed=True)
    assert (reply.text, reply.reasoning, deltas) == ("4", "I think", ["4"])
    reply, _ = await ask(whole(chat("4", message={"reasoning_content": "2 and 2"})))
    assert (reply.text, reply.reasoning) == ("4", "2 and 2")


async def test_content_in_parts() -> None:
    """Content sent as a list of parts is joined; thinking parts are reasoning."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "A"},
        {"text": "B"},
    ]
    reply, _ = await ask(whole(chat(parts)))
    assert (reply.text, reply.reasoning) == ("AB", "hm")


async def test_an_endpoint_that_does_not_stream() -> None:
    """A whole JSON answer to a streamed request is one delta."""
    reply, deltas = await ask(whole(chat("Hi")), streamed=True)
    assert (reply.text, deltas) == ("Hi", ["Hi"])


async def test_an_event_stream_that_was_not_asked_for() -> None:
    """An endpoint that always streams is understood without on_delta too."""
    reply, _ = await ask(sse(event({"content": "Hi"}, "stop"), DONE))
    assert reply.text == "Hi"


async def test_a_lone_surrogate_in_a_prompt_is_sent_as_an_escape() -> None:
    """A text that is no valid Unicode does not stop the call."""
    async with provider(whole(chat())) as stub, adapter(stub) as model:
        await model.complete(SCOPE, ModelRequest((ChatMessage("user", "a\ud83d"),)))
    assert b"\\ud83d" in stub.requests[0][1]
