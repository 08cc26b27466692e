"""The Docker Engine's API over its Unix socket: the few calls that a sandbox needs, without an SDK.

Whoever reaches the socket is root on the host. ``EngineError`` is an answer that says no, ``SandboxUnavailable`` an
engine that cannot be reached or does not answer in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

import aiohttp

from devassist.core.errors import SandboxUnavailable

NEWEST_API = (1, 47)
"""The newest version of the API that this code was written for; an older engine is spoken to in its own."""
CALL_S = 30.0
_READ_BYTES = 1 << 16


class EngineError(Exception):
    """The engine refused: ``status`` and its own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Image:
    """``id`` is its content hash; ``volumes`` are places that it declares writable."""

    id: str
    volumes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container stands. ``code`` is 128 + n for a signal n."""

    running: bool
    code: int
    oom_killed: bool
    pid: int


class Attached:
    """A container's streams: what it writes comes framed (output.py), what is sent reaches its stdin.

    Closing it ends the container's stdin.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Some bytes; none at the end, also when the connection breaks."""
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError:
            return b""

    @property
    def over(self) -> bool:
        """The container has ended, as far as is known without waiting."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def send(self, data: bytes) -> None:
        """Raises OSError when nobody is there."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.transport.abort()


class Engine:
    """One engine, of one event loop. ``open`` before anything else."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._base = ""
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Raises SandboxUnavailable when no engine answers."""
        if self._session is not None:
            return
        connector = aiohttp.UnixConnector(str(self._socket), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        try:
            version = await self.get("/version")
            newest = tuple(map(int, str(version["ApiVersion"]).split(".")))
        except (SandboxUnavailable, EngineError, KeyError, ValueError) as error:
            await self.close()
            raise SandboxUnavailable(f"No Docker engine answers on {self._socket}: {error}") from None
        self._base = "/v{}.{}".format(*min(newest, NEWEST_API))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def runtimes(self) -> tuple[str, ...]:
        found: dict[str, Any] = (await self.get("/info")).get("Runtimes") or {}
        return tuple(found)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return await self._call("GET", path, query)

    async def image(self, name: str) -> Image | None:
        """None when the engine does not have it: nothing is pulled behind anybody's back."""
        try:
            facts = await self.get(f"/images/{quote(name, safe='/:@')}/json")
        except EngineError as error:
            if error.status == 404:
                return None
            raise
        config: dict[str, Any] = facts.get("Config") or {}
        volumes: dict[str, Any] = config.get("Volumes") or {}
        return Image(str(facts["Id"]), tuple(volumes))

    async def load_rootfs(self, archive: Path, repository: str, tag: str) -> None:
        """Make an image of a root file system (a tar archive)."""

        async def chunks() -> AsyncIterator[bytes]:
            with archive.open("rb") as file:
                while block := await asyncio.to_thread(file.read, 1 << 20):
                    yield block

        query = {"fromSrc": "-", "repo": repository, "tag": tag}
        answer = await self._call("POST", "/images/create", query, chunks(), 600)
        if isinstance(answer, dict) and "error" in answer:
            raise EngineError(500, str(cast("dict[str, Any]", answer)["error"]))

    async def create(self, name: str, body: Mapping[str, Any]) -> None:
        await self._call("POST", "/containers/create", {"name": name}, body)

    async def start(self, name: str) -> None:
        await self._call("POST", f"/containers/{name}/start")

    async def kill(self, name: str) -> None:
        """SIGKILL to everything in it; one that has ended or is gone is none of our business."""
        try:
            await self._call("POST", f"/containers/{name}/kill")
        except EngineError as error:
            if error.status not in (404, 409):
                raise

    async def remove(self, name: str) -> None:
        """Kill and remove; one that is gone, or about to be, is as wanted."""
        try:
            await self._call("DELETE", f"/containers/{name}", {"force": "1", "v": "1"})
        except EngineError as error:
            if error.status != 404 and "already in progress" not in error.message:
                raise

    async def state(self, name: str) -> Exit:
        facts = (await self.get(f"/containers/{name}/json"))["State"]
        return Exit(bool(facts["Running"]), int(facts["ExitCode"]), bool(facts["OOMKilled"]), int(facts["Pid"]))

    async def containers(self, label: str, value: str) -> dict[str, dict[str, str]]:
        """Labels of all containers, also ended ones, by their id, where ``label`` has this value."""
        filters = json.dumps({"label": [f"{label}={value}"]})
        rows: list[dict[str, Any]] = await self.get("/containers/json", {"all": "1", "filters": filters})
        return {str(row["Id"]): dict(row["Labels"] or {}) for row in rows}

    async def attach(self, name: str) -> Attached:
        """Streams of a container that was created, before its start: nothing is missed."""
        target = f"{self._base}/containers/{name}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        head = f"POST {target} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        try:
            async with asyncio.timeout(CALL_S):
                reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=_READ_BYTES)
                attached = Attached(reader, writer)
                try:
                    await attached.send(f"{head}Content-Length: 0\r\n\r\n".encode())
                    answer = await reader.readuntil(b"\r\n\r\n")
                    status = int(answer.split(b" ", 2)[1])
                    if status not in (101, 200):
                        raise EngineError(status, "attaching was refused")
                except BaseException:
                    attached.close()
                    raise
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise SandboxUnavailable(f"The Docker engine broke off while attaching: {_words(error)}") from None
        return attached

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | AsyncIterator[bytes] | None = None,
        within_s: float = CALL_S,
    ) -> Any:
        if self._session is None:
            raise SandboxUnavailable("The connection to the Docker engine is closed")
        url = f"http://docker{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        payload: dict[str, Any] = {"json": body} if isinstance(body, Mapping) else {"data": body}
        try:
            async with asyncio.timeout(within_s), self._session.request(method, url, **payload) as response:
                data = await response.read()
                status = response.status
        except (aiohttp.ClientError, OSError) as error:
            what = f"{method} {path.partition('?')[0]}"
            raise SandboxUnavailable(f"The Docker engine did not answer {what}: {_words(error)}") from None
        answer = _parsed(data)
        if status >= 300 and status != 304:
            said = cast("dict[str, Any]", answer).get("message") if isinstance(answer, dict) else None
            raise EngineError(status, str(said or data[:300].decode("utf-8", "replace")))
        return answer


def _parsed(data: bytes) -> Any:
    """The JSON, or of a stream of JSON lines the last; None where there is none."""
    for text in (data, data.strip().rpartition(b"\n")[2]):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return None


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
