"""``devassist ask``: of the server where one listens, else in this process on the data directory."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import click

from devassist.cli.context import FAILED, INTERRUPTED, LOCAL, UNREACHABLE, App, Stop, exit_code, stop_for
from devassist.cli.local import follow
from devassist.cli.output import note, out_json
from devassist.cli.remote import ConnectionLost, NotOurs, NotReachable, Refused, Server
from devassist.cli.screen import Screen
from devassist.config import Settings
from devassist.core.errors import DataDirInUse
from devassist.core.view import summary
from devassist.runtime.intake import Submission

_CONVERSATION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST = 32_000
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # what listens everywhere listens on loopback


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    agent: str | None
    tools: tuple[str, ...] | None
    conversation: str | None

    def body(self) -> dict[str, Any]:
        fields = {"message": self.text, "agent": self.agent, "tools": self.tools, "conversation_id": self.conversation}
        return {name: value for name, value in fields.items() if value is not None}

    def submission(self) -> Submission:
        return Submission(self.text, conversation_id=self.conversation, agent=self.agent, tools=self.tools)


@click.command(short_help="Ask a question; the answer goes to stdout.")
@click.argument("text")
@click.option("--agent", help="Ask this agent; otherwise the service routes, and says why.")
@click.option("--tools", help="Only these tools, by comma; an empty text means none.")
@click.option("--conversation", help="Go on with this conversation (1 to 64 letters, digits, '_' or '-').")
@click.option("--json", "as_json", is_flag=True, help="Print the answer object and nothing else on stdout.")
@click.pass_context
def ask(
    ctx: click.Context, text: str, agent: str | None, tools: str | None, conversation: str | None, as_json: bool
) -> None:
    """Ask TEXT ('-' reads it from stdin); the answer goes to stdout, how it came about to stderr.

    Talks to the server at --url; where nothing listens it runs in this process, on the data directory. Exit codes: 0
    answered, 1 failed, cancelled or waiting for a person, 2 wrong use, 3 no server at the --url given.
    """
    names = None if tools is None else tuple(name.strip() for name in tools.split(",") if name.strip())
    question = Question(_checked(_stdin() if text == "-" else text), agent, names, conversation)
    if conversation is not None and not _CONVERSATION.fullmatch(conversation):
        raise click.BadParameter("it has 1 to 64 letters, digits, '_' or '-'", param_hint="--conversation")
    asking = _Asking(ctx.ensure_object(App), question, Screen(), as_json)
    try:
        asyncio.run(asking.run())
    except KeyboardInterrupt:
        asking.interrupted()
        ctx.exit(INTERRUPTED)
    ctx.exit(0 if asking.screen.status == "succeeded" else FAILED)


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise click.BadParameter("what stands on stdin is not valid UTF-8", param_hint="TEXT") from None


def _checked(text: str) -> str:
    try:
        text = os.fsencode(text).decode()  # where the locale is not UTF-8, Python has kept the bytes as surrogates
    except UnicodeError:
        raise click.BadParameter("it is not valid UTF-8", param_hint="TEXT") from None
    if not text.strip() or len(text) > _MOST:
        raise click.BadParameter(f"it has 1 to {_MOST} characters, this one has {len(text)}", param_hint="TEXT")
    return text


def default_url(settings: Settings) -> str | None:
    """Where a server with these settings listens; None where any free port is taken."""
    host = _ANYWHERE.get(settings.host, settings.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}" if settings.port else None


class _Asking:
    """One question on its way; ``screen`` knows how far it came."""

    def __init__(self, app: App, question: Question, screen: Screen, as_json: bool) -> None:
        self._app, self._question, self._as_json = app, question, as_json
        self.screen = screen
        self._in_process = False

    async def run(self) -> None:
        url = self._app.url or default_url(self._app.settings())
        if url is not None:
            try:
                await self._of_server(url)
            except ConnectionLost as error:
                raise Stop(f"{error}; {self._where()}", UNREACHABLE) from None
            except NotReachable as error:
                if self._app.url is not None:
                    raise Stop(f"{error}; start one with 'devassist serve'", UNREACHABLE) from None
            except NotOurs as error:
                raise Stop(f"{error}; say where the server is with --url", UNREACHABLE) from None
            except Refused as error:
                raise Stop(_refusal(error.problem), exit_code(error.status, error.code)) from None
            else:
                return
        await self._here(url)

    async def _of_server(self, url: str) -> None:
        async with Server(url, self._app.settings().api_key) as server:
            await self._watch(server.ask(self._question.body(), self.screen.lost))
            if self._as_json and self.screen.trace_id is not None:
                out_json(await server.run(self.screen.trace_id))

    async def _here(self, url: str | None) -> None:
        settings = self._app.settings()
        try:
            services = await self._app.open(settings, drive=True)
        except DataDirInUse as error:
            hint = f"nothing listens at {url}; if it is a server, give its address with --url"
            raise Stop(f"{stop_for(error).message}\n  {hint}") from None
        self._in_process = True
        note(f"no server at {url}: answering in this process, on {settings.data_dir}")
        try:
            start = await services.intake.prepare(LOCAL, "chat", self._question.submission(), watched=True)
            started = await services.service.start(LOCAL, start)
            await self._watch(follow(services.service, started))
            if self._as_json:
                view = await services.service.view(LOCAL, started.stream)
                out_json(summary(view.placed, view.text, trace_id=view.stream.hex(), admin=True, driven=view.driven))
        except asyncio.CancelledError:
            note("\nstopping, a moment")
            raise
        finally:
            await services.close()

    async def _watch(self, messages: AsyncGenerator[dict[str, Any]]) -> None:
        take = self.screen.watch if self._as_json else self.screen.take
        async with aclosing(messages):
            async for message in messages:
                take(message)
                if self.screen.over:
                    break

    def _where(self) -> str:
        trace_id = self.screen.trace_id
        if trace_id is None:
            return "whether a run began is not known ('devassist trace list' shows it)"
        goes_on = "when the next process drives this directory" if self._in_process else "without you"
        return f"the run goes on {goes_on}: 'devassist trace show {trace_id}', or end it with 'trace cancel'"

    def interrupted(self) -> None:
        note("interrupted" if self.screen.trace_id is None else f"interrupted; {self._where()}")


def _refusal(problem: dict[str, Any]) -> str:
    errors: list[dict[str, Any]] = problem.get("errors") or []
    lines = [f"{problem.get('code')}: {problem.get('detail')}"]
    lines += [f"  {each.get('path')}: {each.get('message')}" for each in errors]
    if problem.get("status") == 401:
        lines.append("  this command takes its key from DEVASSIST_API_KEY")
    return "\n".join(lines)
