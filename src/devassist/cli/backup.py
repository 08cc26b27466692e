"""``devassist backup`` and ``devassist restore``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from devassist.cli.context import LOCAL, App
from devassist.cli.output import note, one_line, out_json, plural
from devassist.core.lineage import Rewind
from devassist.core.states import STATUS, State
from devassist.ports.backup import Manifest
from devassist.runtime.clock import SystemClock
from devassist.runtime.held import Resumed, utc
from devassist.runtime.restore import Restored, restore, resume

_SHOWN = 20
_WORD = "whose effects that must happen at most once each need a person's word"
_DIR = click.Path(path_type=Path, file_okay=False)


@click.command("backup")
@click.argument("directory", metavar="DIR", type=_DIR)
@click.option("--json", "as_json", is_flag=True, help="The manifest.")
@click.pass_obj
def backup_command(app: App, directory: Path, as_json: bool) -> None:
    """Copy the journal to DIR, which is new or empty, and outside of data and keys; also beside a running server.

    What is derived from it is left out, and so are the keys, without which no text can be read: back them up apart.
    """
    settings = app.settings()
    made = asyncio.run(app.files(settings).take(directory.absolute()))
    if as_json:
        out_json(_manifest(made))
    else:
        click.echo(f"{directory}: {plural(made.runs, 'run')} ({made.open_runs} open), as of {utc(made.made_at)}")
    note(f"keys are not in it: back up {settings.keys_dir} apart from it")


def _manifest(made: Manifest) -> dict[str, Any]:
    files = {name: {"sha256": sha, "bytes": size} for name, (sha, size) in made.files.items()}
    return {
        "product": made.product, "made_at": utc(made.made_at), "incarnation": made.place.incarnation,
        "row": made.place.row, "runs": made.runs, "open_runs": made.open_runs, "files": files,
    }  # fmt: skip


@click.command("restore")
@click.argument("directory", metavar="[DIR]", type=_DIR, required=False)
@click.option("--resume", "go_on", is_flag=True, help="Let runs be driven again, knowing which time is lost.")
@click.option("--json", "as_json", is_flag=True, help="The report.")
@click.pass_obj
def restore_command(app: App, directory: Path | None, go_on: bool, as_json: bool) -> None:
    """Put the backup in DIR in place of what is there, which is kept in replaced-<time>.

    The data directory is then held: it can be read, and no run is begun or driven until --resume says so, with DIR or
    later without it, also beside a running server. Of every run that was open at the backup, each effect that must
    happen at most once needs a person's word.
    """
    if directory is None and not go_on:
        raise click.UsageError("give the DIR of a backup, or --resume to go on from a restore")
    files = app.files(app.settings())
    if directory is None:
        _say_resumed(asyncio.run(resume(files, app.beside, LOCAL)), as_json=as_json)
        return
    done = asyncio.run(restore(files, app.beside, SystemClock(), LOCAL, directory.resolve(), resume=go_on))
    if as_json:
        out_json(done.report)
    else:
        _say_restored(done)
    if done.resumed is None:
        note("held: no run is begun or driven until 'devassist restore --resume'")


def _say_resumed(done: Resumed | None, *, as_json: bool) -> None:
    if as_json:
        window = None if done is None else _window(done.rewind)
        out_json({"resumed": done is not None, "runs": 0 if done is None else done.runs, "window": window})
    elif done is None:
        click.echo("nothing is held here")
    else:
        click.echo(f"resumed\nlost window: {_span(_window(done.rewind))}\nopen runs: {_counted(done.runs)}")


def _window(rewind: Rewind) -> dict[str, Any]:
    return {"from": utc(rewind.window_from), "to": utc(rewind.window_to), "end_known": rewind.known}


def _span(window: dict[str, Any]) -> str:
    return f"{window['from']} to {window['to']}{'' if window['end_known'] else ', at most: its end is not known'}"


def _counted(runs: int) -> str:
    return f"{runs}, {_WORD}" if runs else "0"


def _say_restored(done: Restored) -> None:
    report, lost = done.report, done.report["lost_runs"]
    said = [
        f"restored {report['backup']['directory']}, made {report['backup']['made_at']}",
        f"lost window: {_span(report['window'])}",
        f"open runs: {_counted(len(report['open_runs']))}",
        *map(_open_run, report["open_runs"][:_SHOWN]),
        f"runs begun in the window: {lost['count'] if lost['known'] else 'not known'}, gone with their "
        "Idempotency-Keys: a request that is sent again begins a new run",
        *(f"  {run['trace_id']}  {_status(run['state'])}, begun {run['begun_at']}" for run in lost["runs"][:_SHOWN]),
        f"report: {done.path}",
        "" if report["replaced"] is None else f"what was there before: {report['replaced']}",
    ]
    click.echo("\n".join(line for line in said if line))


def _open_run(run: dict[str, Any]) -> str:
    since: list[dict[str, Any]] = run["once_calls_since"] or []
    later = "" if run["later_state"] is None else f", in the window {_status(run['later_state'])}"
    calls = "".join(f"; made {call['tool']}: {call['outcome'] or 'no outcome on record'}" for call in since)
    return f"  {one_line(run['trace_id'])}  {_status(run['state'])}{later}{one_line(calls)}"


def _status(state: str) -> str:
    """A state as ``trace list`` calls it; one that this build does not know as it stands."""
    return STATUS[State(state)] if state in set(State) else one_line(state)
