"""The bytes of a sealed payload: they are evidence, so they may never change."""

from __future__ import annotations

import hmac
import os
from hashlib import sha256

import pytest
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.chain import PUBLIC_DOMAIN, PUBLIC_SALT, commit
from devassist.core.codec import b64
from devassist.core.errors import JournalCorrupt, TooLarge
from devassist.ports.vault import Payload
from devassist.store import sealing
from devassist.store.sealing import Sealer, open_public, seal_public

DOMAIN, KEY = bytes(range(16)), bytes(range(32))
SEALER = Sealer(DOMAIN, KEY)


def hkdf(info: bytes) -> bytes:
    """RFC 5869 for one block of SHA-256, by hand."""
    pseudo_random = hmac.digest(DOMAIN, KEY, "sha256")
    return hmac.digest(pseudo_random, info + b"\x01", "sha256")


MAC_KEY, AES_KEY = hkdf(b"devassist/payload/mac/1"), hkdf(b"devassist/payload/aes/1")


def sealed_by_hand(flag: bytes, salt: bytes, body: bytes, ref: bytes) -> Payload:
    nonce = os.urandom(12)
    blob = b"\x01" + nonce + AESGCM(AES_KEY).encrypt(nonce, flag + salt + body, ref + DOMAIN)
    return Payload(ref, DOMAIN, blob)


@given(st.text(max_size=2000))
def test_what_is_sealed_opens_to_the_same_text(text: str) -> None:
    """Any text that UTF-8 can hold."""
    for payload in (SEALER.seal(text), seal_public(text)):
        again = SEALER.open(payload) if payload.domain == DOMAIN else open_public(payload)
        assert again == text


def test_the_layout_is_the_documented_one() -> None:
    """Another implementation, from the description alone, reads what we sealed and writes what we open."""
    data = b"short text"
    salt = hmac.digest(MAC_KEY, data, "sha256")[:16]
    ref = sha256(b"devassist/payload/1" + salt + data).digest()
    payload = SEALER.seal("short text")
    assert payload.ref == ref
    assert payload.blob[:1] == b"\x01"
    assert AESGCM(AES_KEY).decrypt(payload.blob[1:13], payload.blob[13:], ref + DOMAIN) == b"\x00" + salt + data
    assert SEALER.open(sealed_by_hand(b"\x00", salt, data, ref)) == "short text"
    public = seal_public("short text")
    assert (public.ref, public.blob) == (commit(PUBLIC_SALT, data), b"\x01\x00short text")
    assert public.domain == PUBLIC_DOMAIN


def test_long_texts_are_compressed_where_that_helps() -> None:
    """From 512 bytes of UTF-8 on, and only if it is smaller: the flag says which."""
    assert seal_public("x" * 511).blob[1] == 0
    assert seal_public("x" * 512).blob[1] == 1
    assert seal_public("政" * 171).blob[1] == 1
    noise = "".join(chr(33 + byte % 94) for byte in os.urandom(600))
    assert seal_public(noise).blob[1:] == b"\x00" + noise.encode() or len(seal_public(noise).blob) < 600
    assert len(SEALER.seal("x" * 5000).blob) < 100


@pytest.mark.parametrize(
    ("flag", "salt", "body"),
    [
        (b"\x00", bytes(16), b"text"),
        (b"\x02", None, b"text"),
        (b"\x01", None, b"text"),
        (b"\x00", None, b"other"),
        (b"\x00", None, b"\xff"),
    ],
    ids=["another salt", "an unknown flag", "no zstd frame", "another text", "no UTF-8"],
)
def test_a_rightly_sealed_lie_is_found(flag: bytes, salt: bytes | None, body: bytes) -> None:
    """The commitment is checked even where the seal holds; the fault names the reference."""
    payload = SEALER.seal("text")
    true_salt = hmac.digest(MAC_KEY, b"text", "sha256")[:16]
    with pytest.raises(JournalCorrupt, match=b64(payload.ref)):
        SEALER.open(sealed_by_hand(flag, salt or true_salt, body, payload.ref))


def test_a_committed_text_that_is_no_utf8_is_refused() -> None:
    """Even when salt and reference fit it."""
    data = b"\xff\xfe"
    payload = Payload(commit(PUBLIC_SALT, data), PUBLIC_DOMAIN, b"\x01\x00" + data)
    with pytest.raises(JournalCorrupt, match="not UTF-8"):
        open_public(payload)


def bomb(frame: bytes) -> Payload:
    return Payload(commit(PUBLIC_SALT, b"x"), PUBLIC_DOMAIN, b"\x01\x01" + sha256(frame).digest()[:8] + frame)


def test_decompression_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that declares more than the bound, no size, or has bytes behind it is refused."""
    monkeypatch.setattr(sealing, "MAX_TEXT", 1000)
    pack = zstandard.ZstdCompressor().compress
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 10)
    for frame, problem in ((pack(b"x" * 1001), "declares 1001"), (unsized, "declares -1"), (pack(b"x") + b"!", "load")):
        with pytest.raises(JournalCorrupt, match=problem):
            open_public(bomb(frame))
    assert open_public(bomb(pack(b"x"))) == "x"


def test_a_changed_bit_of_a_compressed_public_text_is_found() -> None:
    """Also where zstd would unpack the changed frame to the very same text."""
    payload = seal_public("".join(f'{{"name": "tool_{n}", "description": "does {n * n}"}}' for n in range(60)))
    assert payload.blob[1] == 1
    for bit in range(len(payload.blob) * 8):
        blob = bytearray(payload.blob)
        blob[bit // 8] ^= 1 << bit % 8
        with pytest.raises(JournalCorrupt):
            open_public(payload._replace(blob=bytes(blob)))


def test_what_could_not_be_opened_is_not_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds on the way in, too."""
    monkeypatch.setattr(sealing, "MAX_TEXT", 10)
    for seal in (SEALER.seal, seal_public):
        seal("x" * 10)
        with pytest.raises(TooLarge):
            seal("政" * 4)


def test_a_payload_opens_under_its_own_domain_only() -> None:
    """The domain is part of what the seal covers."""
    payload = SEALER.seal("text")
    other = Sealer(bytes(16)[:-1] + b"\x07", KEY)
    for wrong in (payload, payload._replace(domain=other.domain)):
        with pytest.raises(JournalCorrupt):
            other.open(wrong)
