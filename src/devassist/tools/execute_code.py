"""The tool ``execute_code``: a Python program, run in a sandbox of its own, and what came of it as evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from devassist.core.codec import json_text
from devassist.core.errors import Overloaded
from devassist.core.scope import Scope
from devassist.core.tooling import ToolResult, ToolSpec
from devassist.ports.sandbox import Execution, Finding, Program, Sandbox
from devassist.tools.outcomes import FailForGood
from devassist.tools.registry import Tool

NAME = "execute_code"
MOST_TIMEOUT_S = 60
_MOST_CODE = 100_000
_QUEUE_S = 60.0
"""How much longer than its program a call may take: its turn has to come first."""
_MOST_TOLD = 8
_MOST_WARNINGS = 20
_WHAT_CHARS = 120
_SHOWN_CHARS = 18_000
"""What a model is shown of a result as a whole: less than the runtime's own cut, which does not know of streams."""
_SHARES = (8000, 4000, 2000, 1000)
_OMITTED = re.compile(r"… (\d+) characters omitted …")
_ENDS = 10_000  # how much of either end a stream keeps in the record
_DESCRIPTION = (
    "Run a Python program and get what it printed. Each call starts from nothing: no variable, file or module of an "
    "earlier call is there. Print what you want to see. There is no network and no other process; files can be written "
    "in the working directory and /tmp only, and are gone afterwards. The answer holds stdout, stderr and exit_code: "
    "report them as they are."
)
_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_FLAG = {"type": "boolean"}
_RESULT: dict[str, Any] = {
    "stdout": _TEXT,
    "stderr": _TEXT,
    "exit_code": _COUNT,
    "duration_ms": _COUNT,
    "timed_out": _FLAG,
    "oom_killed": _FLAG,
    "truncated": _FLAG,
    "backend": _TEXT,
    "image": _TEXT,
    "limits": _TEXT,
    "flooded": _FLAG,
    "warnings": {"type": "array", "items": _TEXT},
}

Scan = Callable[[str], tuple[Finding, ...]]


def execute_code_tool(
    sandbox: Sandbox, scan: Scan, default_timeout_s: int, cannot: Sequence[str] = ()
) -> Tool:  # fmt: skip
    """The tool over a sandbox. Its effect is ``pure``: nothing outlives the sandbox. ``cannot`` tells models what
    programs are not able to do there.

    ``scan`` looks at each program first, and blocked ones are not run (``sandbox_code_blocked``, 400). This is the only
    way from a model or a person to the sandbox.
    """

    async def handler(code: str, scope: Scope, timeout_s: int = default_timeout_s) -> ToolResult:
        found = scan(code)
        blocked = [finding for finding in found if finding.blocked]
        if blocked:
            raise FailForGood("sandbox_code_blocked", _refusal(blocked), status=400)
        try:
            done = await sandbox.execute(scope, Program(code, float(timeout_s)))
        except Overloaded as error:
            raise FailForGood("sandbox_busy", error.detail, status=429) from None
        result = _result(done, found)
        return ToolResult(result, _shown(result))

    spec = ToolSpec(
        NAME,
        _DESCRIPTION + (f" Programs cannot: {'; '.join(map(_english, cannot))}." if cannot else ""),
        {
            "type": "object",
            "properties": {
                "code": {"type": "string", "minLength": 1, "maxLength": _MOST_CODE, "description": "the whole program"},
                "timeout_s": {
                    "type": "integer", "minimum": 1, "maximum": MOST_TIMEOUT_S, "default": default_timeout_s,
                    "description": "seconds that it may run",
                },
            },
            "required": ["code"],
            "additionalProperties": False,
        },
        {"type": "object", "properties": _RESULT, "required": list(_RESULT), "additionalProperties": False},
        effect="pure",
        timeout_s=MOST_TIMEOUT_S + _QUEUE_S,
    )  # fmt: skip
    return Tool(spec, handler)


def _result(done: Execution, found: tuple[Finding, ...]) -> dict[str, Any]:
    return {**asdict(done), "warnings": [_said(finding) for finding in found[:_MOST_WARNINGS]]}


def _shown(result: dict[str, Any]) -> str | None:
    """The result as models see it where it is too long for them: each stream with its two ends, so that one is never
    taken for the other. None where it can be shown as it is."""
    if len(json_text(result)) <= _SHOWN_CHARS:
        return None
    text = ""
    for share in _SHARES:
        streams = {name: _cut(result[name], share) for name in ("stdout", "stderr")}
        text = json_text({**result, **streams, "truncated": True})
        if len(text) <= _SHOWN_CHARS:
            break
    return text


def _cut(text: str, share: int) -> str:
    """Of ``text`` no more than ``share`` characters; what the record leaves out already counts as left out."""
    if len(text) <= share:
        return text
    half, note = share // 2, _OMITTED.match(text, _ENDS)
    omitted = len(text) - 2 * half + (int(note[1]) - len(note[0]) if note else 0)
    return f"{text[:half]}… {omitted} characters omitted …{text[-half:]}"


def _english(both: str) -> str:
    """Texts on what cannot be done are for people too, in two languages; the rest of the description is in one."""
    return both.partition(" / ")[0]


def _refusal(blocked: list[Finding]) -> str:
    said = "; ".join(_said(finding) for finding in blocked[:_MOST_TOLD])
    more = f"; and {len(blocked) - _MOST_TOLD} more" if len(blocked) > _MOST_TOLD else ""
    return (
        f"The program was not run, since it uses what is not allowed here: {said}{more}. "
        "Write it without processes, network access, removing files, and code that is made at run time."
    )


def _said(finding: Finding) -> str:
    return f"line {finding.line}, column {finding.column}: {finding.what[:_WHAT_CHARS]} ({finding.rule})"
