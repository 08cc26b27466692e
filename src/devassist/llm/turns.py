"""Where a conversation stands, read from a prompt's messages alone. Pure; shared by Scripted and Extractive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from devassist.core.messages import ChatMessage
from devassist.core.react import is_correction

_OBSERVATION = re.compile(r"\s*Observation[^:：\n]{0,80}[:：][ \t]*\n?")
_ACTION = re.compile(r"^[ \t]*Action[ \t]*[:：][ \t]*tool[ \t]*[:：][ \t]*([A-Za-z0-9_.-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a tool returned: ``tool`` is its name, empty when the prompt does not tell; ``text`` what was shown."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """All since the last plain user message, which is ``question`` (empty when there is none).

    ``called`` are the tools that the assistant asked for, ``replies`` its messages, both in order.
    """

    question: str
    replies: tuple[ChatMessage, ...]
    observations: tuple[Observation, ...]
    called: tuple[str, ...]
    replies_since_observation: int


def is_plain(message: ChatMessage) -> bool:
    """Whether a person wrote it: a user message that is neither an observation nor a correction of the protocol."""
    return message.role == "user" and not _OBSERVATION.match(message.content) and not is_correction(message.content)


def current_turn(messages: Sequence[ChatMessage]) -> Turn:
    """The turn that the prompt asks to go on with."""
    start = next((at for at in range(len(messages) - 1, -1, -1) if is_plain(messages[at])), -1)
    names: dict[str, str] = {}  # by call id
    last = ""
    since = 0
    replies: list[ChatMessage] = []
    called: list[str] = []
    observations: list[Observation] = []
    for message in messages[start + 1 :]:
        if message.role == "assistant":
            replies.append(message)
            since += 1
            asked = [call.name for call in message.tool_calls] or _ACTION.findall(message.content)[:1]
            names.update((call.id, call.name) for call in message.tool_calls)
            called += asked
            last = asked[0] if asked else last
        elif message.role == "tool":
            observations.append(Observation(names.get(message.tool_call_id or "", last), message.content))
            since = 0
        elif message.role == "user" and (found := _OBSERVATION.match(message.content)):
            observations.append(Observation(last, message.content[found.end() :]))
            since = 0
    question = messages[start].content if start >= 0 else ""
    return Turn(question, tuple(replies), tuple(observations), tuple(called), since)
