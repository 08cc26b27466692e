"""The world outside of a run under test: a clock that can be moved on, and tools that keep count of what they did."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from devassist.core.tooling import Effect, ToolSpec
from devassist.ports.tools import CallContext
from devassist.runtime.clock import SystemClock
from devassist.tools.registry import Tool

TEXT = {
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False,
}  # fmt: skip


class MovedClock(SystemClock):
    """The host's clock, ahead by what a test has moved it on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def forward(self, seconds: float) -> None:
        self.ahead += seconds

    def now_us(self) -> int:
        return super().now_us() + int(self.ahead * 1_000_000)

    def boottime_us(self) -> int:
        return super().boottime_us() + int(self.ahead * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        self.forward(seconds)
        await asyncio.sleep(0)


Does = Callable[[str, CallContext], Awaitable[Any]]


class World:
    """``done`` counts effects by tool, ``keys`` by idempotency key; ``seen`` is every call in order. ``does`` names
    what a tool does instead of echoing its text."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()
        self.seen: list[tuple[str, str, CallContext]] = []
        self.does: dict[str, Does] = {}
        self.running = 0
        self.most_running = 0

    def tool(self, name: str, effect: Effect, *, timeout_s: float = 5.0, needs_approval: bool = False) -> Tool:
        async def handler(text: str, context: CallContext) -> Any:
            self.seen.append((name, text, context))
            self.running += 1
            self.most_running = max(self.running, self.most_running)
            try:
                result = await self.does[name](text, context) if name in self.does else {"echo": text}
            finally:
                self.running -= 1
            self.done[name] += 1
            self.keys[context.call_id] += 1
            return result

        spec = ToolSpec(
            name, f"The tool {name}.", TEXT, None, effect, timeout_s=timeout_s, needs_approval=needs_approval
        )  # fmt: skip
        return Tool(spec, handler)

    def tools(self, **options: Any) -> list[Tool]:
        """``look`` is pure, ``put`` idempotent, ``mail`` takes effect once."""
        effects: dict[str, Effect] = {"look": "pure", "put": "idempotent", "mail": "once"}
        return [self.tool(name, effect, **options) for name, effect in effects.items()]


async def forever(text: str, context: CallContext) -> Any:
    await asyncio.sleep(3600)


def call(tool: str, text: str = "x", **args: Any) -> str:
    """A reply that asks for one call."""
    return f"Thought: I need {tool}.\nAction: tool:{tool}\nargs: {json.dumps(args or {'text': text})}"


def final(text: str = "Done.") -> str:
    return f"Thought: I know.\nAction: final: {text}"


async def until(condition: Callable[[], Any], seconds: float = 5.0) -> None:
    """Wait until ``condition`` holds; raises TimeoutError when it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


async def ended(condition: Callable[[], Coroutine[Any, Any, Any]], seconds: float = 5.0) -> Any:
    """As ``until``, for a condition that is awaited; returns what it gave."""
    async with asyncio.timeout(seconds):
        while not (found := await condition()):
            await asyncio.sleep(0.005)
    return found
