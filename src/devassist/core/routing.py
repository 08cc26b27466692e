"""Who answers a message of /chat, by fixed rules in a fixed order, each with its reason. Pure.

Explicit flags come first, then code in the message, then a named collection, then words that ask for doing, then named
tools, then what the policy library knows, then what the documents know, else plain chat. The words are a closed list:
执行, 运行 and 验证 alone are ordinary language of policies, and so are ``execute``, ``run`` and ``code``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from devassist.core.definition import Lang, Route

DEV, POLICY, RAG, CHAT = "dev", "policy", "rag", "chat"

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_WORD = re.compile(r"[A-Za-z]+")
_ENGLISH = re.compile(
    r"(?i)\b(?:a|an|and|are|as|at|can|do|does|for|from|has|have|how|i|if|in|is|it|of|on|or|that|the|this|to|was|what"
    r"|when|where|which|who|why|with|you)\b"
)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_RUN_LINE = re.compile(r"(?m)^[ \t\u3000]*(?:执行|(?i:run))[ \t]*[:：]")

# Verbose patterns: blanks stand as [ ]. Every repetition is bounded, so that no message takes long.
_LANGUAGE = r"(?:Python|Java[ ]?Script|Type[ ]?Script|Java|Go|Rust|Shell|Bash|SQL|C\+\+|HTML)"
_GAP = r"[ \t]{0,4}"
_ZH_THIS = r"(?:(?:下面|上面|以下|我)(?:这[段个些]|的)?|这[段个些])?"
_ZH_IN = rf"{_GAP}(?:{_LANGUAGE}{_GAP}的?)?"
_ZH_CODE = rf"{_ZH_IN}(?:代码|脚本)"
_ZH_DOING = rf"""
    (?<![填书抄])写(?:一?小?[段个些下])?(?:{_ZH_CODE}|{_ZH_IN}(?:程序|函数|爬虫|单元测试|测试用例))
    |写一?小?[段个][^，。？！,.?!\n]{{1,20}}(?:代码|脚本|函数|算法|排序|爬虫)
    |实现一?[个种][^，。？！,.?!\n]{{0,20}}(?:函数|算法|排序|查找|脚本)
    |(?:运行|执行|跑)(?:一下|一遍)?{_ZH_THIS}{_ZH_CODE}
    |跑(?:一下|一遍|下)?{_ZH_THIS}(?:单元|回归|集成|全部|所有){{0,2}}(?:测试|单测|用例)
    |(?:调试|重构|优化){_ZH_THIS}(?:{_ZH_CODE}|函数)
    |修复?(?:一下|一个)?{_ZH_THIS}{_GAP}bug
    |用{_GAP}{_LANGUAGE}{_GAP}来?(?:写|实现|计算|算|画|统计)
    |一步一步
"""
_EN_THIS = r"(?:(?:me|us|the|this|that|these|those|my|our|some|an?|all|following|short|small|simple|unit)[ ]){0,4}"
_EN_ASKED = r"(?:^|[.!?:;,][ \t]{0,4}|\b(?:please|you|then|and|let's)[ ])"
_EN_DOING = rf"""
    \bwrite[ ]{_EN_THIS}(?:{_LANGUAGE}[ ])?(?:code|scripts?|functions?|programs?|unit[ ]tests?|tests)\b(?![ ]of\b)
    |\bwrite[ ](?:me[ ]|us[ ])?an?[ ](?:[\w+#-]{{1,20}}[ ]){{1,3}}(?:script|function|snippet|regex)\b
    |\bimplement[ ]an?[ ](?:[\w+#-]{{1,20}}[ ]){{0,3}}(?:algorithm|function|class|search|sort)\b
    |{_EN_ASKED}(?:run|execute)[ ]{_EN_THIS}(?:{_LANGUAGE}[ ])?(?:code|scripts?|snippet|test[ ]suite|tests)\b(?![ ]of\b)
    |\b(?:debug|refactor)[ ]{_EN_THIS}(?:{_LANGUAGE}[ ])?(?:code|scripts?|functions?|programs?)\b
    |\bfix[ ]{_EN_THIS}bugs?\b
    |\bstep[ -]by[ -]step\b
"""
_DOING = re.compile(rf"(?imx){_ZH_DOING}|{_EN_DOING}")

_REASONS: dict[str, dict[Lang, str]] = {
    "named_agent": {"zh": "请求指定了智能体 {agent}。", "en": "The request names the agent {agent}."},
    "use_agent": {"zh": "请求要求由智能体处理。", "en": "The request asks for an agent."},
    "use_rag": {"zh": "请求要求检索文档。", "en": "The request asks for the documents."},
    "tools_given": {"zh": "请求给出了可用的工具。", "en": "The request says which tools to use."},
    "use_agent_false": {"zh": "请求不要智能体处理。", "en": "The request asks for no agent."},
    "code_block": {"zh": "消息里有代码块。", "en": "The message holds a code block."},
    "run_line": {"zh": "消息里有以“执行：”开头的一行。", "en": "A line of the message begins with “run:”."},
    "collection": {"zh": "请求指定了文档集 {collection}。", "en": "The request names the collection {collection}."},
    "doing_words": {"zh": "消息要求动手：“{words}”。", "en": "The message asks for doing: “{words}”."},
    "policy_hit": {"zh": "政策库里有相关的条款。", "en": "The policy library has a clause on this."},
    "docs_hit": {"zh": "文档库中有相关的内容。", "en": "The documents have a passage on this."},
    "plain": {"zh": "没有别的规则适用，作为普通对话回答。", "en": "No other rule applies, so it is plain chat."},
}


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """``code`` names the rule that decided, ``reason`` says it to people in the message's language."""

    route: Route
    agent: str
    reason: str
    code: str


def lang_of(text: str) -> Lang:
    """The language to answer in. What stands in code counts only where there is nothing else.

    Chinese sentences are full of English terms, so any Chinese decides but in what reads as an English sentence: two
    of its small words, and more words than half the Chinese characters.
    """
    prose = _INLINE_CODE.sub(" ", _split_fences(text)[0])
    part = prose if _HAN.search(prose) or _WORD.search(prose) else text
    han = len(_HAN.findall(part))
    english = len(_ENGLISH.findall(part)) >= 2 and 2 * len(_WORD.findall(part)) > han
    return "zh" if han and not english else "en"


def route(
    message: str, *, use_agent: bool | None, use_rag: bool | None, tools: Sequence[str] | None,
    collection: str | None, agent: str | None, best_policy_score: float, threshold: float,
    best_docs_score: float = 0.0,
) -> RouteDecision:  # fmt: skip
    """Decide. ``best_policy_score`` reaching ``threshold`` means that the policy library knows of it, and
    ``best_docs_score`` that the documents do.

    A flag that is False takes its route out of the question. Named tools ask for the agent that has them all rather
    than for one that may not; without any tool the policy agent could look nothing up.
    """
    lang = lang_of(message)

    def to(where: Route, who: str, code: str, **names: str) -> RouteDecision:
        return RouteDecision(where, who, _REASONS[code][lang].format(**names), code)

    if agent is not None:
        return to(kind_of(agent), agent, "named_agent", agent=agent)
    if use_agent:
        return to("agent", DEV, "use_agent")
    if use_rag:
        return to("rag", RAG, "use_rag")
    may_act = use_agent is not False
    if may_act and _split_fences(message)[1]:
        return to("agent", DEV, "code_block")
    if may_act and _RUN_LINE.search(message):
        return to("agent", DEV, "run_line")
    if collection is not None and use_rag is not False:
        return to("rag", RAG, "collection", collection=collection)
    if not may_act:
        return to("chat", CHAT, "use_agent_false")
    if words := _DOING.search(message):
        return to("agent", DEV, "doing_words", words=words[0].strip(" \t.!?:;,"))
    if tools:
        return to("agent", DEV, "tools_given")
    if best_policy_score >= threshold and tools is None:
        return to("agent", POLICY, "policy_hit")
    if best_docs_score >= threshold and tools is None and use_rag is not False:
        return to("rag", RAG, "docs_hit")
    return to("chat", CHAT, "plain")


def kind_of(agent: str) -> Route:
    """The route that an agent stands for when it is named."""
    return "chat" if agent == CHAT else "rag" if agent == RAG else "agent"


def is_one_block(message: str) -> bool:
    """Whether the message is one closed fenced code block and nothing else."""
    lines = message.rstrip().lstrip("\r\n").split("\n")
    mark = _FENCE.match(lines[0])
    if mark is None or "`" in mark[2] or len(lines) < 2:
        return False
    closing = [i for i, line in enumerate(lines[1:], 1) if _closes(line, mark[1])]
    return closing[:1] == [len(lines) - 1]


def _closes(line: str, fence: str) -> bool:
    mark = _FENCE.match(line)
    return mark is not None and mark[1].startswith(fence) and not mark[2].strip()


def _split_fences(text: str) -> tuple[str, bool]:
    """The text outside fenced code blocks, and whether there is any. A fence that is never closed is no block."""
    if "```" not in text and "~~~" not in text:
        return text, False
    outside: list[str] = []
    held: list[str] = []
    fence, found = "", False
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if not fence:
            if mark is not None and "`" not in mark[2]:
                fence, held = mark[1], [line]
            else:
                outside.append(line)
        elif _closes(line, fence):
            fence, found = "", True
        else:
            held.append(line)
    return "\n".join(outside + (held if fence else [])), found
