"""Clauses as rows of a matrix, with the columns that filters act on. For the worker process: it needs numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devassist.vectors.wire import Row, may_see
from devassist.vectors.worker import Refused

Floats = NDArray[np.float32]
Facet = tuple[str, str, str, tuple[str, ...]]

_FIRST_CAPACITY = 1024
_NEVER = 2**31 - 1
"""The first day of an empty slot: no day comes after it, so that no search sees the slot."""
_GATHER_BELOW = 4
"""Where fewer than one row in so many passes, copying these rows is cheaper than comparing all."""
_DECIMALS = 6
"""Of a score: equal vectors differ beyond them, by their place in the matrix."""
_STAMP_CHARS = 64


class Matrix:
    """Vectors of one length. Putting, replacing and removing cost the same however many rows there are, but for the
    doubling of what is full; slots of removed rows are used again."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._used = 0
        self._facets: dict[Facet, int] = {}
        self._docs: dict[str, int] = {}
        self._vectors = np.empty((_FIRST_CAPACITY, dimension), np.float32)
        self._keys = np.zeros(_FIRST_CAPACITY, np.int64)
        self._stamps = np.zeros(_FIRST_CAPACITY, f"S{_STAMP_CHARS}")
        self._from = np.full(_FIRST_CAPACITY, _NEVER, np.int32)
        self._to = np.zeros(_FIRST_CAPACITY, np.int32)
        self._facet = np.zeros(_FIRST_CAPACITY, np.int32)
        self._doc = np.zeros(_FIRST_CAPACITY, np.int32)

    def __len__(self) -> int:
        return len(self._slots)

    def keys(self) -> dict[int, str]:
        return {key: self._stamps[slot].decode() for key, slot in self._slots.items()}

    def put(self, rows: Sequence[Row], vectors: Floats) -> None:
        """All or none of them: ``vectors`` has a row for each. Raises Refused."""
        for row in rows:
            if len(row.stamp) > _STAMP_CHARS or not row.stamp.isascii():
                raise Refused(f"the stamp of clause {row.key} is not one of at most {_STAMP_CHARS} plain letters")
        for row, vector in zip(rows, vectors, strict=True):
            slot = self._slot(row.key)
            self._vectors[slot] = vector
            self._keys[slot], self._stamps[slot] = row.key, row.stamp.encode()
            self._from[slot], self._to[slot] = row.valid_from, row.valid_to
            facet = (row.collection, row.kind, row.lang, row.labels)
            self._facet[slot] = self._facets.setdefault(facet, len(self._facets))
            self._doc[slot] = self._docs.setdefault(row.doc, len(self._docs))

    def remove(self, keys: Sequence[int]) -> None:
        for key in keys:
            slot = self._slots.pop(key, None)
            if slot is not None:
                self._from[slot] = _NEVER
                self._free.append(slot)

    def search(self, vector: Floats, k: int, wanted: Mapping[str, Any]) -> list[tuple[int, float]]:
        """(key, cosine) of the nearest that pass ``wanted`` (see wire.look), best first; equals by key."""
        passing = self._passing(wanted)
        count = int(np.count_nonzero(passing))
        if count == 0:
            return []
        if count * _GATHER_BELOW < self._used:
            slots = np.flatnonzero(passing)
            scores = self._vectors[slots] @ vector
        else:
            scores = self._vectors[: self._used] @ vector
            scores[~passing] = -np.inf
            slots = None
        if k < count:  # all that tie with the last one, too: which of them come is up to their keys
            least = np.partition(scores, len(scores) - k)[len(scores) - k]
            near = np.flatnonzero(scores >= least - 10**-_DECIMALS)
        else:
            near = np.flatnonzero(np.isfinite(scores))
        keys = self._keys[near if slots is None else slots[near]]
        rounded = np.round(scores[near].astype(np.float64), _DECIMALS)
        order = np.lexsort((keys, -rounded))[:k]
        return list(zip(keys[order].tolist(), rounded[order].tolist(), strict=True))

    def _passing(self, wanted: Mapping[str, Any]) -> NDArray[np.bool_]:
        used, day = self._used, wanted["day"]
        passing = (self._from[:used] <= day) & (day < self._to[:used])
        facets = np.fromiter((_passes(facet, wanted) for facet in self._facets), np.bool_, len(self._facets))
        if not facets.all():
            passing &= facets[self._facet[:used]]
        if wanted["doc"]:
            docs = np.zeros(len(self._docs), np.bool_)
            docs[[self._docs[doc] for doc in wanted["doc"] if doc in self._docs]] = True
            passing &= docs[self._doc[:used]]
        return passing

    def _slot(self, key: int) -> int:
        slot = self._slots.get(key)
        if slot is None:
            if self._free:
                slot = self._free.pop()
            else:
                slot, self._used = self._used, self._used + 1
                if slot == len(self._keys):
                    self._double()
            self._slots[key] = slot
        return slot

    def _double(self) -> None:
        filled = len(self._keys)
        vectors = np.empty((2 * filled, self.dimension), np.float32)  # untouched, the new half costs no memory yet
        vectors[:filled] = self._vectors
        self._vectors = vectors
        for name in ("_keys", "_stamps", "_from", "_to", "_facet", "_doc"):
            column: NDArray[Any] = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros_like(column))))
        self._from[filled:] = _NEVER


def _passes(facet: Facet, wanted: Mapping[str, Any]) -> bool:
    collection, kind, lang, labels = facet
    if wanted["labels"] is not None and not may_see(labels, wanted["labels"]):
        return False
    return all(
        not wanted[name] or value in wanted[name]
        for name, value in (("collection", collection), ("kind", kind), ("lang", lang))
    )


def read_vectors(body: bytes, count: int, dimension: int, version: str) -> Floats:
    """``count`` unit vectors, of any length where ``dimension`` is 0. Raises Refused for another length than that, and
    for what is no direction."""
    numbers = len(body) // (4 * count) if count else 0
    if not numbers or len(body) != count * numbers * 4:
        raise Refused(f"{len(body)} bytes are not {count} vectors of float32")
    if dimension and numbers != dimension:
        raise Refused(f"the version {version!r} holds vectors of {dimension} numbers, not of {numbers}")
    vectors = np.frombuffer(body, "<f4").reshape(count, numbers)
    lengths = np.einsum("ij,ij->i", vectors, vectors)
    if not (np.abs(lengths - 1) < 0.01).all():
        raise Refused("a vector is not of length 1")
    return vectors
