"""What every verb gets (settings, services on the data directory, runs by id), and how faults leave the program."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol

import click

from devassist.config import ModelChoice, Settings, load
from devassist.core.errors import DevAssistError, RunNotFound, Unavailable
from devassist.core.scope import Scope
from devassist.ports.backup import Backups
from devassist.ports.journal import HeadQuery, Heads
from devassist.ports.sandbox import SandboxTools
from devassist.runtime.services import Services

FAILED, USAGE, UNREACHABLE = 1, 2, 3
"""Exit codes besides 0: the run or check failed; usage or settings; no server where one was said to be."""
INTERRUPTED = 130
LOCAL = Scope("default", "local", frozenset({"user", "admin"}))
"""Who types here: whoever may read the files may administer them."""

_ID = re.compile(r"[0-9a-f]{8,32}")
_SHOWN = 5


class Opener(Protocol):
    def __call__(self, settings: Settings, *, drive: bool) -> Awaitable[Services]: ...


class Stop(click.ClickException):
    """Ends the program with a sentence on stderr and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = code  # pyright: ignore[reportAttributeAccessIssue] click means it to be set so

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"Error: {self.message}", file=file, err=True)


@dataclass(slots=True)
class App:
    """What ``main`` hands to the verbs. ``flags`` are global options by the key of their setting."""

    open: Opener
    files: Callable[[Settings], Backups]
    sandbox: Callable[[Settings], SandboxTools]
    flags: dict[str, str | None] = field(default_factory=dict[str, str | None])
    url: str | None = None

    def settings(self, **flags: str | None) -> Settings:
        """Raises ConfigInvalid."""
        return load({**self.flags, **flags})

    @asynccontextmanager
    async def beside(self, journal: Path | None = None, *, make: bool = False) -> AsyncGenerator[Services]:
        """Services that read, and append signals, beside a running server; they ask no model, and make directories only
        with ``make``, as a first start would. ``journal``: on this one, which stands alone in a directory, instead of
        the data directory's.

        Raises Unavailable where there is nothing to read.
        """
        settings = self.settings()
        if journal is not None:
            graphs = journal.parent / "graphs"
            settings = replace(settings, data_dir=journal.parent, journal_path=journal, graphs_dir=graphs)
        begun = settings.journal_path.exists()
        if not begun and not make:
            raise Unavailable(
                f"there is no journal at {settings.journal_path}: nothing has run there yet; "
                "--data-dir names another directory"
            )
        if begun and not settings.keys_dir.exists():
            raise Unavailable(
                f"the keys of {settings.journal_path} should be in {settings.keys_dir}, which is missing; "
                "put it back from its backup, or say where it is with DEVASSIST_KEYS_DIR"
            )
        plain = ModelChoice("extractive")
        services = await self.open(replace(settings, agent_model=plain, chat_model=plain), drive=False)
        try:
            yield services
        finally:
            await services.close()


def with_services(ctx: click.Context, work: Callable[[Services], Awaitable[int]]) -> None:
    """Run ``work`` beside a running server and end with its exit code."""
    app = ctx.ensure_object(App)

    async def main() -> int:
        async with app.beside() as services:
            return await work(services)

    ctx.exit(asyncio.run(main()))


def exit_code(status: int, code: str) -> int:
    """Of an error: 2 where other words or settings are needed, else 1."""
    asked_wrongly = status in (400, 401, 404, 413, 422) and code != RunNotFound.code
    return USAGE if asked_wrongly or code == "config_invalid" else FAILED


def stop_for(error: DevAssistError) -> Stop:
    more = [f"  {path}: {message}" for path, message in error.errors if message not in error.detail]
    return Stop("\n".join([f"{error.code}: {error.detail}", *more]), exit_code(error.status, error.code))


async def find(heads: Heads, trace_id: str) -> bytes:
    """The run that a trace id, or at least 8 of its first digits, means. Raises RunNotFound; a whole id is not looked
    up."""
    digits = trace_id.lower().replace("-", "")
    if not _ID.fullmatch(digits):
        raise RunNotFound(f"{trace_id[:64]!r} is no trace id: it has 32 hex digits, of which the first 8 may be enough")
    if len(digits) == 32:
        return bytes.fromhex(digits)
    low, high = bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))
    found = await heads.list(LOCAL, HeadQuery(since=low, before=high, limit=_SHOWN + 1))
    if not found:
        raise RunNotFound(f"no run begins with {digits}")
    if len(found) > 1:
        some = ", ".join(head.stream.hex() for head in found[:_SHOWN])
        raise RunNotFound(f"several runs begin with {digits}: {some}{' and more' if len(found) > _SHOWN else ''}")
    return found[0].stream
