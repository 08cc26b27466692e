"""How models differ on the OpenAI-compatible wire: data, so that no ``if model ==`` stands in the adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Quirks:
    """What one family of models needs.

    ``null_content``: an assistant message that holds only tool calls is sent with ``content: null`` instead of ``""``.
    ``max_tokens_field``: the name of the field that bounds the reply. ``stream_usage``: whether
    ``stream_options.include_usage`` may be sent. ``sampling``: whether temperature and its like may be sent.
    """

    null_content: bool = False
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    sampling: bool = True


DEFAULT = Quirks()
_REASONING = Quirks(max_tokens_field="max_completion_tokens", sampling=False)

BY_PREFIX: tuple[tuple[str, Quirks], ...] = (
    ("o1", _REASONING),
    ("o3", _REASONING),
    ("o4", _REASONING),
    ("gpt-5", _REASONING),
    ("claude", Quirks(null_content=True)),
    ("gemini", Quirks(null_content=True)),
)
"""Lower-case beginnings of model names, without the ``vendor/`` that gateways put before them."""


def quirks_for(model: str) -> Quirks:
    """The entry with the longest prefix of the model's name; DEFAULT when none fits."""
    name = model.rsplit("/", 1)[-1].lower()
    fitting = [(prefix, quirks) for prefix, quirks in BY_PREFIX if name.startswith(prefix)]
    return max(fitting, key=lambda entry: len(entry[0]))[1] if fitting else DEFAULT
