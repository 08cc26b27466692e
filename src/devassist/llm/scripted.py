"""``Scripted``: a model that answers what it was told to, for tests and for ``devassist serve`` under tests.

It keeps no state: which reply is given depends only on the request, so a run that is resumed in another process gets
the same replies. Replies are counted by *turns*: the assistant messages since the last plain user message.

A reply is one of

* a ``str``, or a ``ModelReply`` for native calls, token counts or a finish reason;
* a ``ProviderError``, which is raised (a fresh copy each time);
* ``Chunks``, or a list of them: pieces of text, each alone or with the milliseconds to wait before it;
* ``AfterFailures``: errors for the first attempts at this turn, then a reply. Attempts that gave no assistant turn are
  counted over the whole run, so a script has one such reply, or counts on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from devassist.core.errors import ProviderError
from devassist.core.messages import ModelReply
from devassist.core.scope import Scope
from devassist.llm.estimate import estimate_prompt, estimate_tokens
from devassist.llm.turns import current_turn
from devassist.ports.model import ModelKind, ModelRequest

EXHAUSTED = "script_exhausted"


@dataclass(frozen=True, slots=True)
class Chunks:
    """A streamed reply: each piece, or (piece, milliseconds to wait before it). ``error`` is raised after the last."""

    pieces: Sequence[str | tuple[str, float]]
    error: ProviderError | None = None


Plain = str | ModelReply | ProviderError | Chunks | list[str | tuple[str, float]]


@dataclass(frozen=True, slots=True)
class AfterFailures:
    """``errors`` for the attempts that fail, one each, and ``then`` once they are used up."""

    errors: tuple[ProviderError, ...]
    then: Plain


Reply = Plain | AfterFailures
Script = Callable[[ModelRequest], Reply]


class Scripted:
    """A scripted model; see the module's text.

    ``script`` is a list, of which turn ``i`` gets reply ``i``, or a function of the request. A list without a reply
    for a turn raises ProviderError ``script_exhausted``. Texts are streamed in pieces of ``chunk`` characters (0: one
    piece) with ``delay_ms`` before each; without ``on_delta`` the same time is waited. Tokens that a reply does not
    state are estimated.
    """

    def __init__(
        self, script: Sequence[Reply] | Script, *, name: str = "scripted", chunk: int = 0, delay_ms: float = 0
    ) -> None:
        self._script: Script = script if callable(script) else _by_turn(tuple(script))
        self._name = name
        self._chunk = chunk
        self._delay_ms = delay_ms

    @property
    def name(self) -> str:
        return self._name

    @property
    def kind(self) -> ModelKind:
        return "scripted"

    async def complete(
        self, scope: Scope, request: ModelRequest, on_delta: Callable[[str], None] | None = None
    ) -> ModelReply:
        """Give the script's reply. Raises the script's ProviderError, or ``script_exhausted``."""
        reply = self._script(request)
        if isinstance(reply, AfterFailures):
            failed = failures_before(request)
            reply = reply.errors[failed] if failed < len(reply.errors) else reply.then
        if isinstance(reply, ProviderError):
            raise again(reply)
        if isinstance(reply, list):
            reply = Chunks(reply)
        chunks = reply if isinstance(reply, Chunks) else self._cut(reply if isinstance(reply, str) else reply.text)
        for piece in chunks.pieces:
            text, wait_ms = (piece, 0.0) if isinstance(piece, str) else piece
            if wait_ms > 0:
                await asyncio.sleep(wait_ms / 1000)
            if text and on_delta is not None:
                on_delta(text)
        if chunks.error is not None:
            raise again(chunks.error)
        return reply if isinstance(reply, ModelReply) else self._counted(request, chunks)

    async def close(self) -> None:
        """Nothing to release."""

    def _cut(self, text: str) -> Chunks:
        size = self._chunk or max(1, len(text))
        return Chunks([(text[at : at + size], self._delay_ms) for at in range(0, max(1, len(text)), size)])

    def _counted(self, request: ModelRequest, chunks: Chunks) -> ModelReply:
        text = "".join(piece if isinstance(piece, str) else piece[0] for piece in chunks.pieces)
        return ModelReply(
            text=text,
            input_tokens=estimate_prompt(request.messages),
            output_tokens=estimate_tokens(text),
            model=self._name,
        )


def failures_before(request: ModelRequest) -> int:
    """How many attempts of the run gave no assistant turn, as far as the request tells."""
    return max(0, request.attempt - 1 - len(current_turn(request.messages).replies))


def again(error: ProviderError) -> ProviderError:
    """A copy to raise, since a raised error collects a traceback."""
    return ProviderError(
        error.detail,
        code=error.code,
        retryable=error.retryable,
        retry_after_ms=error.retry_after_ms,
        provider_status=error.provider_status,
        input_tokens=error.input_tokens,
        output_tokens=error.output_tokens,
    )


def exhausted(turn: int, known: int) -> ProviderError:
    return ProviderError(f"The script holds {known} replies and was asked for number {turn + 1}", code=EXHAUSTED)


def _by_turn(replies: tuple[Reply, ...]) -> Script:
    def script(request: ModelRequest) -> Reply:
        turn = len(current_turn(request.messages).replies)
        return replies[turn] if turn < len(replies) else exhausted(turn, len(replies))

    return script
