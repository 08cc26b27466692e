"""An embedder for tests: the bigrams of a text, hashed into a vector. Texts alike in letters lie near one another, the
same text always gets the same vector, and no model is needed."""

from __future__ import annotations

import hashlib
import math
import struct
from array import array
from collections.abc import Sequence
from typing import Literal


class HashingEmbedder:
    """See ``devassist.ports.vectors.Embedder``. ``calls`` counts the texts it was given, by kind."""

    def __init__(self, dimension: int = 384) -> None:
        self.dimension = dimension
        self.calls = {"query": 0, "passage": 0}

    @property
    def name(self) -> str:
        return f"hashing/1/{self.dimension}"

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        self.calls[kind] += len(texts)
        return [hashed(text, self.dimension) for text in texts]

    async def close(self) -> None:
        pass


def hashed(text: str, dimension: int = 384) -> bytes:
    """The unit vector of a text, float32 little-endian; that of a blank text points along the first axis."""
    letters = f" {' '.join(text.casefold().split())} "
    sums = array("d", bytes(8 * dimension))
    for at in range(len(letters) - 1):
        bigram = letters[at : at + 2].encode("utf-8", "replace")
        number = int.from_bytes(hashlib.blake2b(bigram, digest_size=8).digest(), "little")
        sums[(number >> 1) % dimension] += 1 if number & 1 else -1
    length = math.sqrt(sum(value * value for value in sums))
    if length == 0:
        sums[0] = length = 1.0
    return struct.pack(f"<{dimension}f", *(value / length for value in sums))
