"""The work that every contestant does: three model calls and two tool calls a run, all of it real text."""

from __future__ import annotations

import json

SYSTEM = "You are an assistant. Answer with Thought / Action: tool:<name> / args: {...} or Action: final: <text>."
_RULE = (
    "Employees with at least one year of service have fifteen days of paid annual leave in a calendar year; days not "
    "taken may be carried over to the end of March of the following year, five of them at most, after the head of the "
    "department has agreed in writing. Leave is counted in whole or half days; public holidays within it do not count."
)


def question(number: int) -> str:
    return f"(request {number}) How many days of annual leave do I have left, and how many can I carry over?"


def tool_result() -> str:
    return json.dumps({"policy": "annual_leave", "days": 15, "used": 5, "remaining": 10, "text": _RULE})
