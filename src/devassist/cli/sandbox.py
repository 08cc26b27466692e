"""``devassist sandbox``: build what programs run in, try to break out of it, time it, serve it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from devassist.cli.context import FAILED, App
from devassist.cli.output import columns, cut, note, one_line, out_json
from devassist.core.errors import ConfigInvalid
from devassist.ports.sandbox import Attempt, SandboxState, SandboxTools, Timed

_NAME, _AT_MOST = 42, 10_000


@click.group()
def sandbox() -> None:
    """Where execute_code runs programs: build, check, bench, serve."""


def _tools(app: App) -> SandboxTools:
    return app.sandbox(app.settings())


@sandbox.command()
@click.option("--again", is_flag=True, help="Also when it is there.")
@click.pass_obj
def build(app: App, again: bool) -> None:
    """Make what programs run in on this machine, unless it is there.

    With a Docker engine an image of Debian's packages, which needs root and debootstrap, and no container registry;
    without one CPython as WebAssembly. SANDBOX_BACKEND decides otherwise.
    """
    settings = app.settings()
    made = asyncio.run(app.sandbox(settings).build(note, again=again))
    click.echo(made)
    if settings.sandbox_image not in (None, made) and settings.sandbox_backend != "wasi":
        note(f"it is not used as long as SANDBOX_IMAGE is {settings.sandbox_image}")


@sandbox.command()
@click.option("--json", "as_json", is_flag=True, help="JSON lines.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Run the abuse cases against whatever runs programs here: each tries to get at what it must not reach.

    held: refused or stopped. absent: there is nothing of the kind here. hole: it got through; then the exit code is 1.
    """
    found = asyncio.run(_check(_tools(ctx.ensure_object(App)), as_json=as_json))
    said = ", ".join(f"{found[verdict]} {verdict}" for verdict in ("held", "absent", "hole"))
    (note if as_json else click.echo)(f"{found.total()} cases: {said}")
    ctx.exit(FAILED if found["hole"] else 0)


async def _check(tools: SandboxTools, *, as_json: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    async for one in tools.check():
        if isinstance(one, SandboxState):
            note(_told(one))
            continue
        found[one.verdict] += 1
        if as_json:
            out_json(asdict(one))
        else:
            click.echo(_row(one))
    return found


def _row(one: Attempt) -> str:
    name = f"{one.number:>2}  {one.verdict:<6}  {one.name:<{_NAME}}"
    return cut(f"{name}  {one.duration_ms:>5} ms  {one_line(one.detail)}", columns())


@sandbox.command()
@click.option("-n", "programs", type=click.IntRange(1, _AT_MOST), default=20, show_default=True,
              help="Programs for each figure.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="JSON lines.")
@click.pass_obj
def bench(app: App, programs: int, as_json: bool) -> None:
    """Time the smallest program: with a sandbox ready, without one, side by side, and by 'docker run'.

    Times are what a caller waits, in milliseconds.
    """
    asyncio.run(_bench(_tools(app), programs, as_json=as_json))


async def _bench(tools: SandboxTools, programs: int, *, as_json: bool) -> None:
    found: dict[str, Timed] = {}
    async for one in tools.bench(programs):
        if isinstance(one, SandboxState):
            note(_told(one))
            continue
        found[one.name] = one
        if as_json:
            out_json(asdict(one))
        else:
            click.echo("\n".join(_figures(one)))
    warm, run = found.get("warm"), found.get("docker_run")
    if warm and run and not as_json:
        click.echo(f"FIGURE sandbox_warm_of_docker_run_p50 value={warm.p50_ms / run.p50_ms:.3f}x")


def _figures(one: Timed) -> list[str]:
    lines = [
        f"FIGURE sandbox_{one.name}_p50 value={one.p50_ms:.1f}ms",
        f"FIGURE sandbox_{one.name}_p95 value={one.p95_ms:.1f}ms",
    ]
    return lines if one.per_s is None else [*lines, f"FIGURE sandbox_{one.name}_rate value={one.per_s:.1f}/s"]


def _told(state: SandboxState) -> str:
    return f"{state.backend} {state.image}\n{state.limits}"


@sandbox.command()
@click.option("--socket", type=click.Path(path_type=Path, dir_okay=False),
              help="Where to listen.  [default: DEVASSIST_SANDBOX_SOCKET]")  # fmt: skip
@click.pass_obj
def serve(app: App, socket: Path | None) -> None:
    """Run programs for a service that has DEVASSIST_SANDBOX_SOCKET, until Ctrl-C or SIGTERM.

    Whoever holds the Docker socket is root on the host: with this process the service needs none. It listens on a Unix
    socket in a directory that only its owner may enter, and runs programs; it does nothing else.
    """
    settings = app.settings()
    path = socket or settings.sandbox_socket
    if path is None:
        raise ConfigInvalid("where to listen is not said: --socket PATH, or DEVASSIST_SANDBOX_SOCKET")
    tools = app.sandbox(settings)
    asyncio.run(tools.serve(path, lambda told: click.echo(f"Sandbox is up at {path} ({told})")))
