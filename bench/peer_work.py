"""The work of the peers' benchmark as DevAssist does it: settings, two tools, and whether every trace is whole.

Their stub speaks native tool calls and no server-sent events, so the protocol is ``tools``; a tool's result is the same
text in all runs, for the peers as for us.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench import engine
from devassist.bootstrap import open_services
from devassist.config import Settings
from devassist.core.scope import Scope
from devassist.core.tooling import Effect
from devassist.ports.tools import CallContext
from devassist.runtime.intake import Submission
from devassist.tools.registry import Tool
from devassist.tools.schema import tool

USER = Scope("default", "bench", frozenset({"user"}))
NAMES = ("get_policy", "check_balance")
"""What their stub calls, with the arguments ``run``, ``step`` and ``topic``."""
STEP = ("model_intended", "model_replied")
CALL = ("tool_intended", "tool_returned")
KINDS = ("run_started", *STEP, *CALL, *STEP, *CALL, *STEP, "run_finished")
"""A whole trace: three model calls and two tool calls, intent and outcome of each."""
_IN, _OUT = ("run_started", "tool_intended"), ("tool_returned", "run_finished")
"""Rows of the decision log that must show an input or an output."""

Act = Callable[[str, int, CallContext], str]
"""Does the tool's deed for (run, step) and gives its result, a JSON text."""


def settings(directory: Path, url: str) -> Settings:
    return engine.settings(directory, url, DEVASSIST_MODEL_PROTOCOL="tools", OPENAI_MODEL="m")


def tools(act: Act, effect: Effect = "pure") -> tuple[Tool, Tool]:
    """One has the name of a built-in tool, in whose place it stands: the stub calls it with arguments of its own."""

    @tool(effect=effect)
    async def get_policy(run: str, step: int, topic: str, context: CallContext) -> dict[str, Any]:
        """Get a policy."""
        return json.loads(act(run, step, context))

    @tool(effect=effect)
    async def check_balance(run: str, step: int, topic: str, context: CallContext) -> dict[str, Any]:
        """Check the balance."""
        return json.loads(act(run, step, context))

    return get_policy, check_balance


class Within:
    """In process, through the facade that the API and the command line use, as the peers are used."""

    def __init__(self, directory: Path, url: str, act: Act) -> None:
        self._directory, self._url, self._act = directory, url, act

    async def open(self) -> None:
        given = settings(self._directory, self._url)
        self.services = await open_services(given, drive=True, extra_tools=tools(self._act))

    async def run(self, message: str) -> str:
        service = self.services.service
        start = await self.services.intake.prepare(USER, "agent", Submission(message, tools=NAMES))
        started = await service.start(USER, start)
        view = await service.wait(USER, started.stream)
        last = view.placed[-1][0]
        answer = getattr(last, "answer", None)
        return view.texts[answer] if answer else f"ended with {last.kind}"

    async def settled(self) -> None:
        """Every follower has had everything."""
        await engine.settled(self.services, self._directory)

    async def close(self) -> None:
        await self.services.close()


class Traces(NamedTuple):
    """``whole`` counts runs with every row that they must have, in the journal and in the decision log; ``wrong`` tells
    of the first that is not."""

    runs: int
    whole: int
    wrong: str


def traces(directory: Path) -> Traces:
    """Read both files by plain SQL, after the service has been closed."""
    journal: dict[str, list[str]] = {}
    for stream, seq, kind in _rows(
        directory / "journal.db",
        "SELECT lower(hex(stream)), seq, kind FROM events"
        " WHERE stream IN (SELECT stream FROM heads WHERE kind = 'run') ORDER BY stream, seq",
    ):
        kinds = journal.setdefault(stream, [])
        kinds.append(kind if seq == len(kinds) else f"a gap before {seq}")
    log: dict[str, list[str]] = {}
    for trace, kind, fed, told in _rows(
        directory / "log.db",
        "SELECT trace_id, kind, coalesce(input_text, '') <> '', coalesce(output_text, '') <> '' FROM decision_log"
        " WHERE trace_id IS NOT NULL ORDER BY trace_id, seq",
    ):
        full = (fed or kind not in _IN) and (told or kind not in _OUT)
        log.setdefault(trace, []).append(kind if full else f"{kind} without its text")
    whole, wrong = 0, ""
    for stream, kinds in journal.items():
        if tuple(kinds) == KINDS and log.get(stream) == kinds:
            whole += 1
        else:
            wrong = wrong or f"{stream}: journal {_beside(kinds)}; log {_beside(log.get(stream, []))}"
    return Traces(len(journal), whole, wrong)


def _rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    db: Any = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def _beside(kinds: list[str]) -> str:
    """Where a list of rows leaves the expected one."""
    for number, (kind, expected) in enumerate(zip(kinds, KINDS, strict=False)):
        if kind != expected:
            return f"has {kind} for {expected} at {number}"
    return f"has {len(kinds)} of {len(KINDS)} rows"
