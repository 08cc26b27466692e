"""The OpenAI-compatible adapter's settings: address, key, model and quirks."""

from __future__ import annotations

import json

import pytest

from devassist.core.errors import ConfigInvalid, ProviderError, Unavailable
from devassist.llm.openai_compat import OpenAICompatible
from devassist.llm.quirks import Quirks, quirks_for
from devassist.ports.model import ModelRequest
from tests.llm.client import ASK, DONE, KEY, SCOPE, adapter, chat, event
from tests.llm.stub import provider, sse, whole


async def test_models_are_listed_and_the_only_one_is_used() -> None:
    """Without OPENAI_MODEL the endpoint's only model is taken, with its quirks; several are a listed error."""
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
    answer = sse(event({"content": "x"}, "stop"), DONE)
    async with provider(answer) as stub, adapter(stub, extra={"temperature": 0, "seed": 1}, quirks=quirks) as model:
        await model.complete(SCOPE, ASK, lambda _: None)
    assert {key for key in stub.bodies[0] if key != "messages"} == {"seed", "model", "stream"}
