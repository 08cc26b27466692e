"""The embedded model, for real: its replies keep their form, whatever they say, and its entrance is narrow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from devassist.core.errors import ProviderError
from devassist.core.messages import ChatMessage, ModelReply
from devassist.core.react import Final, ToolCalls, parse
from devassist.core.tooling import ToolSpec
from devassist.llm.embedded import AT_ONCE, NAME, REPLY_TOKENS, Embedded, Entrance, shaped
from devassist.ports.model import ModelRequest
from devassist.tools.schema import SchemaChecker
from tests.embedded import SCOPE, ask, model_file

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOK_UP = ToolSpec(
    "look_up", "Finds what a rule says.",
    {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
)  # fmt: skip
BOOK = ToolSpec(
    "book_room", "Books a room.",
    {"type": "object", "properties": {"room": {"enum": ["A", "B"]}, "hours": {"type": "integer"}},
     "required": ["room", "hours"], "additionalProperties": False},
)  # fmt: skip
TOOLS = (LOOK_UP, BOOK)
ASKED = {
    "en": ("How many days of leave do I have?", "Book room A for two hours.", "Hello!", "Who pays for travel?", "42"),
    "zh": ("年假有多少天？", "请预订A会议室两小时。", "你好！", "差旅费由谁承担？", "退休人员的报销比例是多少？"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[Embedded]:
    """One that has been asked already, for all tests that do not end it."""
    model = Embedded(model_file())
    assert model.process is None
    try:
        await model.complete(SCOPE, ask("Hello"))
        yield model
    finally:
        await model.close()


@pytest.mark.parametrize("lang", ["zh", "en"])
async def test_replies_keep_the_protocol(model: Embedded, lang: str) -> None:
    """Each is a decision without correction, its arguments fit the tool's schema, what was streamed is the reply, and
    no token limit ended it."""
    for text in ASKED[lang]:  # one by one: the beginning that all share is then read once
        pieces: list[str] = []
        reply = await model.complete(SCOPE, ask(text, lang, TOOLS), pieces.append)
        decides(reply, TOOLS)
        assert "".join(pieces) == reply.text
        assert reply.model == NAME
        assert reply.input_tokens > 100


def decides(reply: ModelReply, tools: tuple[ToolSpec, ...]) -> Final | ToolCalls:
    assert reply.finish_reason == "stop"
    assert 0 < reply.output_tokens <= REPLY_TOKENS
    found = parse(reply, [tool.name for tool in tools])
    assert isinstance(found, Final | ToolCalls), (reply.text, found)
    for call in found.calls if isinstance(found, ToolCalls) else ():
        SchemaChecker().check(next(tool for tool in tools if tool.name == call.name), call.args)
    return found


async def test_each_tool_is_offered_once_for_a_question() -> None:
    """Left to itself it would make the same call until no step is left: after the call it can only answer, and another
    question begins anew."""
    request = ask("How many days of leave do I have?", tools=(LOOK_UP,))
    called = ChatMessage("assistant", 'Thought: look\nAction: tool:look_up\nargs: {"question": "leave"}')
    seen = (*request.messages, called, ChatMessage("user", 'Observation: {"days": 15}'))
    anew = (
        *seen,
        ChatMessage("assistant", "Thought: known\nAction: final: 15"),
        ChatMessage("user", "And sick leave?"),
    )
    offered = ["tool:look_up" in grammar(request._replace(messages=each)) for each in (request.messages, seen, anew)]
    assert offered == [True, False, True]
    assert all("final: " in grammar(request._replace(messages=each)) for each in (request.messages, seen, anew))


def grammar(request: ModelRequest) -> str:
    return shaped(request)[1]["grammar"]


async def test_native_tools_become_those_of_the_text_protocol(model: Embedded) -> None:
    """A model that was never taught native calls keeps a protocol that is understood either way."""
    functions = ({"type": "function", "function": {"name": "look_up", "parameters": LOOK_UP.parameters}},)
    plain = ask("How many days of leave do I have?")
    reply = await model.complete(SCOPE, plain._replace(tools=functions, tool_names=("look_up",)))
    assert reply.text.startswith("Thought: ")
    assert reply.calls == ()
    assert isinstance(parse(reply, ["look_up"], protocol="tools"), Final | ToolCalls)


async def test_plain_chat_is_plain_text(model: Embedded) -> None:
    """Without the protocol's words it answers as it likes, in the language of the question, within a given limit."""
    english = await model.complete(SCOPE, ask("Name three colours.", max_tokens=64))
    chinese = await model.complete(SCOPE, ask("你好，请说三种颜色。", "zh", max_tokens=64))
    for reply in (english, chinese):
        assert isinstance(parse(reply, [], protocol="tools"), Final)
        assert (reply.finish_reason, "Action:" in reply.text) == ("stop", False)
        assert 0 < reply.output_tokens < 64
    assert english.text[0].isascii()
    assert "\u4e00" <= chinese.text[0] <= "\u9fff"


async def test_a_limit_that_holds_no_decision_is_refused(model: Embedded) -> None:
    """It is the caller's to change, so it is not asked again."""
    with pytest.raises(ProviderError, match="max_tokens is 60") as caught:
        await model.complete(SCOPE, ask("Hello", tools=TOOLS, max_tokens=60))
    assert (caught.value.code, caught.value.retryable) == ("provider_rejected", False)


async def test_one_more_than_it_takes_is_refused(model: Embedded) -> None:
    """The ninth request is told when to come back, the tenth later; given up, all others leave their slots at once, and
    the next one is answered."""
    given_up = [asyncio.ensure_future(model.complete(SCOPE, ask("Tell me a long story."))) for _ in range(AT_ONCE)]
    await until(lambda: slots_busy(model), "the slots are taken")
    waits: list[int] = []
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            await model.complete(SCOPE, ask("Hello"))
        assert (caught.value.code, caught.value.retryable) == ("provider_rate_limited", True)
        waits.append(caught.value.retry_after_ms or 0)
    assert 0 < waits[0] < waits[1] <= 60_000
    for each in given_up:
        each.cancel()
    ended = await asyncio.gather(*given_up, return_exceptions=True)
    assert sum(isinstance(each, asyncio.CancelledError) for each in ended) >= AT_ONCE - 4
    await until(lambda: slots_free(model), "the slots are free again")
    assert (await model.complete(SCOPE, ask("Hello", max_tokens=40))).text


async def until(holds: Any, what: str) -> None:
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.05)


async def slots(model: Embedded) -> list[bool]:
    assert model.process is not None
    headers = {"Authorization": f"Bearer {model.process.key}"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(model.process.socket, force_close=True)) as session,
        session.get("http://x/slots", headers=headers) as answer,
    ):
        return [slot["is_processing"] for slot in await answer.json()]


async def slots_busy(model: Embedded) -> bool:
    return all(await slots(model))


async def slots_free(model: Embedded) -> bool:
    return not any(await slots(model))


async def test_the_refused_come_back_one_after_another() -> None:
    """At the pace at which the others leave, and never later than in a minute."""
    now = 100.0
    entrance = Entrance(2, lambda: now)

    def refused_ms() -> int:
        with pytest.raises(ProviderError) as caught, entrance:
            raise AssertionError
        return caught.value.retry_after_ms or 0

    with entrance, entrance:
        assert [refused_ms() for _ in range(3)] == [2000, 4000, 6000]
        assert [refused_ms() for _ in range(60)][-1] == 60_000
    now += 1000
    for _ in range(40):
        entrance.__enter__()
        entrance.__enter__()
        now += 1.0
        entrance.__exit__()
        entrance.__exit__()
    with entrance, entrance:
        assert 400 < refused_ms() < 1200
    assert len(entrance) == 0
