"""A run's messages as a person sees them: steps on stderr as they happen, the answer on stdout, how it ended on stderr.

A terminal is shown the answer as it grows; anything else that reads stdout gets the settled answer alone.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import click

from devassist.cli.output import args_text, clean, cut, note, one_line, took
from devassist.cli.people_text import waits_for
from devassist.core.degraded import MODEL_SWITCHED

Message = dict[str, Any]

_ARGS_COLUMNS = 72
_CLOSED = {"succeeded", "failed", "cancelled"}


class Screen:
    """``take`` each message of the run; ``status`` and ``trace_id`` are the run's so far."""

    def __init__(self, *, live: bool | None = None) -> None:
        self._live = sys.stdout.isatty() if live is None else live
        self._attempt, self._text = 0, ""
        self._printed = 0
        self._open: tuple[int, int] | None = None
        self._shown: set[tuple[int, int]] = set()
        self._degraded: set[str] = set()
        self._meta: Message = {}
        self.status = "running"

    @property
    def trace_id(self) -> str | None:
        return self._meta.get("trace_id")

    @property
    def over(self) -> bool:
        """Ended, or waiting for a person: nothing more will come by itself."""
        return self.status in _CLOSED or self.status == "awaiting_approval"

    def watch(self, message: Message) -> None:
        """As ``take``, showing nothing."""
        match message.get("type"):
            case "meta":
                self._meta = message
            case "status" | "done":
                self.status = message["status"]
            case "error":
                self.status = "failed"
            case _:
                pass

    def take(self, message: Message) -> None:
        """Show what ``message`` says."""
        self.watch(message)
        match message.get("type"):
            case "status":
                self._status(message)
            case "step_started":
                self._step_started(message)
            case "step":
                self._step(message)
            case "delta":
                self._delta(message)
            case "partial":
                self._partial(message)
            case "reset":
                self._begin(message["attempt"])
            case "answer":
                self._answer(message)
            case "done":
                self._done(message)
            case "error":
                self._failed(message)
            case _:
                pass

    def lost(self, reason: str) -> None:
        """Say that the connection was, on a line of its own."""
        self._close_line()
        note(f"connection lost ({reason}), trying again")

    # -- steps ---------------------------------------------------------------------------------------------------

    def _step_started(self, message: Message) -> None:
        key = (message["step_index"], message["call_index"])
        if key in self._shown:
            return
        self._close_line()
        click.echo(_call(message), nl=False, err=True)
        self._open = key

    def _step(self, message: Message) -> None:
        key = (message["step_index"], message["call_index"])
        if key in self._shown:
            return
        self._shown.add(key)
        error = message["error"]
        if message["tool_name"] is None and error is None:
            return
        result = took(message["latency_ms"])
        if error is not None:
            result += f"  {error['code']}: {cut(one_line(error['message'] or ''), 100)}"
        if self._open == key:
            self._open = None
            note(f"  {result}")
            return
        self._close_line()
        note(f"{_call(message)}  {result}")

    def _close_line(self) -> None:
        if self._open is not None:
            self._open = None
            note("")

    def _status(self, message: Message) -> None:
        self._provider(message)
        for pending in message["pending"]:
            self._close_line()
            if pending["kind"] == "turn":
                note("waiting: the conversation has an open run, this one comes after it")
        for wait in waits_for(self.trace_id or "", message["pending"]):
            note(f"waiting for a person ({wait.kind}): {wait.call}\n  {wait.command}")
        if self.status == "awaiting_approval":
            self._summary()

    def _provider(self, message: Message) -> None:
        """Why and how long the run waits for its model, each time that it does; what will be said of the answer."""
        timers = [pending for pending in message["pending"] if pending["kind"] == "timer"]
        why = [each for each in message["degraded"] if timers and each["code"] != MODEL_SWITCHED]
        self._notes([each for each in message["degraded"] if each not in why])
        for timer in timers:
            self._close_line()
            seconds = (timer["wake_at_ms"] - timer["since_ms"]) / 1000
            note(f"waiting {seconds:.1f} s" + "".join(f": {one_line(each['detail'])}" for each in why))

    def _notes(self, degraded: list[dict[str, str]]) -> None:
        for each in degraded:
            if each["code"] not in self._degraded:
                self._degraded.add(each["code"])
                self._close_line()
                note(f"note: {one_line(each['detail'])}")

    # -- answer --------------------------------------------------------------------------------------------------

    def _begin(self, attempt: int) -> None:
        """What was shown so far counts no more."""
        if self._printed:
            click.echo()
            note("(withdrawn; the answer begins again)")
        self._attempt, self._text, self._printed = attempt, "", 0

    def _delta(self, message: Message) -> None:
        if message["attempt"] != self._attempt:
            self._begin(message["attempt"])
        self._text += message["content"][max(len(self._text) - message["offset"], 0) :]
        self._print()

    def _partial(self, message: Message) -> None:
        text = message["text"]
        if message["attempt"] != self._attempt or not text.startswith(self._text):
            self._begin(message["attempt"])
        self._text = max(text, self._text, key=len)
        self._print()

    def _print(self) -> None:
        more = self._text[self._printed :]
        if self._live and more:
            self._close_line()
            click.echo(clean(more), nl=False)
            self._printed = len(self._text)

    def _answer(self, message: Message) -> None:
        """The settled text; where it was cut to fit a message the pieces hold it whole."""
        text = self._text if message.get("truncated") else message["text"] or ""
        if self._printed and not text.startswith(self._text):
            self._begin(self._attempt)
        self._text = text
        self._close_line()
        if self._live:
            self._print()
            click.echo()
        else:
            click.echo(text, nl=not text.endswith("\n"))

    # -- end -----------------------------------------------------------------------------------------------------

    def _done(self, message: Message) -> None:
        self._close_line()
        self._notes(message["degraded"])
        self._summary()
        source = source_text(message["output"])
        if source is not None:
            note(f"source {source}")

    def _failed(self, message: Message) -> None:
        self._close_line()
        note(f"failed: {message['code']}: {clean(message['detail'])}")
        self._summary()

    def _summary(self) -> None:
        meta = self._meta
        who = f"{meta.get('agent_name')} ({meta.get('model_kind')}:{meta.get('model')})"
        route = f"{meta.get('route')}: {one_line(meta.get('route_reason') or 'not known')}"
        note(f"trace {meta.get('trace_id')}  {self.status}  {who}  route {route}")


def source_text(output: Any) -> str | None:
    """The source that a policy answer's output names, on one line."""
    source: Any = cast("Message", output).get("source") if isinstance(output, dict) else None
    if not isinstance(source, dict):
        return None
    named = cast("Message", source)
    dates = [f"{word} {named[key]}" for key, word in _DATES if named.get(key)]
    return one_line(f"{named.get('policy_title')} {named.get('clause')}" + (f" ({', '.join(dates)})" if dates else ""))


_DATES = (("effective_date", "effective"), ("revision_date", "revised"))


def _call(message: Message) -> str:
    if message["tool_name"] is None:
        return f"  {message['step_index'] + 1}. reply sent back"
    args = cut(one_line(args_text(message["tool_args"])), _ARGS_COLUMNS)
    return f"  {message['step_index'] + 1}. {one_line(message['tool_name'])} {args}".rstrip()
