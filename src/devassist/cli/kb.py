"""``devassist kb``: documents that answers rest on, also beside a running server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import IO, Any, Literal

import click

from devassist.cli import kb_options as options
from devassist.cli import kb_text as texts
from devassist.cli.context import LOCAL, with_services
from devassist.cli.kb_ingest import ingest
from devassist.cli.kb_runs import affected, rerun
from devassist.cli.output import note, out_json, table
from devassist.cli.times import moment
from devassist.core.errors import Unavailable
from devassist.ports.knowledge_store import DocumentRow
from devassist.ports.library import DOCS, Question
from devassist.runtime.knowledge_view import (
    answered_json,
    clause_now,
    clause_now_json,
    diff_json,
    document_json,
    index_json,
    quarantined_json,
    row_json,
)
from devassist.runtime.services import Services

_PAGE = 200
_DENSE_S = 20.0
"""How long a search waits for its own copy of the vector index; made vectors are only loaded, which takes less."""


@click.group()
def kb() -> None:
    """Knowledge: documents, their revisions, search, and which answers rested on what."""


for _verb in (ingest, affected, rerun):
    kb.add_command(_verb)


@kb.command("list")
@options.one_collection
@options.as_of
@click.option("--text", metavar="TEXT", help="Part of a title or id.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True)
@options.json_lines
@click.pass_context
def list_(
    ctx: click.Context, collection: str | None, as_of: str | None, text: str | None, limit: int, as_json: bool
) -> None:
    """List documents by id, with what holds on the day."""

    async def work(services: Services) -> int:
        rows, after = list[DocumentRow](), None
        while len(rows) < limit:
            page, after = await services.curator.documents(
                LOCAL, collection=collection, as_of=as_of, text=text, after=after, limit=min(_PAGE, limit - len(rows))
            )
            rows += page
            if after is None:
                break
        if as_json:
            for row in rows:
                out_json(row_json(row))
        elif rows:
            click.echo(texts.list_text(rows))
        else:
            note("no documents")
        if after is not None:
            note("there are more: raise --limit")
        return 0

    with_services(ctx, work)


@kb.command()
@click.argument("name", metavar="ID")
@options.as_of
@click.option("--known-at", callback=moment, metavar="TIME", help="What was believed then, not now.")
@click.option("--full", is_flag=True, help="Clauses with their whole texts.")
@options.json_value
@click.pass_context
def show(ctx: click.Context, name: str, as_of: str | None, known_at: int | None, full: bool, as_json: bool) -> None:
    """Show a document, a revision or a clause, by its id.

    Of a clause also what holds in its place today.
    """

    async def work(services: Services) -> int:
        curator = services.curator
        if "#" in name:
            clause = await clause_now(curator, LOCAL, name)
            out_json(clause_now_json(clause)) if as_json else click.echo(texts.clause_text(clause))
        elif "@" in name:
            if as_json:
                out_json(await curator.asset(LOCAL, name))
            else:
                click.echo(texts.revision_text(await curator.revision(LOCAL, name), full=full))
        else:
            found = await curator.document(LOCAL, name, as_of=as_of, known_at=known_at)
            out_json(document_json(found)) if as_json else click.echo(texts.document_text(found, full=full))
        return 0

    with_services(ctx, work)


@kb.command()
@click.argument("before", metavar="REVISION")
@click.argument("after", metavar="REVISION")
@click.option("--all", "every", is_flag=True, help="List clauses too that were kept.")
@options.json_lines
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, every: bool, as_json: bool) -> None:
    """Compare two revisions, clause by clause."""

    async def work(services: Services) -> int:
        lines = await services.curator.diff(LOCAL, before, after)
        if as_json:
            for line in diff_json(lines):
                out_json(line)
        else:
            click.echo(texts.diff_text(lines, every=every))
        return 0

    with_services(ctx, work)


@kb.command()
@click.argument("query")
@click.option("--collection", "collections", multiple=True, metavar="NAME", help="May be repeated.  [default: docs]")
@options.as_of
@click.option("--known-at", callback=moment, metavar="TIME", help="Search what was believed then, not now.")
@click.option("--top-k", type=click.IntRange(1, 50), default=5, show_default=True, help="How many clauses.")
@click.option("--mode", type=click.Choice(["hybrid", "lexical", "dense"]), default="hybrid", show_default=True)
@options.json_value
@click.pass_context
def search(
    ctx: click.Context, query: str, collections: tuple[str, ...], as_of: str | None, known_at: int | None, top_k: int,
    mode: Literal["hybrid", "lexical", "dense"], as_json: bool,
) -> None:  # fmt: skip
    """Search clauses, and see which arm found what.

    It reads the table itself, and loads vectors that were made; --mode lexical spares that.
    """
    asked = Question(query, tuple(collections) or (DOCS,), top_k, as_of, known_at, mode)

    async def work(services: Services) -> int:
        if mode != "lexical" and known_at is None:
            await _load_vectors(services)
        found = await services.library.search(LOCAL, asked)
        out_json(answered_json(found, admin=True)) if as_json else click.echo(texts.search_text(found))
        return 0

    with_services(ctx, work)


async def _load_vectors(services: Services) -> None:
    try:
        async with asyncio.timeout(_DENSE_S):
            await services.curator.catch_up(LOCAL)
    except TimeoutError:
        note("not all vectors are made yet, so the vector arm is left out; a server or kb reindex makes them")
    except Unavailable as error:
        note(f"the vector arm is left out: {error.detail}")


@kb.command()
@click.argument("doc_id")
@click.argument("day", callback=options.day)
@click.pass_context
def repeal(ctx: click.Context, doc_id: str, day: str) -> None:
    """No revision of DOC_ID holds from DAY on."""

    async def work(services: Services) -> int:
        await services.curator.repeal(LOCAL, doc_id, day)
        click.echo(f"{doc_id} holds until {day} and no longer")
        return 0

    with_services(ctx, work)


@kb.command()
@click.argument("doc_id")
@click.pass_context
def delete(ctx: click.Context, doc_id: str) -> None:
    """Take DOC_ID out of every search, for every day.

    What runs recorded of it stays with them. A law that does not hold any more is repealed, not deleted.
    """

    async def work(services: Services) -> int:
        await services.curator.delete(LOCAL, doc_id)
        click.echo(f"{doc_id} is deleted: no search finds it any more")
        return 0

    with_services(ctx, work)


@kb.command()
@options.json_value
@click.pass_context
def reindex(ctx: click.Context, as_json: bool) -> None:
    """Build a new version of the vector index, check it, then use it."""

    async def work(services: Services) -> int:
        state = await services.curator.reindex(LOCAL)
        out_json(index_json(state, admin=True)) if as_json else click.echo(texts.index_text(state))
        return 0

    with_services(ctx, work)


@kb.command()
@options.json_lines
@click.pass_context
def collections(ctx: click.Context, as_json: bool) -> None:
    """List collections, with how much they hold."""

    async def work(services: Services) -> int:
        rows = await services.curator.collections(LOCAL)
        if as_json:
            for name, documents, clauses in rows:
                out_json({"name": name, "documents": documents, "clauses": clauses})
        elif rows:
            shown = [(name, str(documents), str(clauses)) for name, documents, clauses in rows]
            click.echo(table(("COLLECTION", "DOCUMENTS", "CLAUSES"), shown))
        else:
            note("no documents")
        return 0

    with_services(ctx, work)


@kb.command()
@options.json_lines
@click.pass_context
def quarantine(ctx: click.Context, as_json: bool) -> None:
    """List files that became no document, each with its reason."""

    async def work(services: Services) -> int:
        files = await services.curator.quarantined(LOCAL)
        if as_json:
            for file in files:
                out_json(quarantined_json(file))
        elif files:
            click.echo(texts.quarantine_text(files))
        else:
            note("nothing is in quarantine")
        return 0

    with_services(ctx, work)


@kb.command()
@options.one_collection
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="[default: stdout]")
@click.pass_context
def export(ctx: click.Context, collection: str | None, output: Path | None) -> None:
    """Print every believed revision as a knowledge asset, one JSON object a line.

    Saved one object a file, they can be taken in again with kb ingest.
    """

    async def work(services: Services) -> int:
        number = 0
        with click.open_file("-" if output is None else str(output), "w", encoding="utf-8") as file:
            async for asset in services.curator.export(LOCAL, collection):
                _write(file, asset)
                number += 1
        note(f"{number} revisions")
        return 0

    with_services(ctx, work)


def _write(file: IO[Any], asset: Any) -> None:
    file.write(json.dumps(asset, ensure_ascii=False, separators=(",", ":")) + "\n")
