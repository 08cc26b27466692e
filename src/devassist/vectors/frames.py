"""What the service and its workers say to one another: a frame is the lengths of a JSON header and of a raw body, then
both. Requests of a worker are answered one by one, in their order."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import orjson

_LENGTHS = struct.Struct("<II")
MOST_BYTES = 1 << 28
"""Of a header or a body: whatever claims more is no frame."""

Header = dict[str, Any]


class NoFrame(Exception):
    """What arrived is no frame: the stream cannot be read on."""


def encoded(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    head = orjson.dumps(header)
    return b"".join((_LENGTHS.pack(len(head), len(body)), head, body))


def read_frame(stream: BinaryIO) -> tuple[Header, bytes] | None:
    """The next frame, or None where the stream ends, within a frame too. Raises NoFrame."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head, body = _lengths(lengths)
    header, data = stream.read(head), stream.read(body)
    return None if len(header) < head or len(data) < body else (_header(header), data)


async def receive(stream: asyncio.StreamReader) -> tuple[Header, bytes]:
    """The next frame. Raises NoFrame, and IncompleteReadError where the stream ends."""
    head, body = _lengths(await stream.readexactly(_LENGTHS.size))
    return _header(await stream.readexactly(head)), await stream.readexactly(body)


def _lengths(data: bytes) -> tuple[int, int]:
    head, body = _LENGTHS.unpack(data)
    if max(head, body) > MOST_BYTES:
        raise NoFrame
    return head, body


def _header(data: bytes) -> Header:
    try:
        header: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise NoFrame from None
    if not isinstance(header, dict):
        raise NoFrame
    return cast("Header", header)
