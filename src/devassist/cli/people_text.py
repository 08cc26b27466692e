"""What waits for a person, with the command that answers it, and what people have said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from devassist.cli.output import args_text, cut, local_time, one_line
from devassist.core.events import ModelReplied, ToolIntended, ToolReturned
from devassist.core.questions import Question, Questions
from devassist.core.signals import ApprovalGiven, CancelRequested, RunRestored, SettlementGiven
from devassist.core.wire import Text, parse
from devassist.runtime.view import Placed

DIGITS = 12
"""Digits of a digest that are shown."""
_ARGS_COLUMNS = 200
RESTORED = "restored"
"""Stands where the name of who said something does."""
_SETTLED = {"happened": "settled as having happened", "repeat": "settled by repeating it", "abandon": "given up"}


class Wait(NamedTuple):
    """A call that waits for a person, and the command that answers; ``pending`` is what the answer object has of it."""

    kind: str
    call: str
    command: str
    pending: Mapping[str, Any]


def waits_for(trace_id: str, pending: Sequence[Mapping[str, Any]]) -> list[Wait]:
    """Each of ``pending`` that a person has to answer."""
    asked = [p for p in pending if p["kind"] in ("approval", "settlement")]
    waits: list[Wait] = []
    for p in asked:
        alone = sum(other["kind"] == p["kind"] for other in asked) == 1
        call = one_line(f"{p['tool_name']} {args_text(p['tool_args'])}")
        if p["kind"] == "approval":
            which = "" if alone else f" --digest {p['digest'][:DIGITS]}"
            command = f"devassist trace approve {trace_id}{which} --approve   (or --reject; --args '{{…}}')"
        else:
            which = "" if alone else place(p["step_index"], p["call_index"])
            how = "--happened --result '…'   (or --repeat, --abandon)"
            command = f"devassist trace settle {trace_id}{which} {how}"
        waits.append(Wait(p["kind"], call, command, p))
    return waits


def asked_lines(wait: Wait, placed: Iterable[Placed], text: Text) -> list[str]:
    """What whoever answers would ask first: since when, why, and what the model was about to do."""
    step, call = wait.pending["step_index"] + 1, wait.pending["call_index"]
    where = f"step {step}" + (f".{call + 1}" if call else "")
    lines = [f"  asked       {local_time(wait.pending['since_ms'] * 1000)}, in {where}"]
    thought, why = _thought_and_reason(call, placed, text)
    lines += [f"  because     {cut(one_line(why), _ARGS_COLUMNS)}"] if why else []
    return lines + ([f"  thought     {cut(one_line(thought), _ARGS_COLUMNS)}"] if thought else [])


def _thought_and_reason(call: int, placed: Iterable[Placed], text: Text) -> tuple[str | None, str | None]:
    """Of a call of the newest decision: what the model thought, and what the call's last attempt said."""
    thought = why = None
    attempts: dict[int, int] = {}
    for event, seq, _ in placed:
        match event:
            case ModelReplied():
                thought, why = text(event.thought) if event.thought else None, None
                attempts.clear()
            case ToolIntended():
                attempts[seq] = event.call
            case ToolReturned() if attempts.get(event.of) == call:
                why = (text(event.shown) if event.shown else None) or event.code
            case RunRestored():
                why = "the journal was put back to an earlier state, so the call may have been made already"
            case _:
                pass
    return thought, why


def doubt_lines(trace_id: str, found: Questions, step: int, call: int) -> list[str]:
    """What is to be said of a call that the run went on from in doubt, or ended with: with the command that settles it,
    where nobody has."""
    mine = [q for q in found.all if q.kind == "settlement" and (q.step, q.call) == (step, call)]
    if any(isinstance(q.answer, SettlementGiven) and q.answer.outcome == "happened" for q in mine):
        return ["  in doubt then: it was settled since as having happened"]
    lines = ["  in doubt: whether this call took effect is not known"]
    if any(q.open and q.told for q in mine):
        which = "" if len(found.waiting) + len(found.doubts) == 1 else place(step, call)
        lines.append(f"    devassist trace settle {trace_id}{which} --happened --result '…'   (or --abandon)")
    return lines


def place(step: int, call: int) -> str:
    """Options that name a call, numbered as ``trace show`` numbers it."""
    return f" --step {step + 1} --call {call + 1}"


def about(q: Question, text: Text) -> str:
    """The call that a question is about."""
    return call_text(q.tool, q.args, text)


def call_text(tool: str, args: str, text: Text) -> str:
    known = text(args)
    return cut(one_line(f"{tool} {'(erased)' if known is None else args_text(parse(known))}"), _ARGS_COLUMNS)


def answer_text(q: Question, text: Text) -> str:
    """What was said to a question."""
    said = q.answer
    match said:
        case ApprovalGiven(decision="reject"):
            told = f"rejected {about(q, text)}"
        case ApprovalGiven(args=args) if args is not None:
            instead = cut(one_line(args_text(parse(text(q.args)))), _ARGS_COLUMNS)
            told = f"approved {call_text(q.tool, args, text)} instead of {instead}"
            told += f"; digest {q.digest[:DIGITS]}, now {(said.new_digest or '')[:DIGITS]}"
        case ApprovalGiven():
            told = f"approved {about(q, text)}"
        case SettlementGiven(outcome=outcome, result=result):
            shown = "" if result is None else f", result {cut(one_line(text(result) or '(erased)'), _ARGS_COLUMNS)}"
            told = f"{about(q, text)}: {_SETTLED[outcome]}{shown}"
        case None:
            return f"nothing was said of {about(q, text)}"
    note = None if said.note is None else text(said.note) or "(erased)"
    return told if note is None else f"{told}: {one_line(note)}"


def people_lines(placed: Iterable[Placed], found: Questions, names: Mapping[str, str], text: Text) -> list[str]:
    """Who said what to a run, in order, and when it was restored; empty where nothing was."""
    said: list[tuple[int, str, str]] = []
    for event, _, at in placed:
        if isinstance(event, CancelRequested):
            said.append((at, event.actor, "asked to cancel"))
        elif isinstance(event, RunRestored):
            lost = f"{local_time(event.window_from)} to {local_time(event.window_to)}"
            said.append((at, RESTORED, f"the journal was put back: from {lost} calls may have been made that it lacks"))
    said += [(q.answered, q.answer.actor, answer_text(q, text)) for q in found.all if q.answer is not None]
    known = {**names, RESTORED: RESTORED}
    return [f"  {local_time(at)}  {known.get(actor, '(erased)')}  {what}" for at, actor, what in sorted(said)]
