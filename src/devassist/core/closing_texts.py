"""What a model is told of a call that ended without an outcome of its own."""

from __future__ import annotations

from devassist.core.definition import Lang

_TEXTS: dict[Lang, dict[str, str]] = {
    "zh": {
        "cancelled": "此调用已被取消，没有执行。",
        "rejected": "此调用未获批准，没有执行。",
        "not_run": "此调用没有执行（{code}）。",
        "abandoned": "此调用的结果未知。",
        "happened": "经人工确认，此调用已经生效，没有返回结果。",
        "tool_interrupted": "此调用多次执行都被中断，没有结果。",
    },
    "en": {
        "cancelled": "This call was cancelled and not made.",
        "rejected": "This call was not approved and not made.",
        "not_run": "This call was not made ({code}).",
        "abandoned": "The outcome of this call is unknown.",
        "happened": "A person confirmed that this call took effect; its result was not given.",
        "tool_interrupted": "This call was cut off each time that it was tried; it has no result.",
    },
}


def closing_text(lang: Lang, closing: str, code: str) -> str:
    """``closing`` is how the call ended, ``code`` why."""
    texts = _TEXTS[lang]
    if closing == "not_run":
        return texts.get(code, texts["not_run"]).format(code=code)
    return texts[closing]
