"""What tests of the OpenAI-compatible adapter share: a client of the stub, and what a provider sends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from devassist.core.errors import ProviderError
from devassist.core.messages import ChatMessage, ModelReply
from devassist.core.scope import Scope
from devassist.llm.openai_compat import OpenAICompatible
from devassist.ports.model import ModelRequest
from tests.llm.stub import Answer, Stub, provider

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
