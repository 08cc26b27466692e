"""Runs as rows of a list, and stored events as rows of a page: the same over HTTP and on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from devassist.core.definition import Definition
from devassist.core.errors import JournalCorrupt
from devassist.core.events import RunFinished, RunStarted
from devassist.core.ids import time_of
from devassist.core.scope import Scope
from devassist.core.signals import SIGNALS
from devassist.core.states import STATUS, State
from devassist.ports.journal import Head, Record
from devassist.runtime.services import Services
from devassist.runtime.view import decoded, texts_of

STATES_OF = {status: tuple(str(s) for s in State if STATUS[s] == status) for status in dict.fromkeys(STATUS.values())}
STATES_OF["running"] += (str(State.INIT),)
"""States of the runs that a status may mean. One in INIT runs once its turn has come: ``status_of`` tells it apart."""
_PREVIEW = 200
"""Characters of a message that a row shows."""


async def run_row(services: Services, scope: Scope, head: Head) -> dict[str, Any]:
    """One run, read from its head, its first event and, where it has an answer, its last. Raises JournalCorrupt."""
    journal, stream = services.journal, head.stream
    placed = decoded(await journal.read(scope, stream, -1, 1))
    started = placed[0][0] if placed else None
    if not isinstance(started, RunStarted):
        raise JournalCorrupt(f"run {stream.hex()} does not begin with INIT; 'devassist trace verify' says more")
    texts = await texts_of(journal, scope, stream, placed)
    actor = bytes.fromhex(started.actor)
    name = (await services.vault.load(frozenset({actor}))).get(actor)
    last = await journal.read(scope, stream, head.head_seq - 1, 1) if head.state == State.FINAL_ANSWER else []
    finished = decoded(last)[0][0] if last else None
    message, definition = texts.get(started.message), texts.get(started.definition)
    return {
        **_of_head(head),
        "agent": started.agent,
        "user": name.name if name else None,
        "message": None if message is None else message[:_PREVIEW],
        "model": Definition.from_json(definition).model if definition else None,
        "replaces": started.replaces,
        "degraded": list(finished.degraded) if isinstance(finished, RunFinished) else [],
        "erased": message is None,
    }


async def listed_row(services: Services, scope: Scope, head: Head) -> dict[str, Any]:
    """As ``run_row``; ``unreadable`` says why a run cannot be read, so that one such run hides no other."""
    try:
        return await run_row(services, scope, head) | {"unreadable": None}
    except JournalCorrupt as error:
        nothing = dict.fromkeys(("agent", "user", "message", "model", "replaces"))
        return {**_of_head(head), **nothing, "degraded": [], "erased": False, "unreadable": error.detail}


def status_of(head: Head) -> str:
    """How the run reads outside; one in INIT whose turn has come runs."""
    return "running" if head.state == State.INIT and head.driving else STATUS[State(head.state)]


def _of_head(head: Head) -> dict[str, Any]:
    return {
        "trace_id": head.stream.hex(), "status": status_of(head), "state": head.state,
        "conversation_id": head.conversation, "started_at_ms": time_of(head.stream) // 1000,
        "events": head.head_seq + 1,
    }  # fmt: skip


def event_row(record: Record, names: Mapping[str, str]) -> dict[str, Any]:
    """A stored event: its place, its body as JSON, its hash; and by whom, where it is a signal."""
    body = json.loads(record.body)
    who = {"actor_name": names.get(body["actor"])} if record.kind in SIGNALS and "actor" in body else {}
    return {
        "seq": record.seq, "at_us": record.at, "kind": record.kind, "body": body, "hash": record.hash.hex(), **who,
    }  # fmt: skip
