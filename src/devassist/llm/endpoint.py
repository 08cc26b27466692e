"""One provider's address: its URLs and key, its session, and the guard that every exchange with it runs under.

The session is made in the loop that first uses it. Whatever leaves the guard as ProviderError has been cleaned of the
API key and cut to a readable length.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from devassist.core.errors import ConfigInvalid, ProviderError, Unavailable
from devassist.llm.sse import EventTooLong

UNREACHABLE = "provider_unreachable"
TIMEOUT = "provider_timeout"
INTERRUPTED = "stream_interrupted"
TOO_LARGE = "reply_too_large"

TRANSPORT_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What aiohttp raises when a connection or its framing breaks; the timer's TimeoutError is an OSError."""

_DETAIL_CHARS = 600

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Limits of one adapter's connections, in seconds and bytes.

    ``connect_s`` bounds opening a connection, ``first_token_s`` the wait for the first bytes of an answer, ``idle_s``
    each later silence; the whole call is bounded by the request's ``timeout_s``. ``keepalive_s`` is how long an idle
    connection is kept: below the 5 s after which uvicorn-based servers close theirs, since a request sent into a
    closing connection fails. ``max_reply_bytes`` bounds a whole answer, ``max_event_bytes`` one event of a stream.
    """

    connect_s: float = 10.0
    first_token_s: float = 120.0
    idle_s: float = 60.0
    keepalive_s: float = 4.0
    max_reply_bytes: int = 16 << 20
    max_event_bytes: int = 1 << 20


class Watch:
    """One call's clock: ``touch`` moves the deadline to the next allowed silence, never past the call's own end.

    A loop's timer costs more than a piece of an answer, so it is left alone while the deadline only moves away from
    it; when it rings early it is set anew.
    """

    __slots__ = ("_due", "_handle", "_loop", "_rings", "_timer", "end", "started")

    def __init__(self, timer: asyncio.Timeout, loop: asyncio.AbstractEventLoop, due: float, end: float) -> None:
        self._timer = timer
        self._loop = loop
        self._due = self._rings = due
        self._handle = loop.call_at(due, self._ring)
        self.end = end
        self.started = False

    def touch(self, silence_s: float) -> None:
        """Bytes came."""
        self.started = True
        self._due = min(self.end, self._loop.time() + silence_s)
        if self._due < self._rings:
            self._set()

    def stop(self) -> None:
        self._handle.cancel()

    def _set(self) -> None:
        self._handle.cancel()
        self._rings = self._due
        self._handle = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        if self._due > self._rings:
            self._set()
        else:
            self._timer.reschedule(self._due)

    @property
    def over(self) -> bool:
        """Whether the whole call, not only one silence, took too long."""
        return self._loop.time() >= self.end


class Endpoint:
    """A provider under ``base_url``, reached by a Unix ``socket`` where one is given. Raises ConfigInvalid for an
    address or a key that cannot be used."""

    def __init__(
        self, base_url: str, api_key: str | None, settings: SessionSettings, socket: str | None = None
    ) -> None:
        base = _base(base_url)
        key = _key(api_key)
        self.origin = str(base.origin())
        self.address = str(base.with_query(None).with_fragment(None)).rstrip("/")
        self.settings = settings
        self._base = base
        self._socket = socket
        self._headers = {"Accept-Encoding": "identity", "Content-Type": "application/json", "User-Agent": "devassist"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._secrets = _spellings(key)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def url(self, path: str) -> URL:
        """``path`` under the base; a query of the base (``api-version=…``) stays."""
        return self._base.with_path(f"{self._base.path.rstrip('/')}/{path}", keep_query=True)

    def session(self) -> aiohttp.ClientSession:
        """The session, opened at first use. Raises Unavailable once closed."""
        if self._session is None:
            if self._closed:
                raise Unavailable("the model adapter is closed")
            settings = self.settings
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=self._connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_s),
                trust_env=False,
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self._socket is not None:
            # llama.cpp closes the connection after a stream without saying so, and a new one costs nothing here.
            return aiohttp.UnixConnector(self._socket, limit=0, force_close=True)
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=self.settings.keepalive_s, ttl_dns_cache=30)

    async def close(self) -> None:
        """Release connections; idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def guarded(self, exchange: Callable[[Watch], Awaitable[T]], timeout_s: float) -> T:
        """Run one exchange under its timer, with every failure turned into a clean ProviderError.

        The errors of aiohttp hold request headers, so none may become the cause or context of ours.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        first = min(timeout_s, self.settings.connect_s + self.settings.first_token_s)
        timer = asyncio.timeout(None)
        watch = Watch(timer, loop, now + first, now + timeout_s)
        try:
            async with timer:
                return await exchange(watch)
        except ProviderError as error:
            failure = self._clean(error)
        except (*TRANSPORT_ERRORS, EventTooLong) as error:
            failure = self._transport_failure(error, watch)
        finally:
            watch.stop()
        raise failure

    def _transport_failure(self, error: Exception, watch: Watch) -> ProviderError:
        """Name the failure by its type and the system's words alone: other texts may quote what we sent."""
        kind, origin = type(error).__name__, self.origin
        if isinstance(error, EventTooLong):
            return ProviderError(f"The provider's stream cannot be accepted: {error}", code=TOO_LARGE)
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            return ProviderError(f"No secure connection to {origin} ({kind}): check its certificate", code=UNREACHABLE)
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            detail = f"No connection to {origin} within {self.settings.connect_s:g} s"
            return ProviderError(detail, code=UNREACHABLE, retryable=True)
        if isinstance(error, TimeoutError):
            late = "fell silent within its answer" if watch.started else "did not begin its answer in time"
            detail = f"The provider at {origin} {'did not finish in the time given' if watch.over else late}"
            return ProviderError(detail, code=TIMEOUT, retryable=True)
        what = f"{kind}: {error.strerror}" if isinstance(error, OSError) and error.strerror else kind
        if watch.started:
            return ProviderError(
                f"The connection was lost within the answer ({what})", code=INTERRUPTED, retryable=True
            )
        return ProviderError(f"{origin} cannot be reached ({what})", code=UNREACHABLE, retryable=True)

    def _clean(self, error: ProviderError) -> ProviderError:
        detail = error.detail
        for secret in self._secrets:
            detail = detail.replace(secret, "***")
        detail = " ".join(detail.split())
        if len(detail) > _DETAIL_CHARS:
            detail = detail[:_DETAIL_CHARS] + "…"
        return ProviderError(
            detail,
            code=error.code,
            retryable=error.retryable,
            retry_after_ms=error.retry_after_ms,
            provider_status=error.provider_status,
            input_tokens=error.input_tokens,
            output_tokens=error.output_tokens,
        )


def _base(base_url: str) -> URL:
    try:
        url = URL(base_url.strip())
        usable = url.scheme in ("http", "https") and bool(url.host)
    except ValueError:
        usable, url = False, URL()
    if not usable:
        raise ConfigInvalid("OPENAI_BASE_URL is not an http or https address; it looks like http://127.0.0.1:11434/v1")
    if url.user is not None or url.password is not None:
        raise ConfigInvalid("OPENAI_BASE_URL holds a user or password; give the key as OPENAI_API_KEY")
    return url


def _key(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigInvalid("OPENAI_API_KEY holds characters that cannot stand in a header; copy it again")
    return key


def _spellings(key: str) -> tuple[str, ...]:
    """How a key may come back in a provider's text. One of a few letters is a dummy (``none``) and stays."""
    if len(key) < 5:
        return ()
    return tuple({key, quote(key, safe=""), key.replace("/", "\\/"), b64encode(key.encode()).decode().rstrip("=")})
