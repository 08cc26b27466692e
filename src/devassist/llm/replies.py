"""What an OpenAI-compatible provider answered, whole or streamed, read into our ModelReply. Pure.

Transport success is not answer success: errors under status 200, empty choices and streams that stop without a
``finish_reason`` raise ProviderError here. Details may hold whatever the provider wrote; the adapter cleans them.
"""

from __future__ import annotations

import json
from typing import Any, cast

import orjson

from devassist.core.codec import sound
from devassist.core.errors import ProviderError
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.tool_deltas import CallAssembler
from devassist.llm.classify import as_object, error_in, provider_failure
from devassist.llm.sse import SseEvent

EMPTY_CHOICES = "reply_empty_choices"
UNREADABLE = "reply_unreadable"
INCOMPLETE = "stream_incomplete"


def loads(data: bytes) -> object:
    """Read JSON; ValueError when it is none. Half surrogates, which orjson refuses, are let in (see ``sound``)."""
    try:
        return cast("object", orjson.loads(data))
    except ValueError:
        try:
            return cast("object", json.loads(data))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def read_usage(usage: object) -> tuple[int, int]:
    """(input, output) tokens; a bare total counts as input, since it was paid for and nothing tells the two apart."""
    fields = as_object(usage)
    given = _count(fields, "prompt_tokens", "input_tokens")
    made = _count(fields, "completion_tokens", "output_tokens")
    return (given, made) if given or made else (_count(fields, "total_tokens"), 0)


def _count(fields: dict[str, Any], *names: str) -> int:
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and 0 < value < 2**53:
            return int(value)
    return 0


def read_reply(body: object, *, status: int = 200) -> ModelReply:
    """The reply in a whole (not streamed) JSON body.

    Raises ProviderError for an error body and for one without choices (``reply_empty_choices``, retryable); both
    carry the usage that the body tells.
    """
    fields = as_object(body)
    tokens = read_usage(fields.get("usage"))
    if error_in(body) is not None:
        raise _with_usage(provider_failure(status, body), tokens)
    choice = _first_choice(fields)
    if choice is None:
        raise _no_choices(tokens)
    _raise_choice_error(choice, tokens)
    message = as_object(choice.get("message"))
    text, reasoning = _content(message)
    calls = CallAssembler()
    calls.add([{**call, "index": index} for index, call in enumerate(_call_list(message))])
    return ModelReply(
        text=sound(text or _string(message.get("refusal"))),
        calls=_sound_calls(calls),
        finish_reason=_string(choice.get("finish_reason")) or None,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        reasoning=sound(reasoning),
        model=_string(fields.get("model")),
    )


class StreamFold:
    """Folds the events of a streamed reply; ``done`` after ``[DONE]``, ``finished`` after a finish reason.

    ``add`` raises ProviderError for an error event and for data that is not a JSON object; ``result`` for a stream
    that ended too early. ``take_delta`` gives the content that arrived since it was last asked.
    """

    __slots__ = (
        "_calls", "_choices", "_finish", "_fresh", "_half", "_model", "_reasoning", "_text", "_tokens", "done",
    )  # fmt: skip

    def __init__(self) -> None:
        self.done = False
        self._text: list[str] = []
        self._fresh: list[str] = []
        self._reasoning: list[str] = []
        self._calls = CallAssembler()
        self._choices = False
        self._finish = ""
        self._half = ""  # a high surrogate that waits for its other half
        self._model = ""
        self._tokens = (0, 0)

    @property
    def finished(self) -> bool:
        return bool(self._finish)

    def add(self, event: SseEvent) -> None:
        data = event.data
        if data == b"[DONE]":
            self.done = True
            return
        if not data or data.isspace():
            return
        try:
            body = loads(data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            head = data[:200].decode(errors="replace")
            raise self._failed(f"The provider's stream holds data that is no JSON object: {head}", UNREADABLE)
        fields = cast("dict[str, Any]", body)
        if fields.get("usage"):
            self._tokens = read_usage(fields["usage"])
        if event.event == b"error" or error_in(fields) is not None:
            raise _with_usage(provider_failure(200, fields), self._tokens)
        if not self._model:
            self._model = _string(fields.get("model"))
        choice = _first_choice(fields)
        if choice is not None:
            self._add_choice(choice)

    def _add_choice(self, choice: dict[str, Any]) -> None:
        self._choices = True
        _raise_choice_error(choice, self._tokens)
        delta = as_object(choice.get("delta"))
        text, reasoning = _content(delta)
        text = text or _string(delta.get("refusal"))
        if text:
            self._add_text(text)
        if reasoning:
            self._reasoning.append(reasoning)
        calls = _call_list(delta)
        if calls:
            self._calls.add(calls)
        finish = choice.get("finish_reason")
        if finish:
            self._finish = _string(finish)

    def _add_text(self, piece: str) -> None:
        piece = self._half + piece
        self._half = ""
        if "\ud800" <= piece[-1] <= "\udbff":
            self._half, piece = piece[-1], piece[:-1]
        self._fresh.append(sound(piece))

    def take_delta(self) -> str:
        if not self._fresh:
            return ""
        piece = "".join(self._fresh)
        self._fresh.clear()
        self._text.append(piece)
        return piece

    def result(self) -> ModelReply:
        """The whole reply. Raises ProviderError ``reply_empty_choices`` or ``stream_incomplete``, both retryable."""
        if not self._choices and self.done:
            raise _no_choices(self._tokens)
        if not self._finish:
            raise self._failed("The provider's stream ended without a finish_reason", INCOMPLETE)
        if self._half:
            self._half = ""
            self._fresh.append("\ufffd")
        self.take_delta()
        return ModelReply(
            text="".join(self._text),
            calls=_sound_calls(self._calls),
            finish_reason=self._finish,
            input_tokens=self._tokens[0],
            output_tokens=self._tokens[1],
            reasoning=sound("".join(self._reasoning)),
            model=self._model,
        )

    def _failed(self, detail: str, code: str) -> ProviderError:
        return _with_usage(ProviderError(detail, code=code, retryable=True, provider_status=200), self._tokens)


def _first_choice(fields: dict[str, Any]) -> dict[str, Any] | None:
    """The choice of index 0; we ask for one, so another index is a gateway's own doing."""
    choices = fields.get("choices")
    if not isinstance(choices, list):
        return None
    for choice in cast("list[object]", choices):
        found = as_object(choice)
        if found and not found.get("index"):
            return found
    return None


def _raise_choice_error(choice: dict[str, Any], tokens: tuple[int, int]) -> None:
    """Gateways tell of an upstream that broke off by ``finish_reason: error`` or an error inside the choice."""
    if choice.get("finish_reason") == "error" or choice.get("error"):
        raise _with_usage(provider_failure(200, {"error": choice.get("error") or "the reply broke off"}), tokens)


def _no_choices(tokens: tuple[int, int]) -> ProviderError:
    detail = "The provider's answer holds no choices"
    return _with_usage(ProviderError(detail, code=EMPTY_CHOICES, retryable=True, provider_status=200), tokens)


def _with_usage(error: ProviderError, tokens: tuple[int, int]) -> ProviderError:
    error.input_tokens, error.output_tokens = tokens
    return error


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _call_list(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        return [call for call in map(as_object, cast("list[object]", calls)) if call]
    legacy = as_object(message.get("function_call"))
    return [{"index": 0, "function": legacy}] if legacy else []


def _sound_calls(calls: CallAssembler) -> tuple[NativeCall, ...]:
    return tuple(NativeCall(call.id, call.name, sound(call.arguments)) for call in calls.result())


def _content(message: dict[str, Any]) -> tuple[str, str]:
    """(text, reasoning) of a message or delta; null is '', and of two names for the same reasoning one counts."""
    content = message.get("content")
    reasoning = _string(message.get("reasoning_content")) or _string(message.get("reasoning"))
    if isinstance(content, str):
        return content, reasoning
    if not isinstance(content, list):
        return "", reasoning
    texts: list[str] = []
    for part in map(as_object, cast("list[object]", content)):
        if part.get("type") == "thinking":
            reasoning += _thinking(part)
        else:
            texts.append(_string(part.get("text")))
    return "".join(texts), reasoning


def _thinking(part: dict[str, Any]) -> str:
    inner = part.get("thinking")
    if isinstance(inner, list):
        return "".join(_string(as_object(one).get("text")) for one in cast("list[object]", inner))
    return _string(inner)
