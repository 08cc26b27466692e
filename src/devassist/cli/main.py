"""The command: ``devassist`` or ``python -m devassist.cli.main``."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Any

import click

from devassist.bootstrap import file_backups, open_services, sandbox_tools
from devassist.cli import ask, backup, doctor, kb, keys, log, people, sandbox, serve, trace
from devassist.cli.context import INTERRUPTED, App, stop_for
from devassist.core import setting_values as parse
from devassist.core.errors import DevAssistError

_TALKING = frozenset({"cli", "ask", "doctor"})


class _Group(click.Group):
    """Typed errors become one line on stderr and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DevAssistError as error:
            raise stop_for(error) from error
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def _data_dir(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(App).flags["data_dir"] = value


def _url(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    try:
        ctx.ensure_object(App).url = parse.web_address(value)
    except ValueError as error:
        raise click.BadParameter(f"allowed is {error}") from None


def _everywhere(command: click.Command) -> None:
    """Global options may stand before or after the verb; help leaves out those that a verb has no use for."""
    talks = command.name in _TALKING
    command.params = [
        *command.params,
        click.Option(["--data-dir"], metavar="DIR", expose_value=False, callback=_data_dir,
                     help="Data directory.  [default: ./data]"),
        click.Option(["--url"], metavar="URL", expose_value=False, callback=_url, hidden=not talks,
                     help="Server to talk to.  [default: http://127.0.0.1:8000]"),
    ]  # fmt: skip
    if isinstance(command, click.Group):
        for sub in command.commands.values():
            _everywhere(sub)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="devassist", prog_name="devassist")
def cli() -> None:
    """DevAssist: agents whose runs are a journal. Ask, look at traces, check the evidence.

    Exit codes: 0 ok, 1 the run or check failed, 2 wrong use or settings, 3 no server reached. Settings come from flags,
    DEVASSIST_* variables and devassist.toml.
    """


for _answer in (people.approve, people.settle):
    trace.trace.add_command(_answer)
for _verb in (
    serve.command, ask.ask, trace.trace, log.log, kb.kb, keys.keys, backup.backup_command, backup.restore_command,
    sandbox.sandbox, doctor.doctor,
):  # fmt: skip
    cli.add_command(_verb)
_everywhere(cli)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal cannot show must not end the program
    cli(prog_name="devassist", obj=App(open_services, file_backups, sandbox_tools))


if __name__ == "__main__":
    main()
