"""``devassist trace``: runs as the journal has them, also beside a running server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from time import monotonic
from typing import Any

import click

from devassist.cli.context import FAILED, LOCAL, App, find, with_services
from devassist.cli.machine import lock_holder
from devassist.cli.output import clean, local_time, note, one_line, out_json, short_time, table
from devassist.cli.people_text import people_lines
from devassist.cli.times import moment
from devassist.cli.trace_text import Said, show_text
from devassist.core.graph import mermaid
from devassist.core.ids import first_at
from devassist.core.signals import SIGNALS
from devassist.core.states import CLOSED
from devassist.core.view import summary
from devassist.ports.audit import ReplayReport, Report
from devassist.ports.journal import HeadQuery
from devassist.runtime.listing import STATES_OF, event_row, listed_row, run_row, status_of
from devassist.runtime.people import names_of
from devassist.runtime.services import Services
from devassist.runtime.view import RunView

_CLOSED = frozenset(str(s) for s in CLOSED)
_PAGE = 200
_CANCEL_S = 5.0


@click.group()
def trace() -> None:
    """Look at runs, check their evidence, answer or cancel one.

    TRACE_ID may be shortened to its first 8 or more digits where those are enough.
    """


@trace.command("list")
@click.option("--status", type=click.Choice(list(STATES_OF)), help="Only runs of this status.")
@click.option("--user", help="Only runs of this user.")
@click.option("--conversation", help="Only runs of this conversation.")
@click.option("--since", callback=moment, metavar="TIME", help="Begun at or after: ISO 8601, or 15m, 2h, 7d ago.")
@click.option("--until", callback=moment, metavar="TIME", help="Begun before.")
@click.option("--before", metavar="TRACE_ID", help="Go on after this run of an earlier list.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def list_(
    ctx: click.Context, status: str | None, user: str | None, conversation: str | None, since: int | None,
    until: int | None, before: str | None, limit: int, as_json: bool,
) -> None:  # fmt: skip
    """List runs, newest first."""

    async def work(services: Services) -> int:
        actor = None if user is None else await services.vault.find(LOCAL, "user", user) or bytes(16)
        bounds = [await find(services.heads, before)] if before else []
        bounds += [first_at(until)] if until is not None else []
        query = HeadQuery(
            states=STATES_OF[status] if status else (), actor=actor, conversation=conversation,
            before=min(bounds, default=None), since=None if since is None else first_at(since), limit=limit + 1,
        )  # fmt: skip
        heads = await services.heads.list(LOCAL, query)
        shown = [head for head in heads[:limit] if status in (None, status_of(head))]
        rows = [await listed_row(services, LOCAL, head) for head in shown]
        if as_json:
            for row in rows:
                out_json(row)
        else:
            _print_list(rows)
        if len(heads) > limit:
            note(f"more: --before {heads[limit - 1].stream.hex()}")
        return 0

    with_services(ctx, work)


def _print_list(rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo(table(("TIME", "TRACE_ID", "STATUS", "AGENT", "USER", "MESSAGE"), map(_cells, rows)))
    else:
        note("no runs")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    message = row["unreadable"] or ("(erased)" if row["erased"] else row["message"])
    when = short_time(row["started_at_ms"] * 1000)
    return (when, row["trace_id"], row["status"], row["agent"] or "", row["user"] or "", message)


@trace.command()
@click.argument("trace_id")
@click.option("--full", is_flag=True, help="Long observations in full.")
@click.option("--events", is_flag=True, help="The raw events as they are stored.")
@click.option("--json", "as_json", is_flag=True, help="The answer object; with --events one event a line.")
@click.pass_context
def show(ctx: click.Context, trace_id: str, full: bool, events: bool, as_json: bool) -> None:
    """Show a run: its steps, status, answer and usage."""

    async def work(services: Services) -> int:
        stream = await find(services.heads, trace_id)
        if events:
            await _print_events(services, stream, as_json=as_json)
            return 0
        view = await services.service.view(LOCAL, stream)
        answer = summary(view.placed, view.text, trace_id=stream.hex(), admin=True, driven=view.driven)
        if as_json:
            out_json(answer)
        else:
            head = await services.heads.head(LOCAL, stream)
            row = await run_row(services, LOCAL, head)
            click.echo(show_text(answer, row, view, await _people(services, view), full=full))
        return 0

    with_services(ctx, work)


async def _people(services: Services, view: RunView) -> Said:
    found = await services.people.questions(LOCAL, view)
    actors = {actor for event, _, _ in view.placed if (actor := getattr(event, "actor", None)) is not None}
    names = await names_of(services.vault, actors | {q.answer.actor for q in found.all if q.answer is not None})
    texts = await services.people.texts(view, found)
    return Said(found, people_lines(view.placed, found, names, texts.get))


async def _print_events(services: Services, stream: bytes, *, as_json: bool) -> None:
    records = await services.journal.read(LOCAL, stream)
    bodies = [json.loads(record.body) for record in records if record.kind in SIGNALS]
    names = await names_of(services.vault, {body["actor"] for body in bodies if "actor" in body})
    for record in records:
        row = event_row(record, names)
        if as_json:
            out_json(row)
            continue
        who = f"  by {row['actor_name'] or '(erased)'}" if "actor_name" in row else ""
        click.echo(f"{row['seq']:>4}  {local_time(row['at_us'])}  {row['kind']}  {row['hash'][:16]}{who}")
        body = {key: value for key, value in row["body"].items() if key not in ("k", "v")}
        click.echo(f"      {clean(json.dumps(body, ensure_ascii=False))}")


@trace.command()
@click.argument("trace_id")
@click.option("--full", is_flag=True, help="All of a large graph, instead of a collapsed one.")
@click.pass_context
def graph(ctx: click.Context, trace_id: str, full: bool) -> None:
    """Print a run's execution graph as Mermaid text."""

    async def work(services: Services) -> int:
        view = await services.service.view(LOCAL, await find(services.heads, trace_id))
        click.echo(mermaid((event for event, _, _ in view.placed), view.text, full=full), nl=False)
        return 0

    with_services(ctx, work)


@trace.command()
@click.argument("trace_id", required=False)
@click.option("--all", "every", is_flag=True, help="Every run of the journal.")
@click.option("--json", "as_json", is_flag=True, help="The report; with --all one a line.")
@click.pass_context
def verify(ctx: click.Context, trace_id: str | None, every: bool, as_json: bool) -> None:
    """Check that what is stored of a run is what was appended.

    Exit code 1 when it is not.
    """
    if (trace_id is None) is not every:
        raise click.UsageError("give a TRACE_ID, or --all")

    async def work(services: Services) -> int:
        if trace_id is not None:
            report = await services.auditor.verify(LOCAL, await find(services.heads, trace_id))
            out_json(asdict(report)) if as_json else click.echo(_report_text(report))
            return 0 if report.ok else FAILED
        return await _verify_all(services, as_json=as_json)

    with_services(ctx, work)


async def _verify_all(services: Services, *, as_json: bool) -> int:
    runs = events = payloads = erased = faulty = 0
    before: bytes | None = None
    while heads := await services.heads.list(LOCAL, HeadQuery(before=before, limit=_PAGE)):
        for head in heads:
            report = await services.auditor.verify(LOCAL, head.stream)
            runs, events, payloads = runs + 1, events + report.events, payloads + report.payloads
            erased, faulty = erased + report.erased, faulty + (not report.ok)
            if as_json:
                out_json(asdict(report))
            elif not report.ok:
                click.echo(_report_text(report))
        before = heads[-1].stream
    said = f"{runs} runs, {events} events, {payloads} payloads ({erased} erased): {faulty or 'no'} runs with faults"
    note(said) if as_json else click.echo(said)
    return FAILED if faulty else 0


def _report_text(report: Report) -> str:
    verdict = "ok" if report.ok else f"{len(report.faults)} FAULTS"
    lines = [f"{report.trace_id}  {verdict}"]
    lines += [f"  checked  {check}" for check in report.checks]
    lines += [f"  FAULT    {one_line(fault.row)}: {one_line(fault.problem)}" for fault in report.faults]
    return "\n".join(lines)


@trace.command()
@click.argument("trace_id")
@click.option("--json", "as_json", is_flag=True, help="The report.")
@click.pass_context
def replay(ctx: click.Context, trace_id: str, as_json: bool) -> None:
    """Derive every decision of a run again from its recorded replies.

    Exit code 1 when one comes out differently.
    """

    async def work(services: Services) -> int:
        report = await services.auditor.replay(LOCAL, await find(services.heads, trace_id))
        out_json(asdict(report)) if as_json else click.echo(_replay_text(report))
        return 0 if report.ok else FAILED

    with_services(ctx, work)


def _replay_text(report: ReplayReport) -> str:
    verdict = "same" if report.ok else f"{len(report.differences)} DIFFERENCES"
    skipped = f", {report.skipped} skipped for erased texts" if report.skipped else ""
    lines = [f"{report.trace_id}  {verdict}: {report.decisions} decisions derived again{skipped}"]
    for each in report.differences:
        lines += [f"  seq {each.seq}, {each.field}", f"    recorded  {one_line(each.recorded)}"]
        lines.append(f"    derived   {one_line(each.derived)}")
    return "\n".join(lines)


@trace.command()
@click.argument("trace_id")
@click.option("--json", "as_json", is_flag=True, help="The answer object.")
@click.pass_context
def cancel(ctx: click.Context, trace_id: str, as_json: bool) -> None:
    """Ask that a run end; a running server notices within a second."""

    async def work(services: Services) -> int:
        stream = await find(services.heads, trace_id)
        ended = (await services.heads.head(LOCAL, stream)).state in _CLOSED
        if not ended:
            ended = not await services.service.cancel(LOCAL, stream)
        driven = lock_holder(ctx.ensure_object(App).settings().data_dir) is not None
        end = monotonic() + (_CANCEL_S if driven else 0)
        while True:
            head = await services.heads.head(LOCAL, stream)
            if head.state in _CLOSED or monotonic() > end:
                break
            await asyncio.sleep(0.1)
        row = await run_row(services, LOCAL, head)
        if as_json:
            view = await services.service.view(LOCAL, stream)
            out_json(summary(view.placed, view.text, trace_id=stream.hex(), admin=True, driven=view.driven))
        elif ended:
            click.echo(f"{row['trace_id']}  had ended already: {row['status']}")
        elif head.state in _CLOSED:
            click.echo(f"{row['trace_id']}  {row['status']}")
        else:
            click.echo(f"{row['trace_id']}  asked; it ends when a server drives this data directory")
        return 0

    with_services(ctx, work)
