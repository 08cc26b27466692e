"""Our request as the body of an OpenAI-compatible chat completion. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from devassist.core.messages import ChatMessage
from devassist.llm.quirks import Quirks
from devassist.ports.model import ModelRequest

_SAMPLING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"})


def render_messages(messages: Sequence[ChatMessage], quirks: Quirks) -> list[dict[str, Any]]:
    """The messages as the API wants them: calls on assistant messages, ``tool_call_id`` on tool messages."""
    return [_render(message, quirks) for message in messages]


def _render(message: ChatMessage, quirks: Quirks) -> dict[str, Any]:
    rendered: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        if quirks.null_content and not message.content:
            rendered["content"] = None
        rendered["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        rendered["tool_call_id"] = message.tool_call_id
    return rendered


def encode_request(
    model: str, request: ModelRequest, quirks: Quirks, extra: Mapping[str, Any], *, stream: bool
) -> bytes:
    """The body of one call. ``extra`` (temperature and its like) gives way to what the request itself says."""
    body: dict[str, Any] = {name: value for name, value in extra.items() if quirks.sampling or name not in _SAMPLING}
    body["model"] = model
    body["messages"] = render_messages(request.messages, quirks)
    if request.tools:
        body["tools"] = request.tools
    if request.max_tokens is not None:
        body[quirks.max_tokens_field] = request.max_tokens
    if stream:
        body["stream"] = True
        if quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
    try:
        return orjson.dumps(body)
    except TypeError:  # a lone surrogate or a huge integer: the standard library writes both as escapes and digits
        return json.dumps(body).encode()
