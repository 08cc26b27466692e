"""Prompt assembly: the transcript of a run as messages within a token budget, saying what it left out.

Left out first: the oldest messages of the conversation's past; then the oldest steps. The system message, the question
and the newest step always stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devassist.core.definition import Definition
from devassist.core.messages import ChatMessage, NativeCall
from devassist.core.transitions import Entry

_LEFT_OUT = {
    "zh": "（为控制长度，较早的 {n} 条内容没有放入本次提示。）",
    "en": "({n} earlier messages were left out of this prompt to keep it short.)",
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """``add``: seqs whose texts are new since the last attempt. ``left``: () or (from, to) seqs of steps left out.
    ``tokens``: the estimate that the budget was kept by."""

    messages: tuple[ChatMessage, ...]
    tokens: int
    left_history: int = 0
    left: tuple[int, ...] = ()


def estimate_tokens(text: str) -> int:
    """A cheap upper estimate: three UTF-8 bytes a token (one CJK character, or three Latin letters)."""
    return len(text.encode("utf-8", "surrogatepass")) // 3 + 4


def native_json(calls: tuple[NativeCall, ...]) -> str:
    """Native calls as one payload text."""
    return json.dumps([[c.id, c.name, c.arguments] for c in calls], ensure_ascii=False, separators=(",", ":"))


def native_calls(text: str) -> tuple[NativeCall, ...]:
    """Inverse of ``native_json``."""
    rows: list[Any] = json.loads(text)
    return tuple(NativeCall(*row) for row in rows)


def render(entry: Entry, text: Callable[[str], str]) -> ChatMessage:
    """One transcript entry as the model sees it."""
    content = text(entry.ref)
    match entry.role:
        case "past":
            return ChatMessage("assistant" if entry.name == "assistant" else "user", content)
        case "reply":
            if entry.cut:
                content = content[: -entry.cut]
            if entry.native is None:
                return ChatMessage("assistant", content)
            calls = native_calls(text(entry.native))
            if entry.name == "fault":
                # No result will follow these calls, and providers refuse a call without one: show them as text.
                written = "\n".join(f"{c.name}({c.arguments})" for c in calls)
                return ChatMessage("assistant", f"{content}\n{written}".strip())
            return ChatMessage("assistant", content, calls)
        case "observation":
            if entry.native is not None:
                return ChatMessage("tool", content, tool_call_id=entry.native)
            return ChatMessage("user", f"Observation: {content}")
        case _:
            return ChatMessage("user", content)


def assemble(
    transcript: tuple[Entry, ...], definition: Definition, text: Callable[[str], str], size: Callable[[str], int]
) -> Prompt:  # fmt: skip
    """Messages of ``transcript`` within ``definition.context_tokens``. ``size`` gives the estimate of a reference."""
    budget = definition.context_tokens - estimate_tokens(definition.system)
    sizes = [size(e.ref) for e in transcript]
    total = sum(sizes)
    left_history, left = 0, ()
    dropped: set[int] = set()
    if total > budget:
        last_step = max((e.step for e in transcript), default=-1)
        for index, entry in enumerate(transcript):
            if total <= budget:
                break
            if entry.role == "past":
                left_history += 1
            elif entry.role == "user" or entry.step == last_step:
                continue
            dropped.add(index)
            total -= sizes[index]
        dropped, left = _whole_steps(transcript, dropped)
    kept = [render(e, text) for i, e in enumerate(transcript) if i not in dropped]
    system = definition.system
    if dropped:
        system = f"{system}\n{_LEFT_OUT[definition.lang].format(n=len(dropped))}"
    messages = (ChatMessage("system", system), *kept)
    return Prompt(messages, total + estimate_tokens(system), left_history, left)


def _whole_steps(transcript: tuple[Entry, ...], dropped: set[int]) -> tuple[set[int], tuple[int, ...]]:
    """A step goes whole: a reply without its results, or results without their reply, would mislead the model."""
    steps = {transcript[i].step for i in dropped if transcript[i].role != "past"}
    whole = {
        i for i, e in enumerate(transcript) if i in dropped or (e.role not in ("past", "user") and e.step in steps)
    }
    seqs = [transcript[i].seq for i in whole if transcript[i].role != "past"]
    return whole, (min(seqs), max(seqs) + 1) if seqs else ()
