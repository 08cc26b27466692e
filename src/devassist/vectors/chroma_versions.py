"""Versions of an index as collections of Chroma. For the worker process: it needs chromadb and numpy.

Of a clause its columns are kept as metadata, each of one type, all of them always: a record without a key would pass
every negative filter, and fail every positive one. Who may see it stands in one column, ``access``, the sorted labels
as JSON; the collection lists every value of it that it ever held, so that a search names the values it may see.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import orjson
from chromadb.api import ClientAPI
from chromadb.api.models.Collection import Collection  # pyright: ignore[reportMissingTypeStubs]
from chromadb.errors import NotFoundError

from devassist.vectors.matrix import Floats, read_vectors
from devassist.vectors.wire import Row, may_see
from devassist.vectors.worker import Refused

HNSW: dict[str, Any] = {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 300}
"""Chroma's defaults find .78 of the ten nearest among 20,000 statutes and near copies of them, these .998."""
_PAGE = 5000
_DECIMALS = 6
_NAME_CHARS = 100
_OPEN = "[]"

Hit = tuple[int, float]


@dataclass(slots=True)
class Version:
    """A collection with what its metadata says. ``dimension`` is 0 before the first vectors; ``access`` are the values
    of that column."""

    collection: Collection
    dimension: int
    embedder: str
    access: list[str]


class Versions:
    """The versions of one ``space``; vectors come from ``embedder``. Raises Refused."""

    def __init__(self, client: ClientAPI, space: str, embedder: str) -> None:
        self._client = client
        self._space = space
        self._embedder = embedder
        self._open: dict[str, Version] = {}

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        offset = 0
        while page := self._client.list_collections(limit=_PAGE, offset=offset):
            for each in page:
                told = each.metadata or {}
                if told.get("space") == self._space and "version" in told:
                    found[str(told["version"])] = each.count()
            offset += len(page)
        return found

    def create(self, version: str) -> None:
        if self._find(version) is None:
            told = {
                "space": self._space, "version": version, "dimension": 0, "embedder": self._embedder,
                "access": _json([_OPEN]),
            }  # fmt: skip
            self._client.create_collection(
                self._name(version), metadata=told, embedding_function=None, configuration={"hnsw": cast("Any", HNSW)}
            )

    def drop(self, version: str) -> None:
        self._open.pop(version, None)
        with contextlib.suppress(NotFoundError):
            self._client.delete_collection(self._name(version))

    def put(self, version: str, rows: Sequence[Row], body: bytes) -> None:
        there = self._of(version)
        vectors = read_vectors(body, len(rows), there.dimension, version)
        self._note(there, vectors.shape[1], {_json(list(row.labels)) for row in rows})
        there.collection.upsert(
            ids=[str(row.key) for row in rows], embeddings=vectors, metadatas=[_metadata(row) for row in rows]
        )

    def remove(self, version: str, keys: Sequence[int]) -> None:
        there = self._of(version)
        if keys:
            there.collection.delete(ids=[str(key) for key in keys])

    def keys(self, version: str) -> dict[int, str]:
        collection, found = self._of(version).collection, dict[int, str]()
        while True:
            page = collection.get(include=["metadatas"], limit=_PAGE, offset=len(found))
            if not page["ids"]:
                return found
            for key, told in zip(page["ids"], page["metadatas"] or [], strict=True):
                found[int(key)] = str(told["stamp"])

    def search(self, version: str, body: bytes, k: int, wanted: Mapping[str, Any]) -> list[Hit]:
        there = self._of(version)
        (vector,) = read_vectors(body, 1, there.dimension, version)
        condition = where(wanted, there.access)
        found = there.collection.query(
            query_embeddings=cast("Any", [vector]), n_results=k, where=condition, include=["distances"]
        )
        distances = (found["distances"] or [[]])[0]
        hits = [(int(key), 1 - distance) for key, distance in zip(found["ids"][0], distances, strict=True)]
        if len(hits) < k and len(there.collection.get(where=condition, include=[], limit=k)["ids"]) > len(hits):
            hits = _compared(there.collection, condition, vector)  # the graph led past some
        return sorted(((key, round(score, _DECIMALS)) for key, score in hits), key=lambda hit: (-hit[1], hit[0]))[:k]

    def _note(self, there: Version, dimension: int, access: set[str]) -> None:
        """Keep what is new before it is used: a clause that is put then is found by those who may see it."""
        new = sorted(access.difference(there.access))
        if new or not there.dimension:
            told = dict(there.collection.metadata) | {"dimension": dimension, "access": _json([*there.access, *new])}
            there.collection.modify(metadata=told)
            there.dimension = dimension
            there.access.extend(new)

    def _of(self, version: str) -> Version:
        there = self._find(version)
        if there is None:
            raise Refused(f"there is no version {version!r}; it has to be created and filled")
        return there

    def _find(self, version: str) -> Version | None:
        if version in self._open:
            return self._open[version]
        try:
            collection = self._client.get_collection(self._name(version), embedding_function=None)
        except NotFoundError:
            return None
        told: Any = collection.metadata
        there = Version(collection, told["dimension"], told["embedder"], orjson.loads(told["access"]))
        if there.embedder != self._embedder:
            raise Refused(
                f"the version {version!r} holds vectors of {there.embedder!r} (of {there.dimension} numbers), and "
                f"the embedder is {self._embedder!r}: fill a new version with its vectors"
            )
        self._open[version] = there
        return there

    def _name(self, version: str) -> str:
        """Readable, and never that of another version: letters that Chroma does not allow are replaced, so a sum of
        the true ones follows."""
        plain = re.sub(r"[^a-zA-Z0-9.-]+", "-", f"{self._space}-{version}").strip(".-")[:_NAME_CHARS]
        digest = hashlib.sha256(_json([self._space, version]).encode()).hexdigest()
        return f"{plain or 'version'}-{digest[:12]}"


def _metadata(row: Row) -> dict[str, str | int]:
    return {
        "from": row.valid_from, "to": row.valid_to, "collection": row.collection, "doc": row.doc, "kind": row.kind,
        "lang": row.lang, "access": _json(list(row.labels)), "stamp": row.stamp,
    }  # fmt: skip


def where(wanted: Mapping[str, Any], access: Sequence[str]) -> Any:
    """Only ever what has to be there: a negated condition would also pass what lacks the key."""
    clauses: list[dict[str, Any]] = [{"from": {"$lte": wanted["day"]}}, {"to": {"$gt": wanted["day"]}}]
    clauses += [{name: {"$in": wanted[name]}} for name in ("collection", "doc", "kind", "lang") if wanted[name]]
    if wanted["labels"] is not None:
        seen = [each for each in access if may_see(orjson.loads(each), wanted["labels"])]
        clauses.append({"access": {"$in": seen}})
    return {"$and": clauses}


def _compared(collection: Collection, condition: Any, vector: Floats) -> list[Hit]:
    """Every record that passes, with its cosine."""
    found = collection.get(where=condition, include=["embeddings"])
    vectors = np.asarray(found["embeddings"], np.float32)
    scores: list[float] = (vectors @ vector).tolist()
    return [(int(key), score) for key, score in zip(found["ids"], scores, strict=True)]


def _json(values: Sequence[str]) -> str:
    return orjson.dumps(values).decode()
