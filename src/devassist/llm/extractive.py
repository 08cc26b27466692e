"""``Extractive``: the model when there is none; a planner that runs the code it is given and quotes what it finds.

It is a pure function of the prompt's messages, ``tool_names``, ``agent`` and ``lang``:

1. The last plain user message holds code (a fenced block, or a line beginning with ``执行：`` or ``run:``) and
   ``execute_code`` is allowed: call it with the code byte for byte, then report stdout, stderr and exit code.
2. It asks for something and a knowledge tool is allowed: ask that (``get_policy`` for the agent ``policy`` or where
   there is no ``search_docs``), then quote the best clause verbatim with its source, or say that there is none. A
   tool without a hit is followed by the other one. Where hits are numbered, the best passages are quoted with [n].
3. Otherwise say what it can do, and how a model is set.

Replies are in the text protocol; where the request carries native tools, calls are native and answers plain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devassist.core.evidence import program_report
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import Scope
from devassist.llm.classify import as_object
from devassist.llm.code_blocks import code_in, outside_code
from devassist.llm.estimate import estimate_prompt, estimate_tokens
from devassist.llm.extractive_texts import (
    ABILITIES,
    CANNOT_RUN,
    CANNOT_WRITE,
    NO_CLAUSE,
    NO_MODEL_TO_WRITE,
    NO_PASSAGE,
    NO_RESULT,
    THOUGHTS,
    Lang,
    Source,
    language_of,
    marked,
    quotation,
    stretches,
    tool_failed,
    unreadable_report,
)
from devassist.llm.observations import OMITTED, Seen, read_observation
from devassist.llm.passages import best_passage, grams
from devassist.llm.turns import Turn, current_turn
from devassist.ports.model import ModelKind, ModelRequest

EXECUTE, POLICY, DOCS = "execute_code", "get_policy", "search_docs"

_QUESTION_CHARS = 2000
_PIECES = 4
_MOST_QUOTED = 3
_SMALL_TALK = frozenset(
    "你好 您好 嗨 哈喽 在吗 谢谢 多谢 再见 你是谁 你能做什么 你会什么 帮助 hello hi hey thanks bye help "
    "whoareyou whatcanyoudo thankyou goodmorning".split()
)
_ASKS_TO_WRITE = re.compile(
    r"写代码|(?:编写|写|实现)[^。\n]{0,20}(?:代码|程序|函数|脚本|算法|测试|查找|排序)"
    r"|(?:运行|执行)(?:这段|下面的)?代码|跑测试"
    r"|(?i:\b(?:write|implement)\b.{0,60}\b(?:code|function|program|script|class|tests?|search|sort)\b)"
    r"|(?i:\brun (?:the |this |my )?(?:code|tests)\b)"
)


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next: call ``tool`` with ``args``, or, without a tool, give ``answer``."""

    thought: str
    tool: str = ""
    args: dict[str, Any] | None = None
    answer: str = ""


class Extractive:
    """The planner as a model; see the module's text. Never raises; needs no key, no network and no memory."""

    @property
    def name(self) -> str:
        return "extractive"

    @property
    def kind(self) -> ModelKind:
        return "extractive"

    async def complete(
        self, scope: Scope, request: ModelRequest, on_delta: Callable[[str], None] | None = None
    ) -> ModelReply:
        reply = render(plan(request), request)
        if on_delta is not None and reply.text:
            size = -(-len(reply.text) // _PIECES)
            for at in range(0, len(reply.text), size):
                on_delta(reply.text[at : at + size])
        return reply

    async def close(self) -> None:
        """Nothing to release."""


def plan(request: ModelRequest) -> Step:
    """The next step. Pure."""
    turn = current_turn(request.messages)
    lang = language_of(turn.question, request.lang)
    allowed = frozenset(request.tool_names)
    code = code_in(turn.question)
    if code is not None and EXECUTE in allowed:
        if EXECUTE not in turn.called:
            return _call(EXECUTE, {"code": code}, lang)
        return _final(_program_answer(turn, lang), lang)
    if code is not None and not outside_code(turn.question).strip():
        return _final(f"{CANNOT_RUN[lang]}\n\n{ABILITIES[lang]}", lang)
    if code is None and not turn.called and request.agent != "policy" and _ASKS_TO_WRITE.search(turn.question):
        return _final(CANNOT_WRITE[lang] if EXECUTE in allowed else NO_MODEL_TO_WRITE[lang], lang)
    tools = _knowledge_tools(request.agent, allowed)
    if not tools or (_is_small_talk(turn.question) and not turn.replies):
        return _final(ABILITIES[lang], lang)
    return _from_knowledge(turn, tools, lang)


def render(step: Step, request: ModelRequest) -> ModelReply:
    """The step as a reply in the request's protocol."""
    text, calls = "", ()
    if not request.tools:
        # The escapes keep a reply whole for readers that take U+2028 and its like for line ends.
        args = _json(step.args).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
        deed = f"Action: tool:{step.tool}\nargs: {args}" if step.tool else f"Action: final: {step.answer}"
        text = f"Thought: {step.thought}\n{deed}"
    elif step.tool:
        number = len(current_turn(request.messages).called) + 1
        calls = (NativeCall(f"call_{number}", step.tool, _json(step.args)),)
    else:
        text = step.answer
    return ModelReply(
        text=text,
        calls=calls,
        finish_reason="tool_calls" if calls else "stop",
        input_tokens=estimate_prompt(request.messages),
        output_tokens=estimate_tokens(text) + sum(estimate_tokens(call.arguments) for call in calls),
        model="extractive",
    )


def _json(args: dict[str, Any] | None) -> str:
    return json.dumps(args or {}, ensure_ascii=False)


def _call(tool: str, args: dict[str, Any], lang: Lang) -> Step:
    return Step(THOUGHTS[tool][lang], tool=tool, args=args)


def _final(answer: str, lang: Lang) -> Step:
    return Step(THOUGHTS["final"][lang], answer=answer)


def _is_small_talk(question: str) -> bool:
    words = re.sub(r"[\W_]+", "", question.lower())
    return words.removesuffix("吗").removesuffix("呀").removesuffix("啊") in _SMALL_TALK or not words


def _knowledge_tools(agent: str, allowed: frozenset[str]) -> tuple[str, ...]:
    """The knowledge tools of the run, the one to ask first in front."""
    order = (POLICY, DOCS) if agent == "policy" else (DOCS, POLICY)
    return tuple(tool for tool in order if tool in allowed)


def _from_knowledge(turn: Turn, tools: tuple[str, ...], lang: Lang) -> Step:
    seen = {observation.tool: read_observation(observation.text) for observation in turn.observations}
    asked = [tool for tool in tools if tool in turn.called]
    for tool in asked:
        if tool in seen and seen[tool].hits:
            hits = seen[tool].hits
            numbered = isinstance(hits[0].get("n"), int)
            return _final((_numbered if numbered else _quote)(hits, turn.question, lang), lang)
    rest = [tool for tool in tools if tool not in turn.called]
    if rest:
        question = outside_code(turn.question).strip()[:_QUESTION_CHARS]
        return _call(rest[0], {"question" if rest[0] == POLICY else "query": question}, lang)
    failures = [seen[tool].failure for tool in asked if tool in seen and seen[tool].failure]
    if failures:
        return _final(tool_failed(lang, failures[0]), lang)
    if not seen:
        return _final(NO_RESULT[lang], lang)
    return _final((NO_CLAUSE if POLICY in asked else NO_PASSAGE)[lang], lang)


def _numbered(hits: tuple[dict[str, Any], ...], question: str, lang: Lang) -> str:
    """Quotations of the best passages, each with its number; the first always, others that fit nearly as well."""
    wanted = grams(question)
    found = [(_passage(hit, question), hit.get("n")) for hit in hits[:_MOST_QUOTED]]
    fits = [len(grams(passage) & wanted) for passage, _ in found]
    lines = [
        f"{marked(passage)} [{n}]"
        for (passage, n), fit in zip(found, fits, strict=True)
        if passage and isinstance(n, int) and (fit == fits[0] or 2 * fit >= max(fits))
    ]
    return "\n".join(lines) or NO_PASSAGE[lang]


def _passage(hit: dict[str, Any], question: str) -> str:
    """The part of a hit that answers best; nothing that was left out of it lies within."""
    wanted = grams(question)
    parts = [one for part in OMITTED.split(str(hit.get("text") or "")) for one in stretches(part)]
    return best_passage(max(parts, key=lambda part: len(grams(part) & wanted)), question)


def _quote(hits: tuple[dict[str, Any], ...], question: str, lang: Lang) -> str:
    hit = hits[0]
    text = str(hit.get("text") or "")
    passage = _passage(hit, question)
    source = Source(
        title=str(hit.get("title") or hit.get("doc_id") or ""),
        place=str(hit.get("label") or hit.get("heading") or hit.get("clause_id") or ""),
        effective_date=str(hit.get("effective_date") or ""),
        revision_date=str(hit.get("revision_date") or ""),
        link="" if "label" in hit else str(hit.get("source") or ""),
    )
    return quotation(lang, source, passage, excerpt=len(passage) < len(text.strip()))


def _program_answer(turn: Turn, lang: Lang) -> str:
    results: list[Seen] = [read_observation(one.text) for one in turn.observations if one.tool in (EXECUTE, "")]
    if not results:
        return NO_RESULT[lang]
    last = results[-1]
    if last.failure:
        return tool_failed(lang, last.failure)
    if "exit_code" not in as_object(last.value):
        return unreadable_report(lang, last.raw)
    return program_report(lang, as_object(last.value))
