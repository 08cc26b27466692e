"""Token counts for models that count none: an estimate, the same for every adapter of ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from devassist.core.messages import ChatMessage

# Han, kana, Hangul, and the full-width punctuation between them: about one token each.
_WIDE = re.compile(
    "[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


def estimate_tokens(text: str) -> int:
    """About one token per CJK character and one per four others, rounded up."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide + (len(text) - wide + 3) // 4


def estimate_prompt(messages: Iterable[ChatMessage]) -> int:
    """The sum over contents and call arguments; what a provider adds per message is left out."""
    return sum(
        estimate_tokens(message.content) + sum(estimate_tokens(call.arguments) for call in message.tool_calls)
        for message in messages
    )
