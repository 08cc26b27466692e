"""``devassist kb ingest``: files become documents, one durable step each, interruptible and taken up again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from devassist.cli import kb_options as options
from devassist.cli.context import FAILED, INTERRUPTED, LOCAL, App
from devassist.cli.kb_text import ingested_text
from devassist.cli.machine import lock_holder
from devassist.cli.output import note, out_json, plural
from devassist.cli.progress import Progress
from devassist.core.errors import Unavailable
from devassist.ports.curation import Given, Incoming, Ingestion
from devassist.runtime.knowledge_view import ingestion_json
from devassist.runtime.services import Services

_KINDS = ("law", "regulation", "judicial_interpretation", "policy", "faq", "devdoc", "other")
_OUTCOMES = ("added", "amended", "corrected", "unchanged", "quarantined")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True, path_type=Path))
@options.into_collection
@click.option("--effective", callback=options.day, metavar="DAY", help="Day of entry into force, if the file has none.")
@click.option("--valid-to", callback=options.day, metavar="DAY", help="First day on which it does not hold any more.")
@click.option("--title", metavar="TEXT", help="Title of the one document.  [default: the file's own]")
@click.option("--kind", type=click.Choice(_KINDS), help="What it is.  [default: the file's own]")
@click.option("--issuer", metavar="TEXT", help="Who issued it.  [default: the file's own]")
@options.some_labels
@options.optional_doc_id
@click.option("--no-index", is_flag=True, help="Make no vectors now; a server, or kb reindex, does it later.")
@options.json_lines
@click.pass_context
def ingest(
    ctx: click.Context, paths: tuple[Path, ...], collection: str, effective: str | None, valid_to: str | None,
    title: str | None, kind: str | None, issuer: str | None, labels: tuple[str, ...], doc_id: str | None,
    no_index: bool, as_json: bool,
) -> None:  # fmt: skip
    """Take in files, and all files below directories.

    A file keeps its name, the path below the directory given, from one time to the next; one that did not change does
    nothing. Ctrl-C ends after the file in hand, and the same command goes on. Exit code 1 when a file could not be
    read: it is in quarantine then, with the reason.
    """
    files = list(found_below(paths))
    if not files:
        raise click.UsageError("there is no file at these paths; hidden ones are passed over")
    if len(files) > 1 and (doc_id is not None or title is not None):
        raise click.UsageError(f"--doc-id and --title are for one file, and these are {len(files)}")
    given = Given(collection, doc_id, title, kind, effective, valid_to, issuer, labels=tuple(sorted(set(labels))))
    app = ctx.ensure_object(App)

    async def main() -> int:
        async with app.beside(make=True) as services:
            done = await _ingest(services, files, given, as_json=as_json)
            if not as_json:
                click.echo(ingested_text(done))
            if len(done) < len(files):
                note(f"interrupted after {len(done)} of {len(files)} files; the same command goes on from here")
                return INTERRUPTED
            if not no_index:
                await _embed(services, lock_holder(app.settings().data_dir))
        return FAILED if any(one.outcome == "quarantined" for one in done) else 0

    ctx.exit(asyncio.run(main()))


def found_below(paths: tuple[Path, ...]) -> Iterator[Incoming]:
    """Files by name, each once. Raises UsageError where two would have one name."""
    found: dict[str, Path] = {}
    for path in paths:
        for name, file in _files(path):
            if name in found and found[name].resolve() != file.resolve():
                raise click.UsageError(
                    f"{found[name]} and {file} would both be known as {name}; give them one at a time"
                )
            found[name] = file
    for name in sorted(found):
        yield Incoming(name, path=found[name])


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield path.name, path
        return
    for parent, directories, names in os.walk(path):
        directories[:] = [name for name in directories if not name.startswith(".")]
        for name in names:
            file = Path(parent) / name
            if not name.startswith(".") and file.is_file():
                yield file.relative_to(path).as_posix(), file


async def _ingest(services: Services, files: list[Incoming], given: Given, *, as_json: bool) -> list[Ingestion]:
    """What became of the files; fewer than there are when it was interrupted."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        note("\nends after the file in hand (once more: at once)")

    def offered() -> Iterator[Incoming]:
        for file in files:
            if stop.is_set():
                return
            yield file

    progress, counted, done = Progress("files", len(files)), Counter[str](), list[Ingestion]()
    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        async for one in services.curator.ingest(LOCAL, offered(), given):
            done.append(one)
            counted[one.outcome] += 1
            if as_json:
                out_json(ingestion_json(one))
            told = ", ".join(f"{outcome} {counted[outcome]}" for outcome in _OUTCOMES if counted[outcome])
            progress.at(len(done), f"  {told}")
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        progress.end()
    note(f"{progress.counts()}")
    return done


async def _embed(services: Services, server: str | None) -> None:
    """Bring the vector index to the table's end, so that a server which starts later finds the vectors made."""
    state = await services.curator.index(LOCAL)
    if state.embedder is None:
        return
    if server is not None:
        note(f"process {server} serves here and makes the vectors meanwhile")
        return
    progress = Progress("texts embedded", 0)
    before = 0

    def heard(done: int, todo: int) -> None:
        nonlocal before
        if done == 1 or progress.total < before + todo:
            progress.total = before + todo
        progress.at(before + done)
        if done == todo:
            before += todo

    try:
        with suppress(asyncio.CancelledError):
            state = await services.curator.catch_up(LOCAL, heard)
            progress.end()
            note(
                f"vectors: {plural(state.clauses, 'clause')} in the index"
                + (f", {progress.counts()}" if before else "")
            )
            return
        progress.end()
        note("interrupted: the vectors made so far are kept, and a server or kb reindex makes the others")
        raise KeyboardInterrupt
    except Unavailable as error:
        progress.end()
        note(f"no vectors now: {error.detail}; search goes without them until a server or kb reindex makes them")
