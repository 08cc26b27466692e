"""Any OpenAI-compatible endpoint of embeddings, by aiohttp.

No fault shows the key, the texts or more of an answer than its first words without the key: errors of aiohttp hold
what was sent, so none becomes the cause of ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from devassist.core.errors import ConfigInvalid, EmbedderUnavailable
from devassist.vectors.embedding_reply import Unusable, read_vectors
from devassist.vectors.retry_after import retry_after_s
from devassist.vectors.texts import readable

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_DETAIL_CHARS = 300
_CONNECT_S = 10.0

Kind = Literal["query", "passage"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How the endpoint is used. ``cut``: characters of a text that are sent; ``batch``: texts of a request. A request
    is made up to ``tries`` times, with ``pause_s`` before the second and twice as much before each later one, or what
    ``Retry-After`` asks for; where that is more than ``patience_s`` (for a query, which a person waits for,
    ``query_patience_s``) it fails at once."""

    cut: int = 1000
    batch: int = 32
    tries: int = 4
    pause_s: float = 1.0
    patience_s: float = 60.0
    query_patience_s: float = 2.0
    timeout_s: float = 60.0
    query_timeout_s: float = 10.0
    max_reply_bytes: int = 32 << 20


class _Again(Exception):
    """The same request may succeed later; ``after_s`` is when, as far as the endpoint said."""

    def __init__(self, detail: str, after_s: float | None = None) -> None:
        super().__init__(detail)
        self.after_s = after_s


class OpenAIEmbedder:
    """See ``devassist.ports.vectors.Embedder``. ``base_url`` has its ``/v1``. ``wall`` is the clock that HTTP dates are
    compared with. Raises ConfigInvalid for an address or a key that cannot be used."""

    def __init__(
        self, base_url: str, api_key: str | None, model: str, *, terms: Terms | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        base = _base(base_url)
        self._url = base.with_path(f"{base.path.rstrip('/')}/embeddings", keep_query=True)
        self._origin = str(base.origin())
        self._model = model
        self._terms = terms or Terms()
        self._wall = wall
        self._key = _checked(api_key)
        self._dimension = 0
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return f"openai/{self._origin.partition('://')[2]}/{self._model}/cut{self._terms.cut}"

    async def embed(self, texts: Sequence[str], kind: Kind) -> list[bytes]:
        vectors: list[bytes] = []
        for start in range(0, len(texts), self._terms.batch):
            batch = [readable(text, self._terms.cut) for text in texts[start : start + self._terms.batch]]
            vectors += await self._made(batch, kind)
        return vectors

    async def close(self) -> None:
        """Release connections; idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _made(self, batch: list[str], kind: Kind) -> list[bytes]:
        patience = self._terms.query_patience_s if kind == "query" else self._terms.patience_s
        pause = self._terms.pause_s
        for left in range(self._terms.tries - 1, -1, -1):
            try:
                body = await self._asked(batch, kind)
            except _Again as failed:
                wait = max(pause, failed.after_s or 0.0)
                pause *= 2
                if not left or wait > patience:
                    later = f"; it asks to wait {failed.after_s:g} s" if failed.after_s else ""
                    raise EmbedderUnavailable(f"{failed}{later}") from None
                patience -= wait
                await asyncio.sleep(wait)
            else:
                return await self._read(body, len(batch))
        raise AssertionError

    async def _read(self, body: bytes, count: int) -> list[bytes]:
        try:
            vectors = await asyncio.to_thread(read_vectors, body, count)
        except Unusable as error:
            raise self._fault(f"gave an answer that cannot be used: {error}") from None
        dimension = len(vectors[0]) // 4
        if dimension != (self._dimension or dimension):
            raise self._fault(f"made vectors of {dimension} numbers, and of {self._dimension} before")
        self._dimension = dimension
        return vectors

    async def _asked(self, batch: list[str], kind: Kind) -> bytes:
        """The body of an answer of success. Raises _Again, EmbedderUnavailable."""
        limit_s = self._terms.query_timeout_s if kind == "query" else self._terms.timeout_s
        timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=_CONNECT_S)
        data = orjson.dumps({"model": self._model, "input": batch})
        try:
            async with self._opened().post(self._url, data=data, timeout=timeout, allow_redirects=False) as response:
                body = await self._body(response)
                status, after_s = response.status, retry_after_s(response.headers, self._wall())
        except TimeoutError:
            failure = _Again(f"The embeddings endpoint {self._origin} did not answer within {limit_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            failure = _Again(f"The embeddings endpoint {self._origin} cannot be reached ({type(error).__name__})")
        else:
            if status == 200:
                return body
            said = f"answers {status}{self._words(body)}"
            if status in _AGAIN:
                raise _Again(f"The embeddings endpoint {self._origin} {said}", after_s)
            raise self._fault(said)
        raise failure

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > self._terms.max_reply_bytes:
                raise self._fault(f"answers with more than {self._terms.max_reply_bytes} bytes")
        return bytes(body)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            if self._closed:
                raise EmbedderUnavailable("The embedder is closed")
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "devassist"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._session = aiohttp.ClientSession(
                headers=headers, connector=aiohttp.TCPConnector(keepalive_timeout=4.0),
                cookie_jar=aiohttp.DummyCookieJar(), trust_env=False,
            )  # fmt: skip
        return self._session

    def _words(self, body: bytes) -> str:
        """The first words of a refusal, without the key in any spelling."""
        text = " ".join(body[:4096].decode("utf-8", "replace").split())
        if len(self._key) > 4:  # a shorter one is a dummy, and may be a part of any word
            for spelling in {self._key, quote(self._key, safe=""), self._key.replace("/", "\\/")}:
                text = text.replace(spelling, "***")
        return f": {text[:_DETAIL_CHARS]}" if text else ""

    def _fault(self, said: str) -> EmbedderUnavailable:
        return EmbedderUnavailable(f"The embeddings endpoint {self._origin} {said}")


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


def _checked(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigInvalid("OPENAI_API_KEY holds characters that cannot stand in a header; copy it again")
    return key
