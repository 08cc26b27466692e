"""``devassist log``: the decision log, by any of its columns."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from devassist.cli.context import LOCAL, App, find
from devassist.cli.output import note, one_line, out_json, table
from devassist.cli.times import moment
from devassist.core.states import State
from devassist.ports.decision_log import LogPage, LogQuery

_PAGE = 500
_STATES = [str(state) for state in State]
_HEAD = ("TIME", "TRACE", "KIND", "STEP", "STATE", "USER", "AGENT", "TOOL", "CODE", "MS", "TEXT")


@click.group()
def log() -> None:
    """The decision log: one row for each event of a run."""


@log.command()
@click.option("--trace", "--trace-id", "trace_id", metavar="TRACE_ID", help="Only this run; 8 or more digits may do.")
@click.option("--kind", help="Kind of event, such as model_replied or tool_returned.")
@click.option("--state", type=click.Choice(_STATES, case_sensitive=False), help="State of the run after the event.")
@click.option("--error", "--error-code", "error_code", metavar="CODE", help="Error code, such as tool_timeout.")
@click.option(
    "--degraded", is_flag=False, flag_value="1", metavar="[CODE]", help="Answers marked so, or marked at all."
)
@click.option("--tool", "--tool-name", "tool_name", metavar="NAME", help="Name of the tool.")
@click.option("--user", "--user-id", "user_id", metavar="NAME", help="Who asked.")
@click.option("--conversation", "--conversation-id", "conversation_id", metavar="ID")
@click.option("--agent", metavar="NAME")
@click.option("--step", type=click.IntRange(min=0), help="Step of the run, from 0.")
@click.option("--since", callback=moment, metavar="TIME", help="At or after: ISO 8601, or 15m, 2h, 7d ago.")
@click.option("--until", callback=moment, metavar="TIME", help="Before.")
@click.option("--text", help="Words of inputs, outputs and messages, in any language.")
@click.option("--after", metavar="CURSOR", help="Go on after an earlier page.")
@click.option("--oldest-first", is_flag=True)
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with every column.")
@click.pass_context
def query(
    ctx: click.Context, *, trace_id: str | None, state: str | None, limit: int, as_json: bool, **filters: Any
) -> None:
    """Rows that fit all filters given, newest first."""
    app = ctx.ensure_object(App)

    async def main() -> None:
        async with app.beside() as services:
            stream = None if trace_id is None else (await find(services.heads, trace_id)).hex()
            wanted, left, rows = LogQuery(trace_id=stream, state=state, **filters), limit, list[dict[str, Any]]()
            while True:
                page = await services.log.query(LOCAL, replace(wanted, limit=min(left, _PAGE)))
                left -= len(page.rows)
                rows += page.rows
                if as_json:
                    for row in page.rows:
                        out_json(row)
                    rows.clear()
                if page.next is None or left <= 0:
                    break
                wanted = replace(wanted, after=page.next)
        if not as_json:
            _print(rows)
        _say_more(page)

    asyncio.run(main())


def _print(rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo(table(_HEAD, map(_cells, rows)))
    else:
        note("no rows")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    when = datetime.fromisoformat(row["timestamp"]).astimezone().strftime("%m-%d %H:%M:%S")
    text = row["error_message"] or row["output_text"] or row["input_text"] or _fact(row) or ""
    step = "" if row["step"] is None else str(row["step"])
    plain = [row[name] or "" for name in ("user_id", "agent", "tool_name")]
    plain.append(row["error_code"] or row["degraded"] or "")
    trace = (row["trace_id"] or "")[:8] + "…" + (row["trace_id"] or "")[-6:] if row["trace_id"] else ""
    return (when, trace, row["kind"], step, row["state"] or "", *plain, str(row["duration_ms"] or ""), one_line(text))


def _fact(row: dict[str, Any]) -> str | None:
    """What a fact of no run says: its name and values; the metadata has the rest."""
    if row["kind"] != "fact":
        return None
    said = json.loads(row["metadata"])
    return " ".join([said["name"], *(f"{name}={value}" for name, value in said.get("data", ()))])


def _say_more(page: LogPage) -> None:
    if page.next is not None:
        note(f"more: --after {page.next}")
    if page.lag:
        note(f"the log has not seen the newest {page.lag} rows of the journal yet")


@log.command()
@click.pass_context
def rebuild(ctx: click.Context) -> None:
    """Derive the log again from the journal's beginning."""
    app = ctx.ensure_object(App)

    async def main() -> int:
        async with app.beside() as services:
            return await services.log.rebuild()

    click.echo(f"{asyncio.run(main())} rows")
