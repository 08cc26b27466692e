"""What is said with checked answers, in both languages: refusals, marks, sources (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from devassist.core.citing import Style
from devassist.core.definition import Lang
from devassist.core.retrieved import Evidence

Refusal = Literal["no_clause", "not_consulted", "nothing_supported"]

REFUSALS: dict[Style, dict[Refusal, dict[Lang, str]]] = {
    "quoted": {
        "no_clause": {
            "zh": "政策库中没有找到与此问题相关的条款，无法作答。",
            "en": "The policy library has no clause on this question, so it cannot be answered from it.",
        },
        "not_consulted": {
            "zh": "本次运行没有查询政策库，不能给出有依据的答复。",
            "en": "The policy library was not consulted in this run, so no grounded answer can be given.",
        },
        "nothing_supported": {
            "zh": "答复的内容在检索到的条款中得不到支持，已全部略去，因此不作答。",
            "en": "Nothing of the answer is supported by the retrieved clauses, so all of it was left out: there is no "
            "answer.",
        },
    },
    "numbered": {
        "no_clause": {
            "zh": "文档库中没有找到与此问题相关的内容，无法作答。",
            "en": "The documents hold nothing on this question, so it cannot be answered from them.",
        },
        "not_consulted": {
            "zh": "本次运行没有查询文档库，不能给出有依据的答复。",
            "en": "The documents were not consulted in this run, so no grounded answer can be given.",
        },
        "nothing_supported": {
            "zh": "答复的内容在检索到的文档中得不到支持，已全部略去，因此不作答。",
            "en": "Nothing of the answer is supported by the retrieved documents, so all of it was left out: there is "
            "no answer.",
        },
    },
}
NOTICE: dict[Style, dict[Lang, str]] = {
    "quoted": {
        "zh": "【未核实】以下答复中的引文未能在检索到的条款原文中逐字核对，请勿直接引用：\n",
        "en": "[Not verified] This quotation was not found verbatim in the retrieved clauses; do not rely on it:\n",
    },
    "numbered": {
        "zh": "【未核实】以下答复中有内容未能在检索到的原文中核对，请勿直接引用：\n",
        "en": "[Not verified] Not everything in this answer was found in the retrieved documents; do not rely on it:\n",
    },
}
MARK: dict[Lang, str] = {"zh": "【未核实】", "en": "[Not verified] "}
"""Before a sentence that did not pass, where others did."""


def source_line(one: Evidence, lang: Lang) -> str:
    """The line that names the source of a quotation where the answer does not."""
    if lang == "zh":
        dates = _dates(one, "自 {} 起施行", "{} 修订")
        return f"（依据：《{one.title}》{one.label}{'，' if dates else ''}{'，'.join(dates)}）"
    dates = _dates(one, "effective {}", "revised {}")
    return f"(Source: {one.title}, {one.label}{', ' if dates else ''}{', '.join(dates)})"


def source_list(sources: Sequence[Evidence], lang: Lang) -> str:
    """The numbered list at the end of an answer: title, place, revision and effective date of each."""
    return "\n".join(["来源：" if lang == "zh" else "Sources:", *(_entry(one, lang) for one in sources)])


def _entry(one: Evidence, lang: Lang) -> str:
    # A heading path ends with the clause's own heading, and need not repeat it.
    parts = one.heading.split(" > ") if one.heading else []
    path = [one.title, *(p for p in parts if p != one.title)]
    if one.label and one.label not in path:
        path.append(one.label)
    revision = one.rev_id.partition("@")[2] or one.rev_id
    if lang == "zh":
        notes = [f"版本 {revision}"] * bool(revision) + _dates(one, "自 {} 起施行", "{} 修订")
        return f"[{one.number}] {' > '.join(path)}{'，' if notes else ''}{'，'.join(notes)}"
    notes = [f"revision {revision}"] * bool(revision) + _dates(one, "effective {}", "revised {}")
    return f"[{one.number}] {' > '.join(path)}{', ' if notes else ''}{', '.join(notes)}"


def _dates(one: Evidence, effective: str, revised: str) -> list[str]:
    given = [effective.format(one.effective_date)] * bool(one.effective_date)
    return given + [revised.format(one.revision_date)] * bool(one.revision_date)
