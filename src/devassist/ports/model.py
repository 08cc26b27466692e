"""Port to a language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from devassist.core.messages import ChatMessage, ModelReply
from devassist.core.scope import Scope

ModelKind = Literal["extractive", "embedded", "openai", "scripted", "recorded"]


class ModelRequest(NamedTuple):
    """One model call.

    ``tools`` are OpenAI tool objects (``{"type": "function", "function": {...}}``), empty in the text protocol.
    ``tool_names`` are the tools that the run may call, in either protocol. ``attempt`` counts the run's model attempts
    from 1. ``max_tokens`` bounds the reply; None leaves it to the provider. ``agent`` and ``lang`` (``zh``/``en``) say
    for whom the reply is.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_names: tuple[str, ...] = ()
    max_tokens: int | None = None
    timeout_s: float = 120.0
    trace_id: str = ""
    attempt: int = 1
    agent: str = ""
    lang: str = "zh"


class Model(Protocol):
    """Text in, text out. ``name`` is the model's id, ``kind`` names the adapter."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> ModelKind: ...

    async def complete(
        self, scope: Scope, request: ModelRequest, on_delta: Callable[[str], None] | None = None
    ) -> ModelReply:
        """Return the complete reply; ``on_delta`` gets each piece of raw content as it arrives (never reasoning).

        Raises ProviderError (its ``retryable`` tells whether to try again). Cancellation ends the upstream request.
        """
        ...

    async def close(self) -> None:
        """Release connections; idempotent."""
        ...
