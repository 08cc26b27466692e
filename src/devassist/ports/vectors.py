"""Ports to dense search: what makes vectors of texts, and what finds the nearest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from devassist.ports.knowledge_store import IndexItem


class Embedder(Protocol):
    """Makes vectors. ``name`` changes whenever a text would get another vector (model, version, prefix, cut): an index
    of one embedder is never searched with another's vectors. ``close`` ends what was started."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        """One unit vector (float32, little-endian) for each text, off the event loop; queries go before passages.

        Raises EmbedderUnavailable (nothing is lost, the lexical arm answers meanwhile).
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class VectorFilter:
    """Acts before ranking. ``day`` is YYYYMMDD; empty tuples: any; ``labels`` None: all are visible."""

    day: int
    collections: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    langs: tuple[str, ...] = ()
    labels: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class VectorHit:
    """``score`` is the cosine, in -1..1."""

    key: int
    score: float


class VectorIndex(Protocol):
    """Named versions of an index, each for one embedder; keys are clauses of the store. Everything in it is derived.

    A search of a version sees all of an ``upsert`` or ``remove`` that returned. Raises VectorsUnavailable.
    """

    @property
    def kind(self) -> str:
        """``exact`` or ``chroma``."""
        ...

    async def versions(self) -> dict[str, int]:
        """Name -> how many clauses it holds, of those that outlived the last stop (none for an index in memory)."""
        ...

    async def create(self, version: str) -> None:
        """Idempotent. The first ``upsert`` fixes the dimension; vectors of another one are refused from then on, by
        name of both (VectorsUnavailable)."""
        ...

    async def drop(self, version: str) -> None: ...

    async def upsert(self, version: str, items: Sequence[IndexItem], vectors: Sequence[bytes]) -> None:
        """Put or replace, by key, with the item's ``stamp``."""
        ...

    async def remove(self, version: str, keys: Sequence[int]) -> None:
        """Keys that it does not hold are passed over."""
        ...

    async def keys(self, version: str) -> dict[int, str]:
        """Every key that it holds, with the ``stamp`` of the item it was made from: what a reconciler compares."""
        ...

    async def search(self, version: str, vector: bytes, k: int, wanted: VectorFilter) -> list[VectorHit]:
        """The ``k`` nearest of those that pass, best first; fewer only when fewer pass."""
        ...

    async def close(self) -> None: ...
