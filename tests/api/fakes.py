"""Tools and scripted replies that the API's tests share."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import Any

from devassist.core.tooling import Effect, ToolSpec
from devassist.ports.tools import CallContext
from devassist.tools.registry import Tool


def schema(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


SEARCH = schema(
    "query", query={"type": "string", "minLength": 1}, top_k={"type": "integer", "minimum": 1, "maximum": 50}
)  # fmt: skip
CODE = schema(
    "code", code={"type": "string", "minLength": 1}, timeout_s={"type": "integer", "minimum": 1, "maximum": 60}
)  # fmt: skip

PRINTED = {"stdout": "ok", "stderr": "", "exit_code": 0}
"""What comes of every program."""


@dataclass
class Fakes:
    """Tools that note what reached them. ``sleeping`` counts handlers of ``wait`` that are asleep."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    sleeping: int = 0
    began: threading.Event = field(default_factory=threading.Event)
    awake: threading.Event = field(default_factory=threading.Event)
    woke: threading.Event = field(default_factory=threading.Event)
    dug: int = 0
    digging: threading.Event = field(default_factory=threading.Event)
    big: int = 0

    def tools(self) -> list[Tool]:
        return [
            self._tool("search_docs", SEARCH, self.search),
            self._tool("execute_code", CODE, self.execute, "once"),
            self._tool("wait", schema("seconds", seconds={"type": "number"}), self.wait, "once"),
            Tool(
                ToolSpec("pay", "Needs a person.", schema("amount", amount={"type": "integer"}), needs_approval=True),
                self.pay,
            ),
            self._tool("nap", schema(), self.nap),
            self._tool("dig", schema("query", query={"type": "string"}), self.dig),
            self._tool("big", schema("size", size={"type": "integer"}), self.large),
        ]

    def _tool(self, name: str, parameters: dict[str, Any], handler: Any, effect: Effect = "pure") -> Tool:
        return Tool(ToolSpec(name, f"The test's {name}.", parameters, effect=effect, timeout_s=60.0), handler)

    async def search(self, **args: Any) -> dict[str, Any]:
        self.calls.append(("search_docs", args))
        return {"hits": []}

    async def execute(self, **args: Any) -> dict[str, Any]:
        self.calls.append(("execute_code", args))
        return PRINTED

    async def wait(self, seconds: float) -> dict[str, Any]:
        self.sleeping += 1
        self.began.set()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.sleeping -= 1
        return {"slept": seconds}

    def nap(self) -> dict[str, Any]:
        """Blocks its thread until ``awake``."""
        self.awake.wait(60)
        self.woke.set()
        return {"napped": True}

    async def dig(self, query: str, context: CallContext) -> dict[str, Any]:
        """A search in a thread pool that goes on until nobody wants it any more."""
        return await asyncio.to_thread(self._search_on, context)

    def _search_on(self, context: CallContext) -> dict[str, Any]:
        self.digging.set()
        try:
            while not context.cancelled.wait(0.01):
                self.dug += 1
        finally:
            self.digging.clear()
        return {"hits": []}

    async def pay(self, amount: int) -> dict[str, Any]:
        self.calls.append(("pay", {"amount": amount}))
        return {"paid": amount}

    async def large(self, size: int) -> dict[str, Any]:
        return {"text": "字" * size}


def call(tool: str, thought: str = "t", **args: Any) -> str:
    """A reply that calls a tool, in the text protocol."""
    return f"Thought: {thought}\nAction: tool:{tool}\nargs: {json.dumps(args, ensure_ascii=False)}"


def final(text: str, thought: str = "t") -> str:
    return f"Thought: {thought}\nAction: final: {text}"
