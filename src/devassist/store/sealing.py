"""Sealing of payloads: plain computation on a domain's key, shared by all vaults.

``blob`` = version byte + nonce (12) + AES-256-GCM(flag byte + salt (16) + body), with the reference and the domain as
associated data: a sealed text fits one reference in one domain only. ``body`` is UTF-8, or its zstd frame where flag is
1 (from 512 bytes on, and only when that is smaller). HMAC and AES keys derive from the domain's key by HKDF-SHA-256,
one each. The public domain is unsealed: version byte + flag byte + body, its salt 16 zero bytes; where the body is a
zstd frame its SHA-256, cut to 8 bytes, stands before it: many frames unpack to one text, and only one was stored.
"""

from __future__ import annotations

import os
import threading
from hashlib import sha256

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from devassist.core.chain import PUBLIC_DOMAIN, PUBLIC_SALT, Salts, commit
from devassist.core.codec import NotCanonical, b64
from devassist.core.errors import JournalCorrupt, TooLarge
from devassist.ports.vault import Payload

KEY_BYTES = 32
DOMAIN_BYTES = 16
MAX_TEXT = 64 * 1024 * 1024
"""The most UTF-8 bytes of one text, sealing and opening."""
ZSTD_FROM = 512

_VERSION = b"\x01"
_PLAIN, _ZSTD = b"\x00", b"\x01"
_NONCE = 12
_HEAD = 1 + len(PUBLIC_SALT)
_SUM = 8
_MAC_INFO, _AES_INFO = b"devassist/payload/mac/1", b"devassist/payload/aes/1"


class _Zstd(threading.local):
    """Compressor and decompressor may not be shared between threads."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=3, write_content_size=True).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


class _Nonces(threading.local):
    """Random nonces, drawn many at a time: each call of the kernel hands the interpreter's lock to another thread."""

    def __init__(self) -> None:
        self._drawn, self._at = b"", 0

    def next(self) -> bytes:
        if self._at == len(self._drawn):
            self._drawn, self._at = os.urandom(256 * _NONCE), 0
        self._at += _NONCE
        return self._drawn[self._at - _NONCE : self._at]

    def forget(self) -> None:
        """A forked process must not use its parent's."""
        self._drawn, self._at = b"", 0


_nonces = _Nonces()
os.register_at_fork(after_in_child=_nonces.forget)


def derive(key: bytes, domain: bytes, info: bytes) -> bytes:
    """One of a domain's two working keys: HKDF-SHA-256 with the domain as salt."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=domain, info=info).derive(key)


def _encode(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise NotCanonical(f"a text holds a lone surrogate at character {error.start}; replace it first") from None
    if len(data) > MAX_TEXT:
        raise TooLarge(f"a text of {len(data)} bytes cannot be stored; the most is {MAX_TEXT}")
    return data


def _pack(data: bytes) -> tuple[bytes, bytes]:
    if len(data) >= ZSTD_FROM:
        packed = _zstd.pack(data)
        if len(packed) < len(data):
            return _ZSTD, packed
    return _PLAIN, data


def _unpack(flag: bytes, body: bytes) -> bytes:
    """Bounded: a frame says its size, and more than MAX_TEXT is refused unread. Raises ValueError."""
    if flag == _PLAIN:
        return body
    if flag != _ZSTD:
        raise ValueError(f"flag {flag.hex()} is not known")
    try:
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= MAX_TEXT:
            raise ValueError(f"the compressed text declares {size} bytes; the most is {MAX_TEXT}")
        return _zstd.unpack(body, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def _corrupt(payload: Payload, problem: str) -> JournalCorrupt:
    return JournalCorrupt(f"payload {b64(payload.ref)}: {problem}")


def _text(payload: Payload, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _corrupt(payload, "the text is not UTF-8") from None


class Sealer:
    """The working keys of one domain. ``seal`` and ``open`` may be called from any thread."""

    __slots__ = ("_aead", "_salts", "domain")

    def __init__(self, domain: bytes, key: bytes) -> None:
        self.domain = domain
        self._salts = Salts(derive(key, domain, _MAC_INFO))
        self._aead = AESGCM(derive(key, domain, _AES_INFO))

    def seal(self, text: str) -> Payload:
        """Equal texts of a domain have one reference. Raises NotCanonical for a lone surrogate, TooLarge."""
        data = _encode(text)
        salt = self._salts.of(data)
        ref = commit(salt, data)
        flag, body = _pack(data)
        nonce = _nonces.next()
        blob = _VERSION + nonce + self._aead.encrypt(nonce, flag + salt + body, ref + self.domain)
        return Payload(ref, self.domain, blob, text)

    def open(self, payload: Payload) -> str:
        """Verifies seal, salt and commitment. Raises JournalCorrupt naming the reference."""
        blob = payload.blob
        if payload.domain != self.domain:
            raise _corrupt(payload, f"is of domain {payload.domain.hex()}, not {self.domain.hex()}")
        if blob[:1] != _VERSION:
            raise _corrupt(payload, f"version {blob[:1].hex() or 'none'} is not known")
        try:
            inner = self._aead.decrypt(blob[1 : 1 + _NONCE], blob[1 + _NONCE :], payload.ref + payload.domain)
        except (InvalidTag, ValueError):
            raise _corrupt(payload, "the seal is broken") from None
        try:
            data = _unpack(inner[:1], inner[_HEAD:])
        except ValueError as error:
            raise _corrupt(payload, str(error)) from None
        salt = inner[1:_HEAD]
        if salt != self._salts.of(data) or commit(salt, data) != payload.ref:
            raise _corrupt(payload, "the text does not fit its commitment")
        return _text(payload, data)


def seal_public(text: str) -> Payload:
    """A text that is nobody's, unsealed. Raises NotCanonical for a lone surrogate, TooLarge."""
    data = _encode(text)
    flag, body = _pack(data)
    if flag == _ZSTD:
        body = sha256(body).digest()[:_SUM] + body
    return Payload(commit(PUBLIC_SALT, data), PUBLIC_DOMAIN, _VERSION + flag + body, text)


def open_public(payload: Payload) -> str:
    """Verifies the commitment. Raises JournalCorrupt naming the reference."""
    blob = payload.blob
    if blob[:1] != _VERSION:
        raise _corrupt(payload, f"version {blob[:1].hex() or 'none'} is not known")
    flag, body = blob[1:2], blob[2:]
    if flag == _ZSTD:
        known, body = body[:_SUM], body[_SUM:]
        if sha256(body).digest()[:_SUM] != known:
            raise _corrupt(payload, "the stored bytes were changed")
    try:
        data = _unpack(flag, body)
    except ValueError as error:
        raise _corrupt(payload, str(error)) from None
    if commit(PUBLIC_SALT, data) != payload.ref:
        raise _corrupt(payload, "the text does not fit its commitment")
    return _text(payload, data)
