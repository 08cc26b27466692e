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
from devassist.core.run_state import Entry

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
    transcript: tuple[Entry, ...], definition: Definition, text: Callable[[str], str], size: Callable[[str], int],
    ceiling: int = 0,
) -> Prompt:  # fmt: skip
    """Messages of ``transcript`` within ``definition.context_tokens``, and within ``ceiling`` where it is not 0.
    ``size`` gives the estimate of a reference."""
    budget = min(definition.context_tokens, ceiling or definition.context_tokens)
    sizes = [size(e.ref) + (size(e.native) if e.role == "reply" and e.native else 0) for e in transcript]
    system, total = definition.system, sum(sizes) + estimate_tokens(definition.system)
    if total <= budget:
        return Prompt((ChatMessage("system", system), *[render(entry, text) for entry in transcript]), total)
    longest = _with_notice(definition, len(transcript))
    dropped = _drop(transcript, sizes, budget - estimate_tokens(longest))
    if dropped:
        system = _with_notice(definition, len(dropped))
    kept = [i for i in range(len(transcript)) if i not in dropped]
    messages = (ChatMessage("system", system), *[render(transcript[i], text) for i in kept])
    left_history = sum(transcript[i].role == "past" for i in dropped)
    seqs = [transcript[i].seq for i in dropped if transcript[i].role != "past"]
    left = (min(seqs), max(seqs) + 1) if seqs else ()
    return Prompt(messages, sum(sizes[i] for i in kept) + estimate_tokens(system), left_history, left)


def _with_notice(definition: Definition, left_out: int) -> str:
    return f"{definition.system}\n{_LEFT_OUT[definition.lang].format(n=left_out)}"


def droppable(transcript: tuple[Entry, ...]) -> int:
    """How many entries a prompt may leave out at most: all but the question and the latest step."""
    last_step = max((e.step for e in transcript), default=-1)
    return sum(not _kept(entry, last_step) for entry in transcript)


def _kept(entry: Entry, last_step: int) -> bool:
    return entry.role == "user" or (entry.role != "past" and entry.step == last_step)


def _drop(transcript: tuple[Entry, ...], sizes: list[int], budget: int) -> set[int]:
    """What to leave out so that the rest fits. A step goes whole: a reply without its results, or results without
    their reply, would mislead the model."""
    last_step = max((e.step for e in transcript), default=-1)
    dropped, total, going = set[int](), sum(sizes), None
    for index, entry in enumerate(transcript):
        if _kept(entry, last_step):
            continue
        if total <= budget and (entry.role == "past" or entry.step != going):
            break
        going = entry.step
        dropped.add(index)
        total -= sizes[index]
    return dropped
