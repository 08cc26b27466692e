"""``devassist kb affected`` and ``rerun``: which answers rested on a document, and what a run would find today."""

from __future__ import annotations

import json
from typing import Any

import click

from devassist.cli import kb_options as options
from devassist.cli.context import LOCAL, Stop, find, with_services
from devassist.cli.kb_text import affected_text, rerun_text
from devassist.cli.output import note, out_json, plural
from devassist.core.events import ToolReturned
from devassist.core.signals import LateOutcome
from devassist.ports.decision_log import Reliance
from devassist.ports.rerun import Rerun
from devassist.runtime.knowledge_view import reliance_json, rerun_json
from devassist.runtime.services import Services

_PAGE = 200


@click.command()
@click.option("--doc", "doc_id", metavar="ID", help="Any revision of this document.")
@click.option("--rev", "rev_id", metavar="ID", help="This revision.")
@click.option("--cited", is_flag=True, help="Only answers that cite it, not those that only retrieved it.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=200, show_default=True, help="How many runs.")
@options.json_lines
@click.pass_context
def affected(
    ctx: click.Context, doc_id: str | None, rev_id: str | None, cited: bool, limit: int, as_json: bool
) -> None:
    """List the runs that relied on a document or revision, newest first, with the clauses that they used."""
    if (doc_id is None) == (rev_id is None):
        raise click.UsageError("say --doc ID or --rev ID, one of them")

    async def work(services: Services) -> int:
        rows, left, after, lag = list[Reliance](), limit, None, 0
        while left > 0:
            page = await services.log.relied(LOCAL, doc_id=doc_id, rev_id=rev_id, after=after, limit=min(left, _PAGE))
            rows += [row for row in page.rows if row.used == "cited" or not cited]
            left -= min(left, _PAGE)
            after, lag = page.next, page.lag
            if after is None:
                break
        if as_json:
            for row in rows:
                out_json(reliance_json(row))
        elif rows:
            click.echo(affected_text(rows))
        runs = plural(len({row.trace_id for row in rows}), "run")
        note(f"{runs} relied on it" + ("; there are more: raise --limit" if after is not None else ""))
        if lag:
            note(f"the log has not seen the newest {lag} rows of the journal yet")
        return 0

    with_services(ctx, work)


@click.command()
@click.option("--trace", "trace_id", required=True, metavar="TRACE_ID", help="Whose searches; 8 or more digits may do.")
@options.json_lines
@click.pass_context
def rerun(ctx: click.Context, trace_id: str, as_json: bool) -> None:
    """Search again for what a run searched for, and show then beside now.

    Who could see what can be repeated exactly, and it is said whether it comes out equal; the order of hits cannot,
    since statistics and indexes move on. Exit code 1 when eligibility as of then does not come out equal.
    """

    async def work(services: Services) -> int:
        records = await _records(services, trace_id)
        if not records:
            raise Stop("no_search: this run recorded no search")
        done: list[Rerun] = []
        for number, record in enumerate(records, 1):
            again = await services.reruns.again(LOCAL, record)
            done.append(again)
            out_json(rerun_json(again)) if as_json else click.echo(rerun_text(number, again))
        return 0 if all(again.equal for again in done) else 1

    with_services(ctx, work)


async def _records(services: Services, trace_id: str) -> list[dict[str, Any]]:
    """The run's records of searches, in order. Raises Stop where one was erased."""
    view = await services.service.view(LOCAL, await find(services.heads, trace_id))
    found: list[dict[str, Any]] = []
    for event in view.events:
        ref = event.retrieval if isinstance(event, ToolReturned | LateOutcome) else None
        if ref is None:
            continue
        text = view.text(ref)
        if text is None:
            raise Stop("payload_erased: what this run searched for was erased")
        found.append(json.loads(text))
    return found
