"""Any OpenAI-compatible endpoint, by aiohttp: chat completions with and without streaming, and the list of models.

There are no retries here: a retry is an event of the run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, cast

import aiohttp

from devassist.core.errors import ConfigInvalid, ProviderError
from devassist.core.messages import ModelReply
from devassist.core.scope import Scope
from devassist.llm.classify import as_object, provider_failure, retry_after_ms
from devassist.llm.endpoint import TOO_LARGE, TRANSPORT_ERRORS, Endpoint, SessionSettings, Watch
from devassist.llm.quirks import Quirks, quirks_for
from devassist.llm.render import encode_request
from devassist.llm.replies import UNREADABLE, StreamFold, loads, read_reply
from devassist.llm.sse import SseParser
from devassist.ports.model import ModelRequest

_LISTED = 50
_ERROR_BODY_BYTES = 64 * 1024
_TAIL_S = 5.0
"""How long usage is waited for after the finish reason."""
_DRAIN_S = 0.1
"""How long the end of the body is waited for after ``[DONE]``, so that the connection can be used again."""
_HINTS = {
    301: "it redirects, which is not followed",
    302: "it redirects, which is not followed",
    404: "no such path; OPENAI_BASE_URL has to end in /v1 where the endpoint does",
}


class OpenAICompatible:
    """The model behind ``base_url`` (with its ``/v1``); see ``devassist.ports.model.Model`` for the contract.

    ``model`` may be None until ``resolve_model`` has asked the endpoint. ``extra`` is sent with every request
    (temperature and its like). ``wall`` is the clock that HTTP dates are compared with. Raises ConfigInvalid for an
    unusable ``base_url``.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str | None = None,
        *,
        settings: SessionSettings | None = None,
        quirks: Quirks | None = None,
        extra: Mapping[str, Any] | None = None,
        wall: Callable[[], float] = time.time,
        socket: str | None = None,
    ) -> None:
        self._endpoint = Endpoint(base_url, api_key, settings or SessionSettings(), socket)
        self._settings = self._endpoint.settings
        self._chat_url = self._endpoint.url("chat/completions")
        self._models_url = self._endpoint.url("models")
        self._model = model or ""
        self._given_quirks = quirks
        self._quirks = quirks or quirks_for(self._model)
        self._extra = dict(extra or {})
        self._wall = wall

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._endpoint.origin!r}, model={self._model!r})"

    @property
    def name(self) -> str:
        """The model's id, empty until it is known."""
        return self._model

    @property
    def kind(self) -> Literal["openai"]:
        return "openai"

    @property
    def endpoint(self) -> str:
        """Where it is asked: the base URL without its query."""
        return self._endpoint.address

    async def complete(
        self, scope: Scope, request: ModelRequest, on_delta: Callable[[str], None] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> ModelReply:  # fmt: skip
        """One chat completion, streamed when ``on_delta`` is given. Raises ProviderError, as the port says. ``more`` is
        sent with this request, as ``extra`` is with every one.

        Codes besides those of ``classify.provider_failure``: ``provider_unreachable``, ``provider_timeout``,
        ``stream_interrupted`` (the connection was lost within the answer), ``stream_incomplete`` (it ended without a
        finish reason), ``reply_empty_choices``, ``reply_unreadable`` (all retryable), ``reply_too_large`` (not).
        """
        if not self._model:
            raise ConfigInvalid("OPENAI_MODEL is not set, and the endpoint was not asked for its models yet")
        stream = on_delta is not None
        extra = self._extra if more is None else {**self._extra, **more}
        body = encode_request(self._model, request, self._quirks, extra, stream=stream)

        async def exchange(watch: Watch) -> ModelReply:
            async with self._endpoint.session().post(
                self._chat_url, data=aiohttp.BytesPayload(body, content_type="application/json"), allow_redirects=False
            ) as answer:
                watch.touch(self._settings.first_token_s)
                if answer.status != 200:
                    raise await self._refusal(answer)
                kind = answer.content_type
                if kind == "text/event-stream" or (stream and "json" not in kind and "html" not in kind):
                    return await self._read_stream(answer, watch, on_delta)
                reply = read_reply(self._json(answer, await self._read(answer, watch)))
                if on_delta is not None and reply.text:
                    on_delta(reply.text)
                return reply

        return await self._endpoint.guarded(exchange, request.timeout_s)

    async def list_models(self, timeout_s: float = 10.0) -> list[str]:
        """The ids of ``GET /models``, in the endpoint's order. Raises ProviderError."""

        async def exchange(watch: Watch) -> list[str]:
            async with self._endpoint.session().get(self._models_url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise await self._refusal(answer)
                body = self._json(answer, await self._read(answer, watch))
            listed = as_object(body).get("data")
            if not isinstance(listed, list):
                raise provider_failure(answer.status, body, text="GET /models holds no list named data")
            names = [as_object(one).get("id") for one in cast("list[object]", listed)]
            return [name for name in names if isinstance(name, str) and name]

        return await self._endpoint.guarded(exchange, timeout_s)

    async def resolve_model(self) -> str:
        """The model's id: the given one, else the only one of the endpoint.

        Raises ConfigInvalid, listing them, when there is not exactly one, and ProviderError when they cannot be asked.
        """
        if not self._model:
            self._model = only_model(await self.list_models())
            self._quirks = self._given_quirks or quirks_for(self._model)
        return self._model

    async def close(self) -> None:
        await self._endpoint.close()

    async def _read(self, answer: aiohttp.ClientResponse, watch: Watch) -> bytes:
        """The whole body, bounded."""
        parts: list[bytes] = []
        size = 0
        while chunk := await answer.content.readany():
            size += len(chunk)
            self._check_size(size)
            parts.append(chunk)
            if answer.content.at_eof():
                break
            watch.touch(self._settings.idle_s)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_reply_bytes:
            detail = f"The provider's answer is longer than {self._settings.max_reply_bytes} bytes"
            raise ProviderError(detail, code=TOO_LARGE)

    async def _read_stream(
        self, answer: aiohttp.ClientResponse, watch: Watch, on_delta: Callable[[str], None] | None
    ) -> ModelReply:
        parser = SseParser(self._settings.max_event_bytes)
        fold = StreamFold()
        size = 0

        async def step(silence_s: float) -> bool:
            """Read once and fold what came; False at the end of the body."""
            nonlocal size
            chunk = await answer.content.readany()
            size += len(chunk)
            self._check_size(size)
            watch.touch(silence_s)
            for event in parser.feed(chunk) if chunk else parser.flush():
                fold.add(event)
            piece = fold.take_delta()
            if piece and on_delta is not None:
                on_delta(piece)
            return bool(chunk)

        while not fold.finished and await step(self._settings.idle_s):
            pass
        if fold.finished and not answer.content.at_eof():
            await self._tail(fold, step)
        return fold.result()

    async def _tail(self, fold: StreamFold, step: Callable[[float], Awaitable[bool]]) -> None:
        """Read on after the finish reason, for usage and to free the connection; silence or loss harms no more."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as timer:
                more = True
                while more:
                    timer.reschedule(loop.time() + (_DRAIN_S if fold.done else _TAIL_S))
                    more = await step(self._settings.idle_s)
        except TRANSPORT_ERRORS:
            return

    async def _refusal(self, answer: aiohttp.ClientResponse) -> ProviderError:
        """The error for an answer with a status other than 200."""
        head = b""
        try:
            while len(head) < _ERROR_BODY_BYTES and (chunk := await answer.content.readany()):
                head += chunk
        except TRANSPORT_ERRORS:
            pass  # the status says enough
        try:
            body = loads(head)
        except ValueError:
            body = None
        wait = retry_after_ms(answer.headers, self._wall())
        text = head.decode(errors="replace") or _HINTS.get(answer.status, "")
        return provider_failure(answer.status, body, text=text, retry_ms=wait)

    def _json(self, answer: aiohttp.ClientResponse, data: bytes) -> object:
        try:
            return loads(data)
        except ValueError:
            head = data[:600].decode(errors="replace")
            detail = f"The provider answered {answer.status} with {answer.content_type}, which is no JSON: {head}"
        raise ProviderError(detail, code=UNREADABLE, retryable=True, provider_status=answer.status)


def only_model(models: Sequence[str]) -> str:
    """The only model there is. Raises ConfigInvalid that lists them when OPENAI_MODEL has to choose."""
    if len(models) == 1:
        return models[0]
    if not models:
        raise ConfigInvalid("OPENAI_MODEL is not set, and the endpoint lists no models; set it to the model to use")
    shown = ", ".join(models[:_LISTED]) + (f" and {len(models) - _LISTED} more" if len(models) > _LISTED else "")
    raise ConfigInvalid(f"OPENAI_MODEL is not set, and the endpoint has several; set it to one of: {shown}")
