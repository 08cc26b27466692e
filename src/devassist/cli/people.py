"""``devassist trace approve`` and ``settle``: a person answers a run, also beside a running server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from time import monotonic
from typing import Any, cast

import click

from devassist.cli.context import LOCAL, App, Stop, find, with_services
from devassist.cli.machine import lock_holder
from devassist.cli.output import out_json
from devassist.cli.people_text import DIGITS, about, answer_text, place
from devassist.core.questions import Question, Questions
from devassist.core.states import CLOSED
from devassist.core.view import summary
from devassist.ports.journal import Head
from devassist.runtime.listing import status_of
from devassist.runtime.people import Decided, Decision, Given, Outcome
from devassist.runtime.services import Services
from devassist.runtime.view import RunView

_MOVES_S = 5.0
_CLOSED = frozenset(str(s) for s in CLOSED)
_MOST_NOTE = 4_000


def _value(_: click.Context, parameter: click.Parameter, text: str | None) -> Given | None:
    if text is None:
        return None
    try:
        return Given(json.loads(text, parse_constant=_no_number))
    except (ValueError, RecursionError):
        raise click.BadParameter(f"this is no JSON: {text[:80]}") from None


def _no_number(word: str) -> Any:
    raise ValueError(word)


def _note(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text is not None and len(text) > _MOST_NOTE:
        raise click.BadParameter(f"it has at most {_MOST_NOTE} characters")
    return text


@click.command()
@click.argument("trace_id")
@click.option("--digest", help="Which call, where several wait: its digest, or 8 or more of the first digits.")
@click.option("--approve", "decision", flag_value="approve", multiple=True, help="Let the call be made.")
@click.option("--reject", "decision", flag_value="reject", multiple=True, help="It is not made; the model is told so.")
@click.option("--args", "args", metavar="JSON", callback=_value, help="Arguments to make it with, instead of its own.")
@click.option("--note", metavar="TEXT", callback=_note, help="Why; it stands in the record.")
@click.option("--json", "as_json", is_flag=True, help="The answer object.")
@click.pass_context
def approve(
    ctx: click.Context, trace_id: str, digest: str | None, decision: tuple[str, ...], args: Given | None,
    note: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Approve or reject a call that waits for a person.

    Where one call waits, nothing need be said of which. A running server goes on with the run within a second.
    """
    said = cast("Decision", _one(decision, "--approve or --reject"))
    if args is not None and not isinstance(args.value, dict):
        raise click.BadParameter("it must be a JSON object", param_hint="--args")
    changed = None if args is None else cast("dict[str, Any]", args.value)

    async def work(services: Services) -> int:
        view, found = await _read(services, trace_id)
        asked = _approval(found, view, digest)
        decided = await services.people.approve(LOCAL, view.stream, asked.digest, said, note=note, args=changed)
        return await _report(services, ctx, decided, as_json=as_json)

    with_services(ctx, work)


@click.command()
@click.argument("trace_id")
@click.option("--step", type=click.IntRange(1), help="Which step of several in doubt, from 1 as trace show counts.")
@click.option("--call", type=click.IntRange(1), help="Which call of the step, from 1: 2 for the one shown as 3.2.")
@click.option("--happened", "outcome", flag_value="happened", multiple=True, help="It took effect.")
@click.option("--repeat", "outcome", flag_value="repeat", multiple=True, help="Make it again, under the same key.")
@click.option("--abandon", "outcome", flag_value="abandon", multiple=True, help="Give it up; a run that waits fails.")
@click.option("--result", metavar="JSON", callback=_value, help="With --happened: what the call returned.")
@click.option("--note", metavar="TEXT", callback=_note, help="Why; it stands in the record.")
@click.option("--json", "as_json", is_flag=True, help="The answer object.")
@click.pass_context
def settle(
    ctx: click.Context, trace_id: str, step: int | None, call: int | None, outcome: tuple[str, ...],
    result: Given | None, note: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Say what became of a call whose outcome is unknown.

    Where one call is in doubt, nothing need be said of which. Also after the run's end, if it is in doubt still.
    """
    became = cast("Outcome", _one(outcome, "--happened, --repeat or --abandon"))

    async def work(services: Services) -> int:
        view, found = await _read(services, trace_id)
        asked = _doubt(found, view, step, call)
        decided = await services.people.settle(
            LOCAL, view.stream, asked.step, became, result=result, note=note, call=asked.call, digest=asked.digest
        )
        return await _report(services, ctx, decided, as_json=as_json)

    with_services(ctx, work)


def _one(given: tuple[str, ...], allowed: str) -> str:
    """Two words at once are none: which was meant is not guessed."""
    if len(set(given)) != 1:
        raise click.UsageError(f"say {allowed}, one of them")
    return given[0]


async def _read(services: Services, trace_id: str) -> tuple[RunView, Questions]:
    view = await services.service.view(LOCAL, await find(services.heads, trace_id))
    return view, await services.people.questions(LOCAL, view)


def _approval(found: Questions, view: RunView, digest: str | None) -> Question:
    """The call that is meant: the one that waits, or the one that ever did."""
    asked = [q for q in found.all if q.kind == "approval"]
    if digest is not None:
        meant = [q for q in asked if q.digest.startswith(digest.lower()) and len(digest) >= 8]
        if len(meant) != 1:
            raise click.BadParameter(f"no one call has it{_those(asked, view)}", param_hint="--digest")
        return meant[0]
    waiting = [q for q in asked if q.open] or asked
    if not waiting:
        raise Stop("approval_not_found: this run never asked for an approval")
    if len(waiting) > 1:
        what = "several calls wait" if waiting[0].open else "no call waits now"
        raise click.UsageError(f"{what}; say which one is meant{_those(waiting, view)}")
    return waiting[0]


def _doubt(found: Questions, view: RunView, step: int | None, call: int | None) -> Question:
    """The newest question about the call that is meant: the one that waits, or is in doubt still, or ever was."""
    meant = {
        (q.step, q.call): q
        for q in found.all
        if q.kind == "settlement" and step in (None, q.step + 1) and call in (None, q.call + 1)
    }
    if not meant:
        raise Stop("doubt_not_found: no such call of this run was ever in doubt")
    asked = list(meant.values())
    candidates = [q for q in asked if q.open and not q.told] or [q for q in asked if q.open] or asked
    if len(candidates) > 1:
        raise click.UsageError(f"several calls could be meant; say which one{_those(candidates, view)}")
    return candidates[0]


def _those(questions: Sequence[Question], view: RunView) -> str:
    lines = [
        f"\n  {f'--digest {q.digest[:DIGITS]}' if q.kind == 'approval' else place(q.step, q.call).strip()}"
        f"  {about(q, view.text)}"
        for q in questions
    ]
    return ":" + "".join(lines) if lines else ""


async def _report(services: Services, ctx: click.Context, decided: Decided, *, as_json: bool) -> int:
    """What was decided on, and what the run does next."""
    question, view = decided.question, decided.view
    driven = lock_holder(ctx.ensure_object(App).settings().data_dir) is not None
    head = await _moved(services, view.stream, _MOVES_S if driven else 0)
    if as_json:
        view = await services.service.view(LOCAL, view.stream)
        out_json(summary(view.placed, view.text, trace_id=view.stream.hex(), admin=True, driven=view.driven))
        return 0
    found = await services.people.questions(LOCAL, view)
    texts = await services.people.texts(view, found)
    click.echo(answer_text(question, texts.get) + ("  (said before)" if decided.again else ""))
    waits = head.state not in _CLOSED and not driven
    status = "recorded; it goes on when a server drives this data directory" if waits else status_of(head)
    click.echo(f"{view.stream.hex()}  {status}")
    return 0


async def _moved(services: Services, stream: bytes, seconds: float) -> Head:
    """The run's head once it has ended or waits for a person again, at the latest after so many seconds."""
    end = monotonic() + seconds
    while True:
        head = await services.heads.head(LOCAL, stream)
        if head.state in _CLOSED or monotonic() >= end:
            return head
        if head.state == "AWAIT_APPROVAL":
            view = await services.service.view(LOCAL, stream)
            if (await services.people.questions(LOCAL, view)).waiting:
                return head
        await asyncio.sleep(0.1)
