"""UUIDv7 (RFC 9562 section 5.7) from a given time and given random bits: core has neither a clock nor a die."""

from __future__ import annotations


def uuid7(at_us: int, random: bytes) -> bytes:
    """16 bytes: 48 bits of Unix milliseconds, version 7, 74 random bits of ``random`` (10 bytes)."""
    ms = at_us // 1000
    raw = bytearray(ms.to_bytes(6) + random[:10])
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return bytes(raw)


def time_of(uuid: bytes) -> int:
    """The time in a UUIDv7, microseconds since the epoch (millisecond resolution)."""
    return int.from_bytes(uuid[:6]) * 1000


def first_at(at_us: int) -> bytes:
    """The smallest UUIDv7-ordered id at or after a time: a keyset bound."""
    return max(at_us // 1000, 0).to_bytes(6) + bytes(10)
