"""Embeddings of an OpenAI-compatible endpoint, from a real HTTP server on loopback."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from devassist.core.errors import ConfigInvalid, EmbedderUnavailable
from devassist.vectors.openai_embedder import OpenAIEmbedder, Terms
from devassist.vectors.retry_after import retry_after_s
from tests.vectors.kit import free_port

KEY = "sk-very/secret-key"
QUICK = Terms(batch=3, pause_s=0.01)


def vectors_of(texts: list[str]) -> list[dict[str, Any]]:
    return [{"index": at, "embedding": [float(len(text)), 1.0, 2]} for at, text in enumerate(texts)]


@dataclass
class Endpoint:
    """Answers with ``plan``: each entry makes an answer of the inputs, the last one ever after."""

    plan: list[Callable[[list[str]], web.Response]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        made = self.plan[min(len(self.bodies), len(self.plan)) - 1] if self.plan else good
        return made(body["input"])


def good(texts: list[str]) -> web.Response:
    return web.json_response({"data": vectors_of(texts)})


def said(status: int, text: str = "no", **headers: str) -> Callable[[list[str]], web.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.Response(status=status, text=text, headers=named)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_post("/v1/embeddings", endpoint.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield endpoint
    await runner.cleanup()


@pytest.fixture
async def embedder(endpoint: Endpoint) -> AsyncIterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder(endpoint.url, KEY, "model-x", terms=QUICK)
    yield embedder
    await embedder.close()


async def test_texts_are_sent_in_batches_and_come_back_in_order(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    """With model and key; each vector is made one of length 1. No text is no request."""
    texts = ["a" * n for n in range(1, 8)]
    vectors = await embedder.embed(texts, "passage")
    assert [len(body["input"]) for body in endpoint.bodies] == [3, 3, 1]
    assert {body["model"] for body in endpoint.bodies} == {"model-x"}
    assert set(endpoint.keys) == {f"Bearer {KEY}"}
    for text, vector in zip(texts, vectors, strict=True):
        length = math.hypot(len(text), 1, 2)
        assert struct.unpack("<3f", vector) == pytest.approx((len(text) / length, 1 / length, 2 / length), abs=1e-6)
    assert await embedder.embed([], "query") == []
    assert len(endpoint.bodies) == 3


async def test_an_order_of_its_own_is_put_right(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    """Vectors are placed by their index, not by where they stand."""
    straight = await embedder.embed(["a", "bb", "ccc"], "passage")
    endpoint.plan = [lambda texts: web.json_response({"data": vectors_of(texts)[::-1]})]
    assert await embedder.embed(["a", "bb", "ccc"], "passage") == straight


async def test_texts_are_cut_and_never_blank(endpoint: Endpoint) -> None:
    """What is sent can be sent: cut, without NUL or half surrogate pairs, not empty; the cut stands in the name."""
    embedder = OpenAIEmbedder(endpoint.url, None, "m", terms=Terms(cut=5))
    await embedder.embed(["123456", "  ", "a\0b", "\ud83d"], "passage")
    await embedder.close()
    assert endpoint.bodies[0]["input"] == ["12345", "-", "a b", "?"]
    assert endpoint.keys == [None]
    host = endpoint.url.split("/")[2]
    assert embedder.name == f"openai/{host}/m/cut5"


@pytest.mark.parametrize("first", [said(429, Retry_After="0"), said(503), said(500), said(408)])
async def test_what_may_pass_is_tried_again(
    endpoint: Endpoint, embedder: OpenAIEmbedder, first: Callable[[list[str]], web.Response]
) -> None:
    """Once it answers, nobody notices."""
    endpoint.plan = [first, first, good]
    assert len(await embedder.embed(["a"], "passage")) == 1
    assert len(endpoint.bodies) == 3


async def test_tries_are_bounded(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    """Four requests, then the fault says what the endpoint said."""
    endpoint.plan = [said(503, "overloaded today")]
    with pytest.raises(EmbedderUnavailable, match="503: overloaded today"):
        await embedder.embed(["a"], "passage")
    assert len(endpoint.bodies) == QUICK.tries


@pytest.mark.parametrize(("kind", "wait"), [("query", "30"), ("passage", "3600")])
async def test_a_long_wait_is_not_waited(endpoint: Endpoint, embedder: OpenAIEmbedder, kind: Any, wait: str) -> None:
    """What a person waits for fails at once where the endpoint asks to come back much later, and says when."""
    endpoint.plan = [said(429, Retry_After=wait)]
    with pytest.raises(EmbedderUnavailable, match=f"asks to wait {wait} s"):
        await embedder.embed(["a"], kind)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 301])
async def test_a_refusal_is_final(endpoint: Endpoint, embedder: OpenAIEmbedder, status: int) -> None:
    """It is not tried again, and a redirect is not followed: the key goes nowhere else."""
    endpoint.plan = [said(status, Location="http://127.0.0.1:1/")]
    with pytest.raises(EmbedderUnavailable, match=str(status)):
        await embedder.embed(["a"], "passage")
    assert len(endpoint.bodies) == 1


WRONG: dict[str, Any] = {
    "no JSON": "<html>",
    "no object": [1],
    "an error with 200": {"error": {"message": "quota"}},
    "no list": {"data": {}},
    "too few": {"data": [{"index": 0, "embedding": [1.0]}]},
    "too many": {"data": [{"index": n, "embedding": [1.0]} for n in range(3)]},
    "one twice": {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
    "lengths differ": {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]},
    "empty": {"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]},
    "null": {"data": [{"index": 0, "embedding": [None]}, {"index": 1, "embedding": [1.0]}]},
    "true": {"data": [{"index": 0, "embedding": [True]}, {"index": 1, "embedding": [1.0]}]},
    "zero": {"data": [{"index": 0, "embedding": [0.0, 0]}, {"index": 1, "embedding": [1.0, 1]}]},
    "NaN": '{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1.0]}]}',
    "infinite": '{"data": [{"index": 0, "embedding": [1.7e308, 1.7e308]}, {"index": 1, "embedding": [1.0, 1]}]}',
    "huge": {"data": [{"index": 0, "embedding": [10**400]}, {"index": 1, "embedding": [1.0]}]},
    "a string": {"data": ["x", "y"]},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
async def test_what_is_no_vector_is_refused(endpoint: Endpoint, embedder: OpenAIEmbedder, body: Any) -> None:
    """Wrong counts, numbers and shapes are EmbedderUnavailable, whatever the status says."""
    text = body if isinstance(body, str) else json.dumps(body)
    endpoint.plan = [said(200, text)]
    with pytest.raises(EmbedderUnavailable, match="cannot be used"):
        await embedder.embed(["a", "b"], "passage")


async def test_a_dimension_that_changes_is_refused(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    """Another model behind the same name: both numbers are told."""
    endpoint.plan = [good, said(200, json.dumps({"data": [{"index": 0, "embedding": [1.0] * 5}]}))]
    await embedder.embed(["a"], "query")
    with pytest.raises(EmbedderUnavailable, match="of 5 numbers, and of 3 before"):
        await embedder.embed(["a"], "query")


@pytest.mark.parametrize("spelling", [KEY, KEY.replace("/", "%2F"), KEY.replace("/", "\\/")])
async def test_no_fault_shows_the_key(endpoint: Endpoint, embedder: OpenAIEmbedder, spelling: str) -> None:
    """Not when the endpoint repeats it, nor anywhere in the chain of causes."""
    endpoint.plan = [said(401, f"wrong key {spelling} given")]
    with pytest.raises(EmbedderUnavailable) as failed:
        await embedder.embed(["a"], "query")
    error: BaseException | None = failed.value
    assert "wrong key *** given" in str(error)
    while error is not None:
        assert "secret-key" not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert KEY not in repr(embedder)


async def test_an_endpoint_that_is_not_there_is_named() -> None:
    """By its origin, without path or key."""
    embedder = OpenAIEmbedder(f"http://127.0.0.1:{free_port()}/v1?key=hidden", KEY, "m", terms=QUICK)
    with pytest.raises(EmbedderUnavailable, match=r"http://127\.0\.0\.1:\d+ cannot be reached") as failed:
        await embedder.embed(["a"], "query")
    await embedder.close()
    assert "hidden" not in failed.value.detail


async def test_an_answer_without_end_is_cut(endpoint: Endpoint) -> None:
    """More bytes than any answer can have are not read on."""
    embedder = OpenAIEmbedder(endpoint.url, None, "m", terms=Terms(max_reply_bytes=1000))
    endpoint.plan = [said(200, "x" * 100_000)]
    with pytest.raises(EmbedderUnavailable, match="more than 1000 bytes"):
        await embedder.embed(["a"], "query")
    await embedder.close()


async def test_a_closed_embedder_says_so(embedder: OpenAIEmbedder) -> None:
    """Closing is idempotent."""
    await embedder.embed(["a"], "query")
    await embedder.close()
    await embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["a"], "query")


@pytest.mark.parametrize(
    ("url", "key"),
    [("ftp://h/v1", None), ("h", None), ("http://u:p@h/v1", None), ("http://h/v1", "two\nlines"), ("http://h", "ключ")],
)
def test_unusable_settings_are_refused(url: str, key: str | None) -> None:
    """When it is made, by the setting's name."""
    with pytest.raises(ConfigInvalid, match="OPENAI_"):
        OpenAIEmbedder(url, key, "m")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None), ("soon", None), ("-1", None), ("nan", None), ("inf", None), ("0", 0), ("1.5", 1.5),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40), ("Thu, 01 Jan 1970 00:00:10 GMT", 0),
    ],
)  # fmt: skip
def test_both_forms_of_retry_after_are_read(text: str, seconds: float | None) -> None:
    """Seconds and dates; what is neither counts as absent."""
    assert retry_after_s({"Retry-After": text}, 60) == seconds
