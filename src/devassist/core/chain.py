"""Hash links of a stream and commitments of payloads: the bytes that evidence rests on.

``hash = SHA-256("devassist/event/1" + stream (16) + seq (u64 BE) + at (u64 BE) + prev_hash (32) + body)``, where the
first event of a stream has seq 0 and 32 zero bytes before it. A payload's reference hides its text:
``salt = HMAC-SHA-256(K, text)[:16]``, ``ref = SHA-256("devassist/payload/1" + salt + text)``; public payloads have a
salt of 16 zero bytes.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct

ZERO_HASH = bytes(32)
PUBLIC_SALT = bytes(16)
PUBLIC_DOMAIN = bytes(16)

_EVENT = b"devassist/event/1"
_PAYLOAD = b"devassist/payload/1"
_CALL = b"devassist/call/1"
_IPAD = bytes(b ^ 0x36 for b in range(256))
_OPAD = bytes(b ^ 0x5C for b in range(256))
_PLACE = Struct(">16sQQ32s").pack


def link(stream: bytes, seq: int, at: int, prev_hash: bytes, body: bytes) -> bytes:
    """The hash of the event ``body`` at its place. ``at`` is microseconds since the Unix epoch."""
    return sha256(_EVENT + _PLACE(stream, seq, at, prev_hash) + body).digest()


def commit(salt: bytes, text: bytes) -> bytes:
    """The 32-byte reference of a payload."""
    hashed = sha256(_PAYLOAD + salt)
    hashed.update(text)  # not joined first: a text may be of many megabytes
    return hashed.digest()


class Salts:
    """The 16-byte salts of texts under a domain's HMAC key: ``HMAC-SHA-256(key, text)[:16]`` (RFC 2104), with the
    pads hashed once, since a run names some twenty texts."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = (sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
        self._inner = sha256(padded.translate(_IPAD))
        self._outer = sha256(padded.translate(_OPAD))

    def of(self, text: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()[:16]


def call_id(trace_id: bytes, decision_seq: int, index: int) -> str:
    """The idempotency key of a call (32 hex digits): bound to the decision that asked for it, not to a step number."""
    return sha256(_CALL + trace_id + decision_seq.to_bytes(8) + index.to_bytes(4)).hexdigest()[:32]


def leaf_hash(data: bytes) -> bytes:
    """RFC 9162 section 2.1.1: the hash of a leaf."""
    return sha256(b"\x00" + data).digest()


def merkle_root(leaves: list[bytes]) -> bytes:
    """RFC 9162 section 2.1.1: the Merkle tree hash over leaf data; SHA-256 of nothing for an empty list."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01" + merkle_root(leaves[:split]) + merkle_root(leaves[split:])).digest()
