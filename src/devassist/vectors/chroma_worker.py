"""The process that holds Chroma's client: of a directory, or of a server."""

from __future__ import annotations

import chromadb
import httpx
from chromadb.api import ClientAPI
from chromadb.config import Settings
from chromadb.errors import NotFoundError

from devassist.vectors import wire
from devassist.vectors.chroma_versions import Versions
from devassist.vectors.frames import Header
from devassist.vectors.worker import Answer, Handler, Refused, serve


class ChromaVersions:
    """Answers the requests of ``WorkerIndex``."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._pages = wire.KeyPages(versions.keys)

    def answer(self, header: Header, body: bytes) -> Answer:
        try:
            return self._answer(header, body), b""
        except httpx.HTTPError as error:
            raise Refused(f"the server cannot be reached ({type(error).__name__})") from None

    def _answer(self, header: Header, body: bytes) -> Header:
        operation, version = header["op"], header.get("version", "")
        match operation:
            case "versions":
                return {"versions": self._versions.counts()}
            case "search":
                return {"hits": self._versions.search(version, body, header["k"], header)}
            case "keys":
                return {"keys": self._pages.page(version, header["after"])}
            case "create":
                self._versions.create(version)
            case "drop":
                self._versions.drop(version)
            case "upsert":
                self._versions.put(version, wire.rows(header), body)
            case "remove":
                self._versions.remove(version, header["keys"])
            case _:
                raise Refused(f"it knows no {operation!r}")
        return {}


def connect(settings: Header) -> ClientAPI:
    """Raises Refused where a server does not answer."""
    quiet = Settings(anonymized_telemetry=False)
    if "path" in settings:
        return chromadb.PersistentClient(path=settings["path"], settings=quiet)
    try:
        return chromadb.HttpClient(host=settings["url"], settings=quiet)
    except (ValueError, httpx.HTTPError, NotFoundError) as error:
        raise Refused(f"no Chroma server answers at {settings['url']} ({type(error).__name__})") from None


def open_client(settings: Header) -> Handler:
    return ChromaVersions(Versions(connect(settings), settings["space"], settings["embedder"])).answer


if __name__ == "__main__":
    serve(open_client)
