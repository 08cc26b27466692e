"""What a program did, in words for people, and the answers that have to show it.

An agent with ``evidence`` runs programs to prove what it says. A model may forget to quote what came of them, or quote
something else; so the released text is checked against the record, and what is missing is added from there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from devassist.core.codec import cut_middle
from devassist.core.definition import Lang

ADDED = "evidence_added"
_STREAM_CHARS = 2000
_REMARKS: dict[str, dict[Lang, str]] = {
    "timed_out": {"zh": "运行超时，已被终止。", "en": "It ran out of time and was ended."},
    "oom_killed": {"zh": "超出内存限制，已被终止。", "en": "It ran out of memory and was ended."},
    "flooded": {"zh": "输出超过上限，已被终止。", "en": "It wrote too much and was ended."},
    "truncated": {"zh": "输出过长，中间部分已省略。", "en": "The output was long; its middle is left out."},
}
_EXIT_CODE = r"(?i:exit[_ ]?code|退出码)[^0-9\n-]{0,20}"


def with_evidence(answer: str, results: Sequence[Any], lang: Lang) -> str:
    """``answer``, with what came of the last program in ``results`` after it, unless both streams stand there already,
    word for word and on lines of their own, and the exit code too."""
    programs = [cast("dict[str, Any]", result) for result in results if is_program(result)]
    if not programs or _quotes(answer, programs[-1]):
        return answer
    last = programs[-1]
    shown = {**last} | {stream: cut_middle(last[stream], _STREAM_CHARS) for stream in ("stdout", "stderr")}
    return f"{answer.rstrip()}\n\n{program_report(lang, shown)}"


def is_program(result: object) -> bool:
    """Whether a tool's result is that of a program."""
    if not isinstance(result, dict):
        return False
    found = cast("dict[str, Any]", result)
    streams = isinstance(found.get("stdout"), str) and isinstance(found.get("stderr"), str)
    return streams and type(found.get("exit_code")) is int


def program_report(lang: Lang, result: Mapping[str, Any]) -> str:
    """What a program did: its exit code, both streams as they are, why it ended early if it did, what was noticed
    before it ran, and where it ran."""
    zh = lang == "zh"
    lines = [
        f"代码已在沙箱中运行，退出码（exit_code）：{result.get('exit_code')}"
        if zh
        else f"The code was run in the sandbox; exit code (exit_code): {result.get('exit_code')}"
    ]
    lines += [text[lang] for key, text in _REMARKS.items() if result.get(key)]
    for stream in ("stdout", "stderr"):
        text = result.get(stream)
        if isinstance(text, str) and text:
            lines += ["", f"{stream}{'：' if zh else ':'}", fenced(text)]
        else:
            lines += ["", f"{stream}：（空）" if zh else f"{stream}: (empty)"]
    warnings = result.get("warnings")
    if isinstance(warnings, list) and warnings:
        lines += ["", "运行前的提示：" if zh else "Noticed before it ran:"]
        lines += [f"- {warning}" for warning in cast("list[Any]", warnings)]
    if backend := result.get("backend"):
        limits = result.get("limits") or ""
        lines += ["", f"沙箱：{backend}（{limits}）" if zh else f"Sandbox: {backend} ({limits})"]
    return "\n".join(lines)


def fenced(text: str) -> str:
    """A code block that no line of ``text`` can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _quotes(answer: str, result: Mapping[str, Any]) -> bool:
    code = re.search(rf"{_EXIT_CODE}(?<!\d){re.escape(str(result['exit_code']))}(?!\d)", answer)
    return code is not None and all(_stands_in(result[stream], answer) for stream in ("stdout", "stderr"))


def _stands_in(text: str, answer: str) -> bool:
    """Long texts count when their two ends are there."""
    kept, half, lines = text.strip("\n"), _STREAM_CHARS // 2, f"\n{answer}\n"
    if len(kept) <= _STREAM_CHARS:
        return not kept or f"\n{kept}\n" in lines
    return f"\n{kept[:half]}" in lines and f"{kept[-half:]}\n" in lines
