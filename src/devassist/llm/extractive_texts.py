"""What ``Extractive`` says to people, in Chinese and English. Data and pure formatting; no decision is made here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from devassist.core.evidence import fenced

Lang = Literal["zh", "en"]

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_LETTER = re.compile("[A-Za-z]")


def language_of(question: str, default: str) -> Lang:
    """The language to answer in: by the question's script, else ``default``."""
    if _HAN.search(question):
        return "zh"
    return "en" if _LETTER.search(question) or default != "zh" else "zh"


ABILITIES: dict[Lang, str] = {
    "zh": (
        "你好，我是 DevAssist。现在还没有接入语言模型，由内置的确定性规划器回答，它只逐字引用，不会自由作答。"
        "问一个政策问题，我会逐字引用最相关的条款，并注明标题和日期。\n"
        "要接入自己的模型，请设置环境变量 OPENAI_BASE_URL（以 /v1 结尾）、OPENAI_API_KEY 和 OPENAI_MODEL，再重新启动。"
    ),
    "en": (
        "Hello, I am DevAssist. No language model is set up yet, so a built-in deterministic planner answers; it "
        "quotes word for word and does not converse. Ask a policy question, and it quotes the most relevant clause "
        "with its title and dates.\n"
        "To use a model of your own, set OPENAI_BASE_URL (ending in /v1), OPENAI_API_KEY and OPENAI_MODEL, and start "
        "again."
    ),
}
NO_MODEL_TO_WRITE: dict[Lang, str] = {
    "zh": (
        "现在还没有接入语言模型，我不能替你编写代码。\n"
        "要让模型来写，请设置环境变量 OPENAI_BASE_URL（以 /v1 结尾）、OPENAI_API_KEY 和 OPENAI_MODEL，再重新启动。"
    ),
    "en": (
        "No language model is set up, so I cannot write code.\n"
        "To have a model write it, set OPENAI_BASE_URL (ending in /v1), OPENAI_API_KEY and OPENAI_MODEL, and start "
        "again."
    ),
}
CANNOT_WRITE: dict[Lang, str] = {
    "zh": (
        "现在还没有接入语言模型，我不能替你编写代码，但可以运行它：请把代码放在代码块里发来，或用以“执行：”开头的一行。\n"
        "要让模型来写，请设置环境变量 OPENAI_BASE_URL（以 /v1 结尾）、OPENAI_API_KEY 和 OPENAI_MODEL，再重新启动。"
    ),
    "en": (
        "No language model is set up, so I cannot write code, but I can run it: send it in a code block, or in a line "
        "beginning with “run:”.\n"
        "To have a model write it, set OPENAI_BASE_URL (ending in /v1), OPENAI_API_KEY and OPENAI_MODEL, and start "
        "again."
    ),
}
CANNOT_RUN: dict[Lang, str] = {
    "zh": "这次对话不允许使用 execute_code，所以没有运行这段代码。",
    "en": "This conversation may not use execute_code, so the code was not run.",
}
NO_CLAUSE: dict[Lang, str] = {
    "zh": "政策库中没有找到相关条款。",
    "en": "No such clause was found in the policy library.",
}
NO_PASSAGE: dict[Lang, str] = {"zh": "文档库中没有找到相关内容。", "en": "Nothing on this was found in the documents."}
NO_RESULT: dict[Lang, str] = {
    "zh": "工具没有返回结果，无法回答。",
    "en": "The tool returned no result, so there is no answer.",
}
THOUGHTS: dict[str, dict[Lang, str]] = {
    "execute_code": {"zh": "消息里有代码，先在沙箱里运行。", "en": "The message holds code; run it in the sandbox."},
    "get_policy": {"zh": "先在政策库中查找相关条款。", "en": "Look for the clause in the policy library."},
    "search_docs": {"zh": "先在文档库中查找相关内容。", "en": "Look for the passage in the documents."},
    "final": {"zh": "可以回答了。", "en": "This can be answered."},
}


def tool_failed(lang: Lang, message: str) -> str:
    return f"工具没有成功：{message}" if lang == "zh" else f"The tool did not succeed: {message}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a quotation comes from; empty fields are left out."""

    title: str
    place: str
    effective_date: str = ""
    revision_date: str = ""
    link: str = ""


_PROTOCOL = re.compile(
    r"(?im)^[ \t>*_`-]*(?:observation|thought|action|args|行动|动作|参数)\b[^\n]*[:：]|</?(?:think|tool_call)"
)
_PAIRS = (("「", "」"), ("『", "』"), ("“", "”"))


def stretches(text: str) -> list[str]:
    """The stretches of a text between lines that would read as the protocol's own; all of it, where there are none."""
    if _PROTOCOL.search(text) is None:
        return [text]
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        if _PROTOCOL.search(line):
            found.append([])
        else:
            found[-1].append(line)
    return [stretch for lines in found if (stretch := "\n".join(lines).strip())] or [""]


def marked(passage: str) -> str:
    """The passage between quotation marks that it does not hold itself, else as a block quote."""
    for opening, closing in _PAIRS:
        if opening not in passage and closing not in passage:
            return f"{opening}{passage}{closing}"
    return "\n".join(f"> {line}" for line in passage.split("\n")) + "\n"


def quotation(lang: Lang, source: Source, passage: str, *, excerpt: bool) -> str:
    """``passage`` in quotation marks, byte for byte, after its source.

    Nothing else stands in quotation marks, since every quotation of a grounded answer is checked against the clauses.
    """
    title = source.title.strip("《》 ")
    named = f"《{title}》" if lang == "zh" or _HAN.search(title) else f"*{title}*"
    if lang == "zh":
        dates = [f"自 {source.effective_date} 起施行"] if source.effective_date else []
        dates += [f"{source.revision_date} 修订"] if source.revision_date else []
        notes = dates + ([f"来源：{source.link}"] if source.link else [])
        about = f"（{'，'.join(notes)}）" if notes else ""
        return f"根据{named}{source.place}{about}：{marked(passage)}{'（节选）' if excerpt else ''}"
    dates = [f"in force from {source.effective_date}"] if source.effective_date else []
    dates += [f"revised {source.revision_date}"] if source.revision_date else []
    notes = dates + ([f"source: {source.link}"] if source.link else [])
    about = f" ({', '.join(notes)})" if notes else ""
    place = f", {source.place}" if source.place else ""
    return f"According to {named}{place}{about}: {marked(passage)}{' (excerpt)' if excerpt else ''}"


def unreadable_report(lang: Lang, beginning: str) -> str:
    said = "代码已运行，但结果没能完整读取，开头是：" if lang == "zh" else "The code was run; its result begins:"
    return f"{said}\n{fenced(beginning)}"
