"""``devassist keys``: API keys, made and revoked on the key store, also beside a running server."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from time import time
from typing import Any

import click

from devassist.cli.context import LOCAL, App
from devassist.cli.output import clean, local_time, note, one_line, out_json, table
from devassist.core.api_keys import id_in
from devassist.core.doc_names import label_fault
from devassist.ports.access import ApiKey, Role
from devassist.runtime.access import NamedKey, NewKey

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LABEL = 200
_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_HEAD = ("KEY ID", "USER", "ROLE", "STATE", "CREATED", "EXPIRES", "SEES", "LABEL")


@click.group()
def keys() -> None:
    """API keys. From the first one on, the server serves nobody without a key.

    A key speaks for one user. Role user sees its own runs and conversations, role admin everybody's.
    """


def _name(_: click.Context, __: click.Parameter, value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise click.BadParameter("it has 1 to 64 letters, digits, '_' or '-'")
    return value


def _span(_: click.Context, __: click.Parameter, value: str) -> timedelta | None:
    """None for never."""
    if value == "never":
        return None
    match = _SPAN.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a time such as 30d, 12h or 8w, nor never")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _label(_: click.Context, __: click.Parameter, value: str) -> str:
    if len(value) > _LABEL or not value.isprintable():
        raise click.BadParameter(f"it is one line of at most {_LABEL} characters")
    return value


def _sees(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for label in value:
        if (fault := label_fault(label)) is not None:
            raise click.BadParameter(fault)
    return tuple(sorted(set(value)))


def _key_id(_: click.Context, __: click.Parameter, value: str) -> str:
    found = id_in(value)
    if found is None:  # what was typed may hold a secret, so it is not repeated
        raise click.BadParameter("that is no key id: it has 12 hex digits, and 'devassist keys list' shows it")
    return found


@keys.command()
@click.argument("name", callback=_name)
@click.option("--role", type=click.Choice(["user", "admin"]), default="user", show_default=True)
@click.option("--expires", "span", callback=_span, default="90d", show_default=True, metavar="TIME",
              help="30m, 12h, 30d or 8w from now, or never.")  # fmt: skip
@click.option("--label", callback=_label, default="", help="What it is for; only you see it.")
@click.option("--sees", multiple=True, callback=_sees, metavar="LABEL",
              help="Opens documents with this label too; may be repeated.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object, the key in it.")
@click.pass_context
def create(
    ctx: click.Context, name: str, role: Role, span: timedelta | None, label: str, sees: tuple[str, ...], as_json: bool
) -> None:
    """Make a key for the user NAME and print it, this once, on stdout.

    Only a digest of it is kept: whoever loses it makes another and revokes it.
    """
    expires = None if span is None else int(time() * 1_000_000) + span // timedelta(microseconds=1)

    async def main() -> tuple[NewKey, bool]:
        async with ctx.ensure_object(App).beside(make=True) as services:
            first = not services.access.required
            return await services.access.create(LOCAL, name, role, expires=expires, label=label, sees=sees), first

    made, first = asyncio.run(main())
    if as_json:
        out_json({"key": made.token, **_fields(made.key, name)})
    else:
        click.echo(made.token)
    until = "for ever" if expires is None else f"until {local_time(expires)}"
    note(f"key {made.key.key_id} of {name}, role {role}, good {until}; it is shown this once only")
    if first:
        note("it is the first: from now on the server serves nobody without a key, and X-User-Id means nothing")


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List all keys that ever were, oldest first; never the keys themselves."""

    async def main() -> list[NamedKey]:
        async with ctx.ensure_object(App).beside() as services:
            return await services.access.list(LOCAL)

    found = asyncio.run(main())
    if as_json:
        for key, user in found:
            out_json(_fields(key, user))
    elif found:
        click.echo(table(_HEAD, [_cells(key, user) for key, user in found]))
    else:
        note("no keys: every caller is an administrator")


@keys.command()
@click.argument("key_id", callback=_key_id)
@click.pass_context
def revoke(ctx: click.Context, key_id: str) -> None:
    """Revoke the key KEY_ID, for good; a running server refuses it within a second.

    KEY_ID may also be the whole key.
    """

    async def main() -> bool:
        async with ctx.ensure_object(App).beside() as services:
            return await services.access.revoke(LOCAL, key_id)

    revoked = asyncio.run(main())
    click.echo(f"key {key_id} {'is revoked' if revoked else 'was revoked before'}")


def _fields(key: ApiKey, user: str | None) -> dict[str, Any]:
    times = {"created_at_ms": key.created, "expires_at_ms": key.expires, "revoked_at_ms": key.revoked}
    return {
        "key_id": key.key_id, "user": user, "role": key.role, "state": key.state(int(time() * 1_000_000)),
        "label": key.label, "sees": list(key.sees),
        **{name: None if at is None else at // 1000 for name, at in times.items()},
    }  # fmt: skip


def _cells(key: ApiKey, user: str | None) -> tuple[str, ...]:
    now, name = int(time() * 1_000_000), clean(user or "(erased)")
    expires = "never" if key.expires is None else local_time(key.expires)
    times = (local_time(key.created), expires)
    return key.key_id, name, key.role, key.state(now), *times, ",".join(key.sees), one_line(key.label)
