"""A tool made in one line, and a call of it: what the tests of the registry share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devassist.core.scope import Scope
from devassist.core.tooling import Effect, ToolOutcome, ToolSpec
from devassist.ports.tools import CallContext
from devassist.tools.registry import Tool, ToolRegistry

SCOPE = Scope("default", "local")
CONTEXT = CallContext("t" * 32, "c" * 64, 1, 1, "2026-01-01")
NO_ARGS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
ONE_TEXT: dict[str, Any] = NO_ARGS | {"properties": {"text": {"type": "string"}}, "required": ["text"]}


def make(
    handler: Callable[..., Any],
    name: str = "probe",
    *,
    parameters: dict[str, Any] = NO_ARGS,
    result: dict[str, Any] | None = None,
    effect: Effect = "once",
    timeout_s: float = 5.0,
) -> Tool:
    return Tool(ToolSpec(name, "A probe.", parameters, result, effect, timeout_s), handler)


async def call(tool: Tool, args: dict[str, Any] | None = None) -> ToolOutcome:
    return await ToolRegistry([tool]).call(SCOPE, tool.spec.name, args or {}, CONTEXT)
