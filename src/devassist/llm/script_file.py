"""Scripts for ``Scripted`` as a JSON file, so that a server under test can be told what its model answers.

The file is an object; all keys but ``rules`` are optional, and unknown keys are errors::

    {"name": "scripted",
     "rules": [
       {"match": "年假",  "replies": ["Thought: …\\nAction: tool:get_policy\\nargs: {…}", "Action: final: …"]},
       {"match": "slow", "observations": 1, "chunk": 4, "delay_ms": 20, "replies": ["Action: final: done"]},
       {"replies": ["Action: final: I have no script for this."]}]}

The first rule that fits gives the reply. ``match`` is a regular expression searched in the last plain user message
(absent: every message fits); ``observations`` asks for exactly so many observations since that message. ``replies``
are taken by turns: the assistant messages since the last plain user message, or, in a rule with ``observations``,
since the last observation. ``chunk`` and ``delay_ms`` say how a text is streamed: in pieces of so many characters,
with so many milliseconds before each.

A reply is a string or an object with one of

* ``text`` and/or ``calls`` (``[{"id", "name", "arguments"}]``), with ``finish_reason``, ``reasoning``,
  ``input_tokens`` and ``output_tokens`` if wanted;
* ``chunks``: pieces, each a string or ``[string, milliseconds before it]``, and ``error`` to break off after the last;
* ``error``: ``{"detail", "code", "retryable", "retry_after_ms", "provider_status"}``;
* ``errors`` (a list of such) and ``then`` (a reply): failed attempts before the reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from devassist.core.errors import ConfigInvalid, ProviderError
from devassist.core.messages import ModelReply, NativeCall
from devassist.llm.classify import as_object
from devassist.llm.estimate import estimate_prompt, estimate_tokens
from devassist.llm.scripted import AfterFailures, Chunks, Plain, Reply, Scripted, exhausted
from devassist.llm.turns import current_turn
from devassist.ports.model import ModelRequest


@dataclass(frozen=True, slots=True)
class _Rule:
    match: re.Pattern[str] | None
    observations: int | None
    replies: tuple[Reply, ...]


def load_script(path: Path) -> Scripted:
    """The model that the file describes. Raises ConfigInvalid, naming file and place, when it cannot be read."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"{path}: not a readable JSON script: {error}") from None
    return parse_script(data, str(path))


def parse_script(data: object, where: str = "script") -> Scripted:
    """The model that the object describes. Raises ConfigInvalid naming the place that is wrong."""
    fields = _fields(data, where, {"name", "rules"})
    rules = _items(fields.get("rules"), f"{where}: rules")
    parsed = [_rule(rule, f"{where}: rules[{index}]") for index, rule in enumerate(rules)]

    def script(request: ModelRequest) -> Reply:
        turn = current_turn(request.messages)
        for rule in parsed:
            if rule.observations is not None and rule.observations != len(turn.observations):
                continue
            if rule.match is None or rule.match.search(turn.question):
                at = len(turn.replies) if rule.observations is None else turn.replies_since_observation
                if at >= len(rule.replies):
                    return exhausted(at, len(rule.replies))
                return _counted(rule.replies[at], request)
        return ProviderError(f"No rule of {where} fits the message", code="script_exhausted")

    return Scripted(script, name=str(fields.get("name", "scripted")))


def _counted(reply: Reply, request: ModelRequest) -> Reply:
    """Fill in the token counts that a reply of the file does not state."""
    if not isinstance(reply, ModelReply) or reply.input_tokens or reply.output_tokens:
        return reply
    made = estimate_tokens(reply.text) + sum(estimate_tokens(call.arguments) for call in reply.calls)
    return replace(reply, input_tokens=estimate_prompt(request.messages), output_tokens=made)


def _rule(data: object, where: str) -> _Rule:
    fields = _fields(data, where, {"match", "observations", "replies", "chunk", "delay_ms"})
    try:
        match = re.compile(fields["match"]) if "match" in fields else None
    except (re.error, TypeError) as error:
        raise ConfigInvalid(f"{where}: match is not a regular expression: {error}") from None
    observations = fields.get("observations")
    if observations is not None and not isinstance(observations, int):
        raise ConfigInvalid(f"{where}: observations is a number")
    chunk, delay = int(fields.get("chunk", 0)), float(fields.get("delay_ms", 0))
    replies = [
        _reply(reply, f"{where}.replies[{index}]", chunk, delay)
        for index, reply in enumerate(_items(fields.get("replies"), f"{where}.replies"))
    ]
    return _Rule(match, observations, tuple(replies))


def _reply(data: object, where: str, chunk: int, delay: float) -> Reply:
    if "errors" in as_object(data):
        fields = _fields(data, where, {"errors", "then"})
        errors = tuple(_error(one, where) for one in _items(fields["errors"], f"{where}.errors"))
        return AfterFailures(errors, _plain(fields.get("then"), where, chunk, delay))
    return _plain(data, where, chunk, delay)


def _plain(data: object, where: str, chunk: int, delay: float) -> Plain:
    if isinstance(data, str):
        size = chunk or max(1, len(data))
        return Chunks([(data[at : at + size], delay) for at in range(0, max(1, len(data)), size)])
    known = {"text", "calls", "finish_reason", "reasoning", "input_tokens", "output_tokens", "chunks", "error"}
    fields = _fields(data, where, known)
    error = _error(fields["error"], where) if "error" in fields else None
    if "chunks" in fields:
        return Chunks([_piece(one, where) for one in _items(fields["chunks"], f"{where}.chunks")], error)
    if error is not None:
        return error
    if "text" not in fields and "calls" not in fields:
        raise ConfigInvalid(f"{where}: a reply holds text, calls, chunks, error or errors")
    calls = tuple(_call(one, where) for one in _items(fields.get("calls", []), f"{where}.calls"))
    return ModelReply(
        text=str(fields.get("text", "")),
        calls=calls,
        finish_reason=fields.get("finish_reason", "tool_calls" if calls else "stop"),
        input_tokens=int(fields.get("input_tokens", 0)),
        output_tokens=int(fields.get("output_tokens", 0)),
        reasoning=str(fields.get("reasoning", "")),
    )


def _piece(data: object, where: str) -> str | tuple[str, float]:
    if isinstance(data, str):
        return data
    match data:
        case [str(text), int() | float() as wait]:  # pyright: ignore[reportUnknownVariableType]
            return text, float(wait)
        case _:
            raise ConfigInvalid(f"{where}: a chunk is a string or [string, milliseconds]")


def _call(data: object, where: str) -> NativeCall:
    fields = _fields(data, f"{where}.calls", {"id", "name", "arguments"})
    arguments = fields.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return NativeCall(str(fields.get("id", "call_1")), str(fields.get("name", "")), text)


def _error(data: object, where: str) -> ProviderError:
    fields = _fields(data, f"{where}.error", {"detail", "code", "retryable", "retry_after_ms", "provider_status"})
    return ProviderError(
        str(fields.get("detail", "scripted failure")),
        code=fields.get("code"),
        retryable=bool(fields.get("retryable", False)),
        retry_after_ms=fields.get("retry_after_ms"),
        provider_status=fields.get("provider_status"),
    )


def _fields(data: object, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise ConfigInvalid(f"{where}: an object is expected")
    fields = cast("dict[str, Any]", data)
    unknown = sorted(set(fields) - known)
    if unknown:
        raise ConfigInvalid(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return fields


def _items(data: object, where: str) -> list[object]:
    if not isinstance(data, list):
        raise ConfigInvalid(f"{where}: a list is expected")
    return cast("list[object]", data)
