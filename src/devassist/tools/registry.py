"""The tools of a process: declared once, checked on every call (adapter of ``ports.tools.ToolBox``)."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from devassist.core.errors import ServiceFault, ToolExists, ToolNotFound, ToolSchemaInvalid, Unavailable
from devassist.core.scope import Scope
from devassist.core.tooling import (
    ToolFailure,
    ToolNeedsApproval,
    ToolOutcome,
    ToolResult,
    ToolRetry,
    ToolSpec,
    ToolUnknown,
)
from devassist.ports.tools import CallContext
from devassist.tools.compiled import CompiledSchema, json_faults
from devassist.tools.outcomes import ToolSignal

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OURS = frozenset({"context", "scope"})
_MOST_THREADS = 64


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what it is and what does it.

    ``handler``, sync or async, is called with the checked arguments as keywords, and with ``context``
    (CallContext) and ``scope`` (Scope) where it declares parameters of these names. It returns a JSON value (then the
    result) or a ToolOutcome, or raises one of ``tools.outcomes``; anything else that it raises is a fault of ours.
    """

    spec: ToolSpec
    handler: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    tool: Tool
    parameters: CompiledSchema
    result: CompiledSchema | None
    takes: frozenset[str]
    is_async: bool


class ToolRegistry:
    """Tools by name. Async handlers run on the loop, sync ones in a thread of their own, each within its timeout."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._entries: dict[str, _Entry] = {}
        self._threads = _Threads()
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises ToolExists, and ToolSchemaInvalid for a declaration that could not be called safely."""
        name = tool.spec.name
        if not _NAME.fullmatch(name):
            raise ToolSchemaInvalid(f"tool name {name[:80]!r}: use a-z, 0-9, _; a letter first; 64 characters at most")
        if name in self._entries:
            raise ToolExists(f"A tool named {name!r} is registered already; names are unique.")
        self._entries[name] = _entry(tool)

    def get(self, name: str) -> Tool:
        """Raises ToolNotFound, which lists the names that exist."""
        return self._entry(name).tool

    def list(self) -> tuple[Tool, ...]:
        """All tools, ordered by name."""
        return tuple(self._entries[name].tool for name in sorted(self._entries))

    def spec(self, name: str) -> ToolSpec:
        """Raises ToolNotFound."""
        return self._entry(name).tool.spec

    def specs(self) -> tuple[ToolSpec, ...]:
        """All specs, ordered by name."""
        return tuple(tool.spec for tool in self.list())

    def to_openai_tools(self, names: Iterable[str] | None = None) -> tuple[dict[str, Any], ...]:
        """The ``tools`` array of a chat completion request, for the tools named or for all. Raises ToolNotFound."""
        specs = self.specs() if names is None else [self.spec(name) for name in names]
        return tuple(
            {"type": "function", "function": {"name": s.name, "description": s.description, "parameters": s.parameters}}
            for s in specs
        )

    async def call(self, scope: Scope, name: str, args: dict[str, Any], context: CallContext) -> ToolOutcome:
        """See ``ports.tools.ToolBox.call``.

        ServiceFault codes: ``tool_fault`` (the handler raised) and ``tool_result_invalid`` (what it returned does not
        fit its declaration); a ServiceFault that a handler raises passes as it is. A cancelled call ends at once; a
        sync handler's thread cannot be stopped: it may see ``context.cancelled``, and what it returns later is dropped.
        """
        entry = self._entry(name)
        spec = entry.tool.spec
        given = dict(entry.parameters.check(name, args))
        if entry.takes:
            given.update({key: value for key, value in (("context", context), ("scope", scope)) if key in entry.takes})
        limit = asyncio.timeout(spec.timeout_s)
        try:
            async with limit:
                value = await self._run(entry, given, context)
        except ToolSignal as signal:
            return signal.outcome
        except ServiceFault:
            raise
        except TimeoutError as error:
            if limit.expired():
                return _timed_out(spec)
            raise _fault(spec, error) from error
        except (Exception, SystemExit) as error:
            raise _fault(spec, error) from error
        return _outcome(entry, value)

    async def _run(self, entry: _Entry, given: dict[str, Any], context: CallContext) -> Any:
        try:
            return await (entry.tool.handler(**given) if entry.is_async else self._threads.run(entry.tool, given))
        except asyncio.CancelledError:
            context.cancelled.set()
            raise

    def _entry(self, name: str) -> _Entry:
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(sorted(self._entries)) or "none"
            raise ToolNotFound(f"There is no tool {name[:80]!r}. Tools: {known}.") from None


class _Threads:
    """One daemon thread per call of a sync handler: a hung handler holds up neither another call nor the exit."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(_MOST_THREADS)

    async def run(self, tool: Tool, given: dict[str, Any]) -> Any:
        """Raises what the handler raises, and Unavailable before starting while too many threads are still busy."""
        if not self._free.acquire(blocking=False):
            raise Unavailable(f"{_MOST_THREADS} sync tools are still running; {tool.spec.name} was not started.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        inherited = copy_context()

        def deliver(value: Any, error: BaseException | None) -> None:
            if not done.done():
                done.set_result((value, error))

        def work() -> None:
            value, error = None, None
            try:
                value = inherited.run(tool.handler, **given)
            except BaseException as raised:  # noqa: BLE001 (a thread hands everything over, SystemExit too)
                error = raised
            self._free.release()
            with suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(deliver, value, error)

        threading.Thread(target=work, name=f"tool-{tool.spec.name}", daemon=True).start()
        value, error = await done
        if isinstance(error, Exception):
            raise error
        if error is not None:
            raise _fault(tool.spec, error) from error
        return await value if inspect.isawaitable(value) else value


def _entry(tool: Tool) -> _Entry:
    """Compile a declaration. Raises ToolSchemaInvalid."""
    spec = tool.spec
    try:
        if spec.parameters.get("type") != "object":
            raise ToolSchemaInvalid('parameters: must be an object schema ("type": "object")')
        parameters = CompiledSchema(spec.parameters)
        result = None if spec.result is None else CompiledSchema(spec.result)
        takes = _accepted(tool)
    except ToolSchemaInvalid as error:
        raise ToolSchemaInvalid(f"{spec.name}: {error.detail}") from None
    is_async = inspect.iscoroutinefunction(tool.handler) or inspect.iscoroutinefunction(
        getattr(tool.handler, "__call__", None)  # noqa: B004 (an object whose __call__ is async)
    )
    return _Entry(tool, parameters, result, takes, is_async)


def _accepted(tool: Tool) -> frozenset[str]:
    """Which of context and scope the handler takes; refuses a schema that lets through what the handler cannot take."""
    schema = tool.spec.parameters
    known: dict[str, Any] = schema.get("properties", {})
    if clash := sorted(_OURS & known.keys()):
        raise ToolSchemaInvalid(f"{clash[0]!r} cannot be an argument: handlers get the call's own under this name")
    parameters = inspect.signature(tool.handler).parameters.values()
    by_name = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        if foreign := sorted(known.keys() - by_name.keys()):
            raise ToolSchemaInvalid(f"the handler has no parameter {foreign[0]!r}")
        if schema.get("additionalProperties") is not False:
            raise ToolSchemaInvalid('set "additionalProperties": false; the handler takes no other arguments')
    required: list[str] = schema.get("required", [])
    for parameter in by_name.values():
        if parameter.default is parameter.empty and parameter.name not in {*required, *_OURS}:
            raise ToolSchemaInvalid(f"the handler needs {parameter.name!r}, which the schema does not require")
    return _OURS & by_name.keys()


def _timed_out(spec: ToolSpec) -> ToolOutcome:
    said = f"{spec.name} did not end within {spec.timeout_s:g} s"
    if spec.effect == "pure":
        return ToolFailure("tool_timeout", f"{said}; nothing was changed.", status=504)
    return ToolUnknown(f"{said}; whether it took effect is not known.")


def _fault(spec: ToolSpec, error: BaseException) -> ServiceFault:
    """The type only: an exception's text may hold anything, a secret too. The cause travels in ``__cause__``."""
    return ServiceFault(f"The tool {spec.name} failed: {type(error).__name__}.", code="tool_fault")


def _outcome(entry: _Entry, value: Any) -> ToolOutcome:
    if isinstance(value, ToolRetry | ToolFailure | ToolNeedsApproval | ToolUnknown):
        return value
    result = value if isinstance(value, ToolResult) else ToolResult(value)
    faults = json_faults(result.value) if entry.result is None else entry.result.faults(result.value)
    if faults:
        path, message = faults[0]
        detail = f"The result of {entry.tool.spec.name} does not fit its declaration: {path or '/'}: {message}."
        raise ServiceFault(detail, code="tool_result_invalid")
    return result
