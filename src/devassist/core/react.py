"""A model's reply -> what to do: tool calls, a final answer, or a precise fault. Pure and total on any reply.

The text protocol (``Thought:`` / ``Action: tool:<name>`` / ``args: <json>`` or ``Action: final: <text>``) and native
tool calls are both understood whatever the setting; native calls win. A reply holds one decision: the first Action at
the start of a line outside reasoning. What the model wrote after its action (invented observations, further actions)
is kept as ``discarded`` for the record and used for nothing. Whether a reply is a final answer never depends on which
tools exist, so the streaming filter (release.py) can tell without knowing them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from devassist.core.answer import clean
from devassist.core.args import Decoded, decode
from devassist.core.grammar import FENCE, RESIDUE, THOUGHT, Mark, Opening, locate, opening, stray_close
from devassist.core.messages import ModelReply
from devassist.core.react_texts import CORRECTIONS, CORRECTIONS_BEGIN, NO_TOOLS, PROTOCOL_TEXT, Lang
from devassist.core.text_calls import Written, bare_call, read_call, undress
from devassist.core.tooling import ToolSpec

EMPTY = "reply_empty"
TRUNCATED = "reply_truncated"
FORMAT = "reply_format_invalid"
UNKNOWN_TOOL = "tool_not_found"
FILTERED = "content_filtered"

_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_BLOCKED = frozenset({"content_filter", "safety"})
_NO_TOOL = frozenset(
    {"", "-", "none", "null", "nil", "n/a", "na", "no", "no action", "no tool", "finish", "final", "final answer"}
    | {"final_answer", "answer", "respond", "done", "无", "没有", "不需要"}
)
_IDENTIFIER = re.compile(r"[\w.\-]{1,64}")
_ONLY_CLOSERS = re.compile(r"(?:\s|```|~~~|[)\]}*_`]|</?[a-z_]{1,20}>|<[|｜][^<>\n]{1,40}>)*")
_USE_FINAL = "to answer without a tool write 'Action: final: ' and the answer"
_MAX_ROUNDS = 16
"""Stray closing tags that are followed; more of them are no reply to act on, and each costs another reading."""

Protocol = Literal["text", "tools"]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool to run. ``native_id`` is the provider's id of a native call, None where it gave none."""

    name: str
    args: dict[str, Any]
    native_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Run these. ``discarded``: what the model wrote after its action; it is no evidence of anything."""

    thought: str
    calls: tuple[Call, ...]
    discarded: str = ""


@dataclass(frozen=True, slots=True)
class Final:
    """The answer. ``unstructured``: the model gave it without the protocol, also when asked again."""

    thought: str
    text: str
    unstructured: bool = False
    discarded: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Nothing can be done with the reply. ``code`` is stable, ``detail`` says what was wrong (English, for people)."""

    code: str
    detail: str
    thought: str = ""
    tool: str | None = None


Decision = ToolCalls | Final | Fault


def parse(
    reply: ModelReply, tool_names: Sequence[str], *, corrections: int = 0, protocol: Protocol = "text"
) -> Decision:
    """What the reply decides.

    ``corrections`` counts the faults already sent back in this step: a plain text is asked for again once, then taken
    as an unstructured answer. With ``protocol="tools"`` a plain text is an ordinary answer.
    """
    ended = (reply.finish_reason or "").lower()
    if ended in _BLOCKED:
        return Fault(FILTERED, "the provider's content filter blocked the reply")
    cut = ended in _CUT
    if reply.calls:
        return _native(reply, tool_names, cut)
    if not reply.text.strip():
        return _truncated() if cut else Fault(EMPTY, "the reply holds no text and no tool call")
    asked_again = corrections > 0
    return _from_text(reply.text, _Setting(tool_names, cut, protocol, asked_again))


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a text is read against. ``cut``: the token limit ended it."""

    tool_names: Sequence[str]
    cut: bool
    protocol: Protocol
    asked_again: bool


def _truncated(thought: str = "", tool: str | None = None) -> Fault:
    return Fault(TRUNCATED, "the token limit cut the reply off before its decision was complete", thought, tool)


def resolve(name: str, tool_names: Sequence[str]) -> str | None:
    """The registered tool that is meant: the exact name, or the only one that differs in case alone. Never a guess."""
    if name in tool_names:
        return name
    folded = name.casefold()
    same = [known for known in tool_names if known.casefold() == folded]
    return same[0] if len(same) == 1 else None


def _native(reply: ModelReply, tool_names: Sequence[str], cut: bool) -> Decision:
    at = 0
    while (closed := stray_close(reply.text, at)) is not None:
        at = closed
    thought = _thought(reply.text[at:])
    calls: list[Call] = []
    for native in reply.calls:
        # Servers send nothing where a tool has no parameters; a schema with required ones still refuses this.
        decoded = decode(native.arguments) if native.arguments.strip() or cut else Decoded({}, 0)
        call = _call(Written(undress(native.name), decoded), tool_names, thought, cut)
        if isinstance(call, Fault):
            return call
        calls.append(Call(call.name, call.args, native.id or None))
    return ToolCalls(thought, tuple(calls))


def _call(written: Written, tool_names: Sequence[str], thought: str, cut: bool) -> Call | Fault:
    decoded, name = written.decoded, resolve(written.name, tool_names)
    if cut and (decoded.args is None or decoded.repaired):
        return _truncated(thought, name)
    if written.problem:
        return Fault(FORMAT, written.problem, thought)
    if decoded.args is not None and name is not None:
        return Call(name, decoded.args)
    if name is not None or (not written.name and decoded.args is None):
        return Fault(decoded.code, decoded.detail, thought, name)
    shown = written.name[:64]
    known = ", ".join(tool_names) or "none"
    return Fault(UNKNOWN_TOOL, f"no tool is named {shown!r}; registered: {known}", thought, shown)


def _from_text(text: str, setting: _Setting) -> Decision:
    """Follow the decisions of a text until one stands that no stray closing tag turns into reasoning."""
    at = 0
    for turn in range(_MAX_ROUNDS):
        mark = locate(text, at)
        if mark.kind in ("none", "unclosed"):
            return _plain(mark, mark.prelude, setting, decided=turn > 0)
        if mark.kind == "final":
            start = opening(text, mark)
            closed = None if mark.regular and not start.bold else stray_close(text, mark.end)
            if closed is None:
                return _truncated(_thought(mark.prelude)) if setting.cut else _final(text, mark, start)
        else:
            written = read_call(text, mark)
            closed = stray_close(text, max(written.decoded.end, mark.end))
            if closed is None:
                return _action(text, mark, written, setting)
        at = closed
    return Fault(FORMAT, "the reply closes reasoning again and again")


def _action(text: str, mark: Mark, written: Written, setting: _Setting) -> Decision:
    thought, names, word = _thought(mark.prelude), setting.tool_names, written.name.casefold()
    if mark.kind != "call" and resolve(written.name, names) is None:
        if mark.kind == "other" and setting.protocol == "tools":
            # To a model that was never told of the protocol, "Action:" is a word like any other.
            return _plain(mark, mark.prelude + text[mark.start :], setting)
        no_name = mark.kind == "other" and _IDENTIFIER.fullmatch(written.name) is None
        if (word in _NO_TOOL or no_name) and not setting.cut:
            return Fault(FORMAT, f"'Action:' needs 'tool:<name>' or 'final:'; {_USE_FINAL}", thought)
    call = _call(written, names, thought, setting.cut)
    if isinstance(call, Fault):
        return call
    rest = text[written.decoded.end :].lstrip()
    return ToolCalls(thought, (call,), "" if _ONLY_CLOSERS.fullmatch(rest) else rest)


def _final(text: str, mark: Mark, start: Opening) -> Decision:
    body = text[start.start :]
    if not mark.regular or start.bold:
        body = _unwrapped(body, mark.prelude, start.bold)
    answer, discarded = clean(body, adorned=start.adorned)
    thought = _thought(mark.prelude)
    if not answer:
        return Fault(EMPTY, "the final answer is blank", thought)
    return Final(thought, answer, discarded=discarded.lstrip())


def _unwrapped(body: str, prelude: str, bold: str) -> str:
    """Without the closing half of a mark or fence that was opened before the answer."""
    if bold:
        line, newline, rest = body.partition("\n")
        line = line.rstrip()
        if line.endswith(bold) and line.count(bold) % 2:
            body = line.removesuffix(bold) + newline + rest
    if len(FENCE.findall(prelude)) % 2 and len(FENCE.findall(body)) % 2:
        kept, _, last = body.rstrip().rpartition("\n")
        if last.strip() in ("```", "~~~"):
            return kept
    return body


def _plain(mark: Mark, visible: str, setting: _Setting, *, decided: bool = False) -> Decision:
    """A text that decides nothing. ``decided``: it did, but in what turned out to be reasoning."""
    if setting.cut:
        return _truncated()
    if mark.kind == "unclosed":
        return Fault(FORMAT, "the reply ended inside its reasoning, without a decision")
    answer, _ = clean(visible, protocol=False)
    if not answer:
        return Fault(EMPTY, "the reply holds reasoning only")
    written = bare_call(visible)
    call = _call(written, setting.tool_names, "", cut=False) if written else None
    if isinstance(call, Call) and not decided:
        return ToolCalls("", (call,))
    residue = THOUGHT.match(visible) if setting.protocol == "tools" else RESIDUE.search(visible)
    if decided or residue or call:
        detail = f"no line begins with 'Action: tool:' or 'Action: final:'; {_USE_FINAL}"
        return Fault(FORMAT, detail, _thought(visible) if THOUGHT.match(visible) else "")
    if setting.protocol == "text" and not setting.asked_again:
        return Fault(FORMAT, f"the reply does not follow the protocol; {_USE_FINAL}")
    return Final("", answer, unstructured=setting.protocol == "text")


def _thought(prelude: str) -> str:
    text, _ = clean(prelude, protocol=False)
    keyword = THOUGHT.match(text)
    return text[keyword.end() :].strip() if keyword else text


def correction(fault: Fault, lang: Lang, tool_names: Sequence[str]) -> str:
    """What goes back to the model: which rule its reply broke, and what to write instead."""
    template = CORRECTIONS.get(fault.code, CORRECTIONS[FORMAT])[lang]
    names = ", ".join(tool_names) or NO_TOOLS[lang]
    text = template.format(detail=fault.detail, tool=fault.tool or "?", tools=names)
    return CORRECTIONS_BEGIN[lang] + text


def is_correction(text: str) -> bool:
    """Whether a message is one of ours that corrects the model, and not a person's."""
    return text.startswith(tuple(CORRECTIONS_BEGIN.values()))


def protocol_instructions(lang: Lang, tools: Sequence[ToolSpec]) -> str:
    """The part of a system prompt that states the text protocol and lists the tools."""
    listed = [
        f"- {tool.name}: {' '.join(tool.description.split())}\n"
        f"  args: {json.dumps(tool.parameters, ensure_ascii=False, separators=(',', ':'))}"
        for tool in tools
    ]
    return PROTOCOL_TEXT[lang].format(tools="\n".join(listed) or NO_TOOLS[lang])
