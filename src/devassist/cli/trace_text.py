"""One run as a page of text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from devassist.cli.output import args_text, clean, cut, indented, local_time, one_line, took
from devassist.cli.people_text import asked_lines, doubt_lines, waits_for
from devassist.cli.screen import source_text
from devassist.core.events import RunStarted
from devassist.core.questions import Questions
from devassist.runtime.view import RunView

_OBSERVATION_LINES = 15


class Said(NamedTuple):
    """What a run asked of people, and what they said, line by line."""

    found: Questions
    lines: Sequence[str]


def show_text(answer: dict[str, Any], row: dict[str, Any], view: RunView, said: Said, *, full: bool) -> str:
    """The page that ``trace show`` prints; ``answer`` is the answer object, ``row`` that of the list. Unless ``full``
    the beginning of an observation stands for it."""
    meta, usage = answer["meta"], answer["usage"]
    started, latest = view.placed[0][2], view.placed[-1][2]
    started_event = view.placed[0][0]
    asked = view.text(started_event.message) if isinstance(started_event, RunStarted) else None
    cost = "no price known" if usage["cost"] is None else f"cost {usage['cost']}"
    lines = [
        f"Trace         {answer['trace_id']}  {answer['status']}",
        f"Begun         {local_time(started)}, {took((latest - started) // 1000)}, {len(view.placed)} events",
        f"User          {row['user'] or '(erased)'}, conversation {answer['conversation_id']}",
        f"Agent         {meta['agent_name']} on {meta['model_kind']}:{meta['model']}, prompt {meta['prompt_version']}",
        f"Route         {meta['route']}: {one_line(meta['route_reason'] or '(erased)')}",
        f"Usage         model calls {usage['model_calls']}, tool calls {usage['tool_calls']}, "
        f"tokens in {usage['input_tokens']}, out {usage['output_tokens']}, {cost}",
    ]
    if row["replaces"]:
        lines.append(f"Replaces      {row['replaces']}")
    lines += ["", "Asked", _text(asked)]
    for step in answer["steps"]:
        lines += ["", *_step(step, 0 if full else _OBSERVATION_LINES)]
        if step["in_doubt"]:
            lines += doubt_lines(answer["trace_id"], said.found, step["step_index"], step["call_index"])
    if said.lines:
        lines += ["", "People", *said.lines]
    return "\n".join([*lines, "", *_end(answer, view)])


def _step(step: dict[str, Any], most: int) -> list[str]:
    number = f"Step {step['step_index'] + 1}" + (f".{step['call_index'] + 1}" if step["call_index"] else "")
    error = step["error"]
    if step["tool_name"] is not None:
        what = f"{one_line(step['tool_name'])} {cut(one_line(args_text(step['tool_args'])), 200)}"
    else:
        what = "reply sent back" if error else "final answer"
    lines = [f"{number}  {what}  ({took(step['latency_ms'])})"]
    if step["thought"]:
        lines.append(_labelled("thought ", step["thought"], most))
    if error is not None:
        lines.append(_labelled("error   ", f"{error['code']}: {error['message'] or ''}", most))
    elif step["observation_text"]:
        lines.append(_labelled("observed", _readable(step), most))
    return lines


def _readable(step: dict[str, Any]) -> str:
    """What the model was shown; a JSON value is laid out."""
    if isinstance(step["observation"], dict | list):
        return json.dumps(step["observation"], ensure_ascii=False, indent=1)
    return step["observation_text"]


def _labelled(label: str, text: str, most: int) -> str:
    body = indented(text, " " * (len(label) + 4), most)
    return f"  {label}  {body.lstrip()}"


def _end(answer: dict[str, Any], view: RunView) -> list[str]:
    lines: list[str] = []
    error = answer["error"]
    if error is not None:
        lines += [f"Failed        {error['code']}: {one_line(error['detail'])}"]
    others = [p["kind"] for p in answer["pending"] if p["kind"] not in ("approval", "settlement")]
    lines += [f"Waits for     {kind}" for kind in others]
    for wait in waits_for(answer["trace_id"], answer["pending"]):
        asked = asked_lines(wait, view.placed, view.text)
        lines += [f"Waits for     {wait.kind}: {wait.call}", *asked, f"{'':14}{wait.command}"]
    if answer["answer"] is not None:
        lines += ["Answer", _text(answer["answer"])]
    elif answer["status"] == "succeeded":
        lines.append("Answer        (erased)")
    source = source_text(answer["output"])
    if source is not None:
        lines += ["", f"Source        {source}, confidence {answer['output'].get('confidence')}"]
    lines += [f"Note          {clean(each['detail'])}" for each in answer["degraded"]]
    return lines or [f"Status        {answer['status']}"]


def _text(text: str | None) -> str:
    return "  (erased)" if text is None else indented(text, "  ")
