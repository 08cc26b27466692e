"""``devassist doctor``: is everything in place, and what to do where it is not."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from devassist.cli import checks, kb_checks
from devassist.cli.ask import default_url
from devassist.cli.checks import Check
from devassist.cli.context import FAILED, App
from devassist.cli.output import indented, one_line, out_json, pad, width
from devassist.config import ModelChoice, Settings
from devassist.core.errors import DevAssistError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check this machine, the settings and the data directory.

    Exit code 1 when something fails.
    """
    found = asyncio.run(_examine(ctx.ensure_object(App)))
    failed = any(check.level == "fail" for check in found)
    if as_json:
        out_json({"ok": not failed, "checks": [asdict(check) for check in found]})
    else:
        click.echo(_page(found))
    ctx.exit(FAILED if failed else 0)


async def _examine(app: App) -> list[Check]:
    found = [checks.python(), checks.sqlite()]
    try:
        settings = app.settings()
    except DevAssistError as error:
        return [*found, Check("settings", "fail", error.detail, "correct the setting; the others were not looked at")]
    found += [Check("settings", "ok", "read"), checks.data_dir(settings), checks.keys_dir(settings)]
    found += [checks.lock(settings), await checks.rewound(app.files(settings))]
    found.append(await checks.server(settings, app.url or default_url(settings), given=app.url is not None))
    found.append(await checks.model("model", settings.agent_model, settings))
    if settings.chat_model != settings.agent_model:
        found.append(await checks.model("chat model", settings.chat_model, settings))
    for fallback in settings.fallback_models:
        found.append(await checks.endpoint("fallback", fallback.base_url, fallback.api_key, fallback.model))
    found += await _declared(app, settings)
    found += await kb_checks.knowledge(app, settings)
    found += await checks.sandbox(app.sandbox(settings), settings)
    found += [checks.web(settings), checks.optional("git", "for a prompt library of your own")]
    return [*found, checks.optional("node", "to build the web UI")]


async def _declared(app: App, settings: Settings) -> list[Check]:
    """Policies, agents, prices and tools, loaded as a start loads them, but on a directory that is thrown away."""
    with TemporaryDirectory(prefix="devassist-doctor-") as name:
        place, plain = Path(name), ModelChoice("extractive")
        trial = replace(
            settings, data_dir=place / "data", keys_dir=place / "keys", graphs_dir=place / "graphs",
            journal_path=place / "data" / "journal.db", agent_model=plain, chat_model=plain,
        )  # fmt: skip
        try:
            services = await app.open(trial, drive=False)
        except DevAssistError as error:
            return [Check("policies and agents", "fail", error.detail, "correct it; a start would end with this")]
        try:
            return await checks.declared(services)
        finally:
            await services.close()


def _page(found: list[Check]) -> str:
    names = max(width(check.name) for check in found)
    lines: list[str] = []
    for check in found:
        lines.append(f"{check.level:<4}  {pad(check.name, names)}  {one_line(check.said)}")
        if check.level != "ok" and check.todo:
            lines.append(indented(f"-> {check.todo}", " " * (names + 8)))
    count = {level: sum(check.level == level for check in found) for level in ("ok", "warn", "fail")}
    return "\n".join([*lines, "", ", ".join(f"{number} {level}" for level, number in count.items())])
