"""An index that lives in a worker process: what the exact one and Chroma's have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from devassist.core.errors import VectorsUnavailable
from devassist.ports.knowledge_store import IndexItem
from devassist.ports.vectors import VectorFilter, VectorHit
from devassist.vectors import wire
from devassist.vectors.child import Child, Program


class WorkerIndex:
    """The port VectorIndex, but for its ``kind``. Searches go before writes that wait, and long writes are cut."""

    def __init__(self, program: Program) -> None:
        self.child = Child(program)

    async def versions(self) -> dict[str, int]:
        header, _ = await self.child.ask({"op": "versions"}, urgent=True)
        return header["versions"]

    async def create(self, version: str) -> None:
        await self._ask("create", version)

    async def drop(self, version: str) -> None:
        await self._ask("drop", version)

    async def upsert(self, version: str, items: Sequence[IndexItem], vectors: Sequence[bytes]) -> None:
        if len(items) != len(vectors):
            raise VectorsUnavailable(f"{len(items)} clauses came with {len(vectors)} vectors")
        items, vectors = wire.latest(items, vectors)
        if len({len(vector) for vector in vectors}) > 1:
            raise VectorsUnavailable("The vectors of one upsert differ in length")
        for start in range(0, len(items), wire.BATCH):
            end = start + wire.BATCH
            await self.child.ask(wire.put(version, items[start:end]), b"".join(vectors[start:end]))

    async def remove(self, version: str, keys: Sequence[int]) -> None:
        for start in range(0, len(keys), wire.BATCH):
            await self._ask("remove", version, keys=list(keys[start : start + wire.BATCH]))

    async def keys(self, version: str) -> dict[int, str]:
        found: dict[int, str] = {}
        after: int | None = None
        while True:
            header, _ = await self._ask("keys", version, after=after)
            page: list[tuple[int, str]] = header["keys"]
            found.update(page)
            if len(page) < wire.PAGE:
                return found
            after = page[-1][0]
            await asyncio.sleep(0)

    async def search(self, version: str, vector: bytes, k: int, wanted: VectorFilter) -> list[VectorHit]:
        if k <= 0:
            return []
        header, _ = await self.child.ask(wire.look(version, k, wanted), vector, urgent=True)
        return [VectorHit(key, score) for key, score in header["hits"]]

    async def close(self) -> None:
        await self.child.close()

    async def _ask(self, op: str, version: str, **more: Any) -> tuple[dict[str, Any], bytes]:
        return await self.child.ask({"op": op, "version": version, **more})
