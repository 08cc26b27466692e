"""The embedded model for tests, what it is asked, and what /proc tells of its process."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import ConfigInvalid
from devassist.core.messages import ChatMessage
from devassist.core.react import protocol_instructions
from devassist.core.scope import Scope
from devassist.core.tooling import ToolSpec
from devassist.llm.embedded import installed
from devassist.ports.model import ModelRequest

SCOPE = Scope("default", "ann")
SYSTEM: dict[Any, str] = {"en": "You help the staff.", "zh": "你为员工解答问题。"}


def model_file() -> Path:
    """Its file. Where it is not installed a user's test is skipped with the way to get it; in CI it fails."""
    try:
        return installed()
    except ConfigInvalid as error:
        if os.environ.get("CI") == "true":
            pytest.fail(error.detail)
        pytest.skip(error.detail)


def ask(text: str, lang: Any = "en", tools: tuple[ToolSpec, ...] = (), **more: Any) -> ModelRequest:
    """A question to an agent in the text protocol, or in plain chat where there are no tools."""
    system = SYSTEM[lang] + ("\n\n" + protocol_instructions(lang, tools) if tools else "")
    messages = (ChatMessage("system", system), ChatMessage("user", text))
    return ModelRequest(messages, tool_names=tuple(tool.name for tool in tools), lang=lang, **more)


def children(pid: int) -> list[int]:
    """The servers of embedded models that process ``pid`` started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if b"embedded_server" in Path(f"/proc/{child}/cmdline").read_bytes()]


def sockets(pid: int) -> set[str]:
    """Inodes of the sockets that a process holds."""
    found: set[str] = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.update(re.findall(r"socket:\[(\d+)\]", os.readlink(link)))
        except FileNotFoundError:
            continue  # the one of this very listing
    return found


def listening() -> set[str]:
    """Inodes of all sockets that listen on a TCP port, or take UDP, on this machine."""
    found: set[str] = set()
    for name, states in (("tcp", {"0A"}), ("tcp6", {"0A"}), ("udp", {"07"}), ("udp6", {"07"})):
        path = Path(f"/proc/self/net/{name}")
        rows = [line.split() for line in path.read_text().splitlines()[1:]] if path.exists() else []
        found.update(row[9] for row in rows if row[3] in states)
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True
