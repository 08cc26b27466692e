"""What goes to a model and what comes back, in our own words; shared by parser, prompt assembly and model adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class NativeCall:
    """One native tool call as the model wrote it: ``arguments`` is its raw JSON text, not yet parsed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt. ``tool_calls`` only on assistant messages, ``tool_call_id`` only on tool messages."""

    role: Role
    content: str
    tool_calls: tuple[NativeCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One complete reply. ``text`` is the raw content, ``reasoning`` what the provider sent apart as reasoning.

    ``finish_reason`` is the provider's own word (``stop``, ``length``, ``tool_calls``, ``content_filter``) or None when
    the provider gave none with a complete non-streamed answer. Tokens are the provider's counts, 0 when it gave none.
    """

    text: str
    calls: tuple[NativeCall, ...] = ()
    finish_reason: str | None = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning: str = ""
    model: str = ""
