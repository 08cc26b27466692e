"""The OpenAI-compatible adapter against a real local server: replies, errors, time limits, cancellation, secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devassist.core.errors import ConfigInvalid, ProviderError, Unavailable
from devassist.core.messages import ChatMessage, ModelReply, NativeCall
from devassist.core.scope import Scope
from devassist.llm.endpoint import SessionSettings
from devassist.llm.openai_compat import OpenAICompatible
from devassist.llm.quirks import Quirks, quirks_for
from devassist.llm.render import render_messages
from devassist.ports.model import ModelRequest
from tests.llm.cases import case
from tests.llm.stub import Answer, Stub, of_case, provider, sse, whole

SCOPE = Scope("default", "ann")
KEY = "sk-Very/Secret+Key-0123456789"
ASK = ModelRequest((ChatMessage("system", "Be brief."), ChatMessage("user", "你好")))


@asynccontextmanager
async def adapter(stub: Stub, **options: Any) -> AsyncIterator[OpenAICompatible]:
    model = OpenAICompatible(stub.base_url, KEY, options.pop("model", "m"), **options)
    try:
        yield model
    finally:
        await model.close()


async def ask(
    *answers: Answer, streamed: bool = False, request: ModelRequest = ASK, **options: Any
) -> tuple[ModelReply, list[str]]:
    """One call that plays ``answers``; the reply and its deltas."""
    deltas: list[str] = []
    async with provider(*answers) as stub, adapter(stub, **options) as model:
        return await model.complete(SCOPE, request, deltas.append if streamed else None), deltas


async def refused(*answers: Answer, streamed: bool = False, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(*answers, streamed=streamed, **options)
    return caught.value


def chat(content: Any = "Hello", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "model": "m-1", **more}


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return f"data: {json.dumps({'choices': choices, **more})}\n\n"


DONE = "data: [DONE]\n\n"


async def test_a_whole_reply() -> None:
    """Text, finish reason, usage and the provider's model name arrive."""
    reply, _ = await ask(whole(chat("Hi", usage={"prompt_tokens": 11, "completion_tokens": 3})))
    assert reply == ModelReply("Hi", finish_reason="stop", input_tokens=11, output_tokens=3, model="m-1")


async def test_what_is_sent() -> None:
    """Model, messages, tools, limits and key are sent; streaming is asked for only with on_delta, usage with it."""
    tool = {"type": "function", "function": {"name": "search_docs", "parameters": {}}}
    request = ModelRequest(ASK.messages, tools=(tool,), max_tokens=77)
    async with provider(whole(chat()), sse(event({"content": "x"}, "stop"), DONE)) as stub:
        async with adapter(stub, extra={"temperature": 0}) as model:
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
    pieces = [stream[begin:end] for begin, end in zip(edges, edges[1:], strict=False)]
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


async def test_a_stream_that_ends_without_a_finish_reason_is_incomplete() -> None:
    """A clean end is no success: neither with [DONE] nor without it."""
    for ending in ("", DONE):
        error = await refused(sse(event({"content": "The limit is 10"}), ending), streamed=True)
        assert (error.code, error.retryable) == ("stream_incomplete", True)
        assert "The limit" not in error.detail


@pytest.mark.parametrize("end", ["reset", "close"])
async def test_b12_a_connection_lost_in_the_stream(end: Any) -> None:
    """A reset, or a body that breaks off, is an interrupted attempt and never an answer."""
    error = await refused(sse(case("B12")["input"]["sse"][0], end=end), streamed=True)
    assert (error.code, error.retryable) == ("stream_interrupted", True)


async def test_a_connection_lost_after_the_finish_reason_loses_only_usage() -> None:
    """A reply that was whole stays so when the connection breaks afterwards."""
    reply, _ = await ask(sse(event({"content": "x"}, "stop"), end="reset"), streamed=True)
    assert (reply.text, reply.input_tokens) == ("x", 0)


async def test_b19_errors_before_and_inside_a_stream() -> None:
    """529, 503 with Retry-After and an error event inside a 200 stream are three retryable failures; then it works."""
    script = [of_case(step) for step in case("B19")["input"]]
    async with provider(*script) as stub, adapter(stub) as model:
        failures: list[ProviderError] = []
        for _ in range(3):
            with pytest.raises(ProviderError) as caught:
                await model.complete(SCOPE, ASK, lambda _: None)
            failures.append(caught.value)
        reply = await model.complete(SCOPE, ASK, lambda _: None)
    assert [failure.provider_status for failure in failures] == [529, 503, 529]
    assert all(failure.retryable for failure in failures)
    assert failures[1].retry_after_ms == 2000
    assert reply.text.endswith("Hello")


async def test_an_error_event_by_type() -> None:
    """An event of type error is one whatever its data look like."""
    error = await refused(sse('event: error\ndata: {"message": "gone", "code": 503}\n\n'), streamed=True)
    assert (error.provider_status, error.retryable) == (503, True)
    assert "gone" in error.detail


async def test_b06_an_error_body_under_200() -> None:
    """An error inside a 200 is a retryable 502 with its message kept."""
    error = await refused(of_case(case("B06")["input"]))
    assert (error.provider_status, error.retryable) == (502, True)
    assert "upstream returned 502" in error.detail


async def test_b07_empty_choices_carry_their_usage() -> None:
    """A reply without choices is retryable, and what it cost is told."""
    error = await refused(of_case(case("B07")["input"]))
    assert (error.code, error.retryable, error.input_tokens) == ("reply_empty_choices", True, 12)
    empty = sse(event(None, usage={"prompt_tokens": 4, "completion_tokens": 0}), DONE)
    error = await refused(empty, streamed=True)
    assert (error.code, error.retryable, error.input_tokens) == ("reply_empty_choices", True, 4)


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


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_page_instead_of_json(streamed: bool) -> None:
    """A gateway's page under 200 is a retryable failure that quotes its beginning."""
    error = await refused(whole("<html>Bad gateway</html>"), streamed=streamed)
    assert (error.code, error.retryable) == ("reply_unreadable", True)
    assert "Bad gateway" in error.detail


async def test_an_endpoint_that_does_not_stream() -> None:
    """A whole JSON answer to a streamed request is one delta."""
    reply, deltas = await ask(whole(chat("Hi")), streamed=True)
    assert (reply.text, deltas) == ("Hi", ["Hi"])


async def test_an_event_stream_that_was_not_asked_for() -> None:
    """An endpoint that always streams is understood without on_delta too."""
    reply, _ = await ask(sse(event({"content": "Hi"}, "stop"), DONE))
    assert reply.text == "Hi"


async def test_b01_and_b02_waits_are_told() -> None:
    """Retry-After is read in both forms, an HTTP date against the injected clock."""
    error = await refused(of_case(case("B01")["input"][0]))
    assert (error.code, error.retryable, error.retry_after_ms) == ("provider_rate_limited", True, 7000)
    for moment, wait in (("10:00:00", 20_000), ("10:01:00", 0)):
        clock = datetime.fromisoformat(f"2026-05-06T{moment}").replace(tzinfo=UTC).timestamp()
        error = await refused(of_case(case("B02")["input"][0]), wall=lambda clock=clock: clock)
        assert error.retry_after_ms == wait


async def test_a_redirect_is_not_followed() -> None:
    """The key is never carried to another address."""
    error = await refused(Answer([b""], 302, {"Location": "http://127.0.0.1:9/x"}))
    assert (error.retryable, error.provider_status) == (False, 302)


async def test_nobody_listens() -> None:
    """A refused connection is retryable and names the address."""
    async with provider() as stub:
        pass
    async with adapter(stub) as model:
        with pytest.raises(ProviderError) as caught:
            await model.complete(SCOPE, ASK)
    assert (caught.value.code, caught.value.retryable) == ("provider_unreachable", True)
    assert stub.base_url.removesuffix("/v1") in caught.value.detail


async def test_a_connection_closed_before_the_answer() -> None:
    """A server that hangs up at once was not reached."""
    answers = [Answer(end="reset")]
    async with provider(*answers) as stub, adapter(stub) as model:
        stub.script.clear()
        with pytest.raises(ProviderError) as caught:
            await model.complete(SCOPE, ASK)
    assert (caught.value.code, caught.value.retryable) == ("provider_unreachable", True)


@pytest.mark.parametrize(
    ("limits", "timeout_s", "pause", "words"),
    [
        (SessionSettings(first_token_s=0.1, connect_s=0.1), 30.0, (5.0,), "within its answer"),
        (SessionSettings(idle_s=0.1), 30.0, (event({"content": "x"}), 5.0), "within its answer"),
        (SessionSettings(), 0.2, (event({"content": "x"}), *([0.05, ": ping\n\n"] * 20)), "in the time given"),
    ],
    ids=["first token", "idle", "whole call"],
)
async def test_time_limits(limits: SessionSettings, timeout_s: float, pause: Any, words: str) -> None:
    """Silence before the first token, silence later, and the request's own limit end a call as a retryable timeout."""
    request = ModelRequest(ASK.messages, timeout_s=timeout_s)
    error = await asyncio.wait_for(refused(sse(*pause), streamed=True, settings=limits, request=request), 3)
    assert (error.code, error.retryable) == ("provider_timeout", True)
    assert words in error.detail


async def test_a_slow_stream_outlives_its_idle_limit() -> None:
    """Each byte starts the idle time anew, keep-alive comments included."""
    pieces: list[Any] = [piece for _ in range(8) for piece in (0.05, ": ping\n\n")]
    reply, _ = await ask(
        sse(*pieces, event({"content": "x"}, "stop"), DONE), streamed=True, settings=SessionSettings(idle_s=0.2)
    )
    assert reply.text == "x"


@pytest.mark.parametrize("streamed", [False, True])
async def test_answers_are_bounded(streamed: bool) -> None:
    """An endless body, and an endless line of a stream, are refused and not retried."""
    limits = SessionSettings(max_reply_bytes=5000, max_event_bytes=2000)
    long = whole(chat("x" * 6000)) if not streamed else sse("data: ", "x" * 3000)
    error = await refused(long, streamed=streamed, settings=limits)
    assert (error.code, error.retryable) == ("reply_too_large", False)


@pytest.mark.parametrize(
    "answer", [sse(event({"content": "x"}), end="hang"), Answer(end="hang")], ids=["streaming", "waiting"]
)
async def test_cancellation_closes_the_connection(answer: Answer) -> None:
    """A cancelled call ends upstream at once, before as well as within the answer."""
    async with provider(answer) as stub, adapter(stub) as model:
        seen = asyncio.Event()
        call = asyncio.create_task(model.complete(SCOPE, ASK, lambda _: seen.set()))
        if answer.chunks:
            await asyncio.wait_for(seen.wait(), 2)
        else:
            while not stub.requests:
                await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(stub.gone.wait(), 2)


LEAKS: list[tuple[str, Callable[[], Answer]]] = [
    ("json", lambda: whole({"error": {"message": f"bad key {KEY} in Bearer {KEY}"}}, 401)),
    ("escaped", lambda: whole('{"error": "\\u0073' + KEY[1:] + '"}', 500)),
    ("page", lambda: whole(f"<p>{KEY.replace('/', '%2F').replace('+', '%2B')}</p>", 502)),
    ("cut", lambda: whole("." * 590 + KEY, 500)),
    ("under 200", lambda: whole({"error": {"message": KEY}})),
    ("no json", lambda: whole(f"<p>{KEY}")),
    ("stream", lambda: sse('data: {"error": {"message": "' + KEY + '"}}\n\n')),
    ("stream data", lambda: sse(f"data: {KEY}\n\n")),
    ("lost", lambda: sse(event({"content": "x"}), end="reset")),
    ("headers", lambda: Answer([b"x"], 500, {"X-Echo": KEY, "Transfer-Encoding": "chunked, nonsense"})),
]


@pytest.mark.parametrize(("name", "answer"), LEAKS, ids=[name for name, _ in LEAKS])
async def test_the_key_stands_in_no_error(
    name: str, answer: Callable[[], Answer], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a provider echoes, neither detail, traceback, chained errors, logs nor repr hold the key."""
    caplog.set_level(logging.DEBUG)
    async with provider(answer()) as stub, adapter(stub) as model:
        with pytest.raises(ProviderError) as caught:
            await model.complete(SCOPE, ASK, lambda _: None)
        shown = repr(model) + str(model)
    error = caught.value
    told = "".join(traceback.format_exception(error)) + error.detail + repr(error) + shown + caplog.text
    assert error.__cause__ is None
    assert error.__context__ is None
    for spelling in (KEY, KEY[:14], "Very%2FSecret", "Very\\/Secret"):
        assert spelling not in told


async def test_models_are_listed_and_the_only_one_is_used() -> None:
    """Without OPENAI_MODEL the endpoint's only model is taken, with its quirks; several are an error that lists them."""
    listing = {"data": [{"id": "gpt-5-mini"}]}
    async with provider(whole(listing), whole(chat())) as stub, adapter(stub, model=None) as model:
        assert await model.resolve_model() == model.name == "gpt-5-mini"
        assert await model.resolve_model() == "gpt-5-mini"
        await model.complete(SCOPE, ModelRequest(ASK.messages, max_tokens=5))
        assert stub.requests[0][0].startswith("GET /v1/models ")
        assert json.loads(stub.requests[1][1])["max_completion_tokens"] == 5
    for models in (["a", "b"], []):
        async with provider(whole({"data": [{"id": one} for one in models]})) as stub, adapter(stub, model="") as model:
            with pytest.raises(ConfigInvalid) as caught:
                await model.resolve_model()
            assert "OPENAI_MODEL" in caught.value.detail
            assert all(one in caught.value.detail for one in models)
            with pytest.raises(ConfigInvalid):
                await model.complete(SCOPE, ASK)


async def test_models_that_cannot_be_listed() -> None:
    """A refusal or nonsense from GET /models is a ProviderError like any other."""
    for answer in (whole({"error": {"message": "no"}}, 401), whole({"data": None}), whole("<p>")):
        async with provider(answer) as stub, adapter(stub, model=None) as model:
            with pytest.raises(ProviderError):
                await model.list_models()


@pytest.mark.parametrize(
    "url", ["", "localhost:8000/v1", "ftp://x/v1", "http://", "http://user:pw@host/v1", "http://[::1"]
)
def test_an_unusable_address_is_a_setting_error(url: str) -> None:
    """The setting is named, and what it held is not echoed where it may hold a password."""
    with pytest.raises(ConfigInvalid) as caught:
        OpenAICompatible(url, KEY, "m")
    assert "OPENAI_BASE_URL" in caught.value.detail
    assert "pw" not in caught.value.detail


def test_an_unusable_key_is_a_setting_error_that_does_not_show_it() -> None:
    """A key with a line break inside is refused before it can break a header."""
    with pytest.raises(ConfigInvalid) as caught:
        OpenAICompatible("http://h/v1", "sk-secret\nX: y", "m")
    assert "secret" not in caught.value.detail


async def test_a_query_of_the_address_stays() -> None:
    """An address with a query (api-version) keeps it behind the path."""
    async with provider(whole(chat())) as stub:
        model = OpenAICompatible(stub.base_url + "/?api-version=1", KEY, "m")
        await model.complete(SCOPE, ASK)
        await model.close()
    assert stub.requests[0][0].startswith("POST /v1/chat/completions?api-version=1 ")


async def test_close_is_idempotent_and_final() -> None:
    """Closing twice is fine, closing an unused adapter too; a call after it is refused."""
    async with provider() as stub, adapter(stub) as model:
        await model.close()
        await model.close()
        with pytest.raises(Unavailable):
            await model.complete(SCOPE, ASK)


def test_quirks_by_name() -> None:
    """The longest prefix decides, behind a gateway's vendor prefix too; other models have the defaults."""
    assert quirks_for("openai/GPT-5-mini").max_tokens_field == "max_completion_tokens"
    assert quirks_for("o3-mini").sampling is False
    assert quirks_for("qwen3-8b") == Quirks()


async def test_quirks_shape_the_request() -> None:
    """A model that takes no sampling gets none, and one that takes no stream options gets none."""
    quirks = Quirks(sampling=False, stream_usage=False)
    async with provider(sse(event({"content": "x"}, "stop"), DONE)) as stub:
        async with adapter(stub, extra={"temperature": 0, "seed": 1}, quirks=quirks) as model:
            await model.complete(SCOPE, ASK, lambda _: None)
    assert {key for key in stub.bodies[0] if key != "messages"} == {"seed", "model", "stream"}


async def test_a_lone_surrogate_in_a_prompt_is_sent_as_an_escape() -> None:
    """A text that is no valid Unicode does not stop the call."""
    async with provider(whole(chat())) as stub, adapter(stub) as model:
        await model.complete(SCOPE, ModelRequest((ChatMessage("user", "a\ud83d"),)))
    assert b"\\ud83d" in stub.requests[0][1]
