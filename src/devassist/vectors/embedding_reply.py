"""The body of an answer of ``/embeddings`` -> unit vectors, or what is wrong with it. Pure."""

from __future__ import annotations

import math
import struct
from typing import Any, cast

import orjson


class Unusable(Exception):
    """No vectors can be read from it; the text says why, and holds nothing of the body."""


def read_vectors(body: bytes, count: int) -> list[bytes]:
    """One unit vector (float32, little-endian) for each of ``count`` inputs, in their order and all of one length.
    Raises Unusable."""
    try:
        answer: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Unusable("it is no JSON") from None
    data: Any = cast("dict[str, Any]", answer).get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise Unusable("it has no list 'data'")
    rows = cast("list[Any]", data)
    if len(rows) != count:
        raise Unusable(f"it holds {len(rows)} vectors for {count} texts")
    by_index: dict[int, bytes] = {}
    for position, row in enumerate(rows):
        entry = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        index = entry.get("index", position)
        by_index[index if type(index) is int else -1] = _unit(entry.get("embedding"))
    if by_index.keys() != set(range(count)):
        raise Unusable("its vectors are not numbered from 0 on")
    if len({len(vector) for vector in by_index.values()}) > 1:
        raise Unusable("its vectors differ in length")
    return [by_index[index] for index in range(count)]


def _unit(numbers: object) -> bytes:
    if not isinstance(numbers, list) or not numbers:
        raise Unusable("a vector is not a list of numbers")
    values = cast("list[Any]", numbers)
    if not all(type(value) in (float, int) for value in values):
        raise Unusable("a vector holds what is no number")
    try:
        length = math.hypot(*values)
    except OverflowError:
        length = math.inf
    if not math.isfinite(length) or length <= 0:
        raise Unusable("a vector has no direction")
    return struct.pack(f"<{len(values)}f", *(value / length for value in values))
