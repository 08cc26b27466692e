"""What goes to a model and what comes back, in our own words; shared by parser, prompt assembly and model adapters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class NativeCall:
    """One native tool call as the model wrote it: ``arguments`` is its raw JSON text, not yet parsed."""

    id: str
    name: str
    arguments: str


_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def with_safe_ids(calls: tuple[NativeCall, ...]) -> tuple[NativeCall, ...]:
    """The same calls; an id that is not a short token is replaced by one made from the call's place, since ids stand in
    event bodies, which hold no free text, and a repeated id could not tell two results apart."""
    ids = [c.id for c in calls]
    if all(_ID.fullmatch(i) for i in ids) and len(set(ids)) == len(ids):
        return calls
    return tuple(NativeCall(_made_id(n, c), c.name, c.arguments) for n, c in enumerate(calls))


def _made_id(index: int, call: NativeCall) -> str:
    text = "\0".join((str(index), call.id, call.name, call.arguments))
    return f"call_{sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


class ChatMessage(NamedTuple):
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
