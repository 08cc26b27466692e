"""The world that processes of the crash tests act on: a file that counts effects, and what the model says.

The file is the witness: the tools themselves write it, it outlives every process, and it knows nothing of the journal.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from devassist.core.tooling import Effect, ToolSpec, ToolUnknown
from devassist.ports.tools import CallContext
from devassist.runtime.faults import point
from devassist.tools.registry import Tool

TEXT = {
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False,
}  # fmt: skip
ONCE_S = 2.0
"""Timeout of the tools that take effect once: a doubt about one can be repeated after this time."""
PAUSE_S = 0.4
"""How long ``sent_once`` stays after its effect, and ``slow_once`` before it."""
UNDER_WAY = "under_way"
"""A point that ``slow_once`` passes in its pause."""
EFFECTS: Mapping[str, Effect] = {
    "note_pure": "pure", "note_idem": "idempotent", "note_once": "once", "slow_once": "once", "sent_once": "once",
    "lost_once": "once",
}  # fmt: skip


class Line(NamedTuple):
    """One effect. ``key`` is the idempotency key of its call, ``at`` the time in microseconds."""

    key: str
    run: str
    tool: str
    attempt: int
    epoch: int
    pid: int
    at: int
    text: str


class Witness:
    """The external counter: one line for each effect, on the disk before the tool returns."""

    def __init__(self, place: Path) -> None:
        self._path = place / "witness"
        self._read: tuple[int, dict[str, list[Line]]] = 0, {}

    def write(self, tool: str, text: str, context: CallContext) -> None:
        now = time.time_ns() // 1000
        line = Line(context.call_id, context.trace_id, tool, context.attempt, context.epoch, os.getpid(), now, text)
        append(self._path, json.dumps(line))

    def lines(self) -> list[Line]:
        return [Line(*json.loads(line)) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def of(self, key: str) -> list[Line]:
        """The effects under one idempotency key."""
        return self._by_key().get(key, [])

    def _by_key(self) -> dict[str, list[Line]]:
        size = self._path.stat().st_size if self._path.exists() else 0
        if size != self._read[0]:
            found: dict[str, list[Line]] = {}
            for line in self.lines():
                found.setdefault(line.key, []).append(line)
            self._read = size, found
        return self._read[1]


def append(path: Path, line: str) -> None:
    """Add a line that survives whatever becomes of this process: one write, then on the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def tools(place: Path, once_s: float = ONCE_S) -> list[Tool]:
    """One tool of each effect class, and three more that take effect once: ``slow_once`` after a pause, ``sent_once``
    before one, and ``lost_once``, which cannot say what came of it."""
    witness = Witness(place)

    def made(name: str, before_s: float = 0.0, after_s: float = 0.0) -> Tool:
        async def handler(text: str, context: CallContext) -> Any:
            if before_s:
                loop = asyncio.get_running_loop()
                loop.call_later(before_s / 4, point, UNDER_WAY, bytes.fromhex(context.trace_id))
                await asyncio.sleep(before_s)
            witness.write(name, text, context)
            await asyncio.sleep(after_s)
            return ToolUnknown("the connection was lost") if name == "lost_once" else {"done": text}

        effect = EFFECTS[name]
        limit = once_s if effect == "once" else 20.0
        return Tool(ToolSpec(name, f"Takes a note ({effect}).", TEXT, None, effect, timeout_s=limit), handler)

    pauses = {"slow_once": (PAUSE_S, 0.0), "sent_once": (0.0, PAUSE_S)}
    return [made(name, *pauses.get(name, ())) for name in EFFECTS]


def calls(*names: str) -> list[str]:
    """What the model says in order to call these tools one after another, and then to answer."""
    asked = [f'Thought: Next.\nAction: tool:{name}\nargs: {{"text": "{n}"}}' for n, name in enumerate(names)]
    return [*asked, "Thought: That was all.\nAction: final: Done."]


THINK_MS = 150
QUICK = ("turn", "idem")
CALLED: Mapping[str, tuple[str, ...]] = {
    "pure": ("note_pure", "note_pure"), "idem": ("note_idem", "note_idem"), "once": ("note_once", "note_once"),
    "mixed": ("note_pure", "note_once", "note_idem"), "slow": ("slow_once",), "sent": ("sent_once",),
    "lost": ("lost_once",), "turn": ("note_idem",), "again": ("note_once", "note_once"),
}  # fmt: skip
"""The tools that runs call one after another, by the first word of their question."""


def rules(think_ms: int, later_ms: int) -> list[dict[str, Any]]:
    """What the model says after ``think_ms``, and after ``later_ms`` where it has been asked before: that bounds how
    soon a run can end, but for those that are ``QUICK``."""

    def after(first: int, later: int, texts: list[str]) -> list[dict[str, Any]]:
        return [{"chunks": [[text, later if turn else first]]} for turn, text in enumerate(texts)]

    found: list[dict[str, Any]] = []
    for kind, names in CALLED.items():
        quick = min(think_ms, THINK_MS) // 3
        delays = (quick, quick) if kind in QUICK else (think_ms, later_ms)
        found.append({"match": f"^{kind}", "replies": after(*delays, calls(*names))})
    three = [{"id": f"c{n}", "name": "note_pure", "arguments": {"text": str(n)}} for n in range(3)]
    return [*found, {"match": "^fan", "replies": [{"calls": three}, {"chunks": [["Done.", later_ms]]}]}]


KINDS = ("pure", "idem", "once", "mixed", "slow", "sent", "lost", "turn", "fan", "mixed")
"""What ten runs are."""
AGENTS: Mapping[str, dict[str, Any]] = {
    "worker": {},
    "teller": {"on_unknown": "tell"},
    "fan": {"protocol": "tools", "parallel": True},
}
AGENT_OF = {"fan": "fan", "again": "teller"}


def prepare(place: Path, think_ms: int = THINK_MS, later_ms: int = THINK_MS) -> dict[str, str]:
    """Write the model's script and the agents; return the settings that a process on ``place`` has."""
    agents = place / "agents"
    agents.mkdir(exist_ok=True)
    for name, fields in AGENTS.items():
        texts = {"zh": "测试。", "en": "A test."}
        data = {"name": name, "description": texts, "prompt": texts, "tools": list(EFFECTS), **fields}
        (agents / f"{name}.yaml").write_text(json.dumps(data), "utf-8")
    script = place / "script.json"
    script.write_text(json.dumps({"rules": rules(think_ms, later_ms)}), "utf-8")
    model = f"scripted:{script}"
    return {
        "data_dir": str(place / "data"), "agents_dir": str(agents), "agent_model": model, "chat_model": model,
    }  # fmt: skip
