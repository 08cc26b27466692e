"""The text of an API key: ``dak_<key id>_<secret>``. Only the secret's digest is kept; the id is no secret."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

from devassist.core.codec import b64

ID_BYTES, SECRET_BYTES = 6, 32
_TOKEN = re.compile(r"dak_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_ID = re.compile(r"(?:dak_)?([0-9a-f]{12})(?:_.*)?")


class Token(NamedTuple):
    """What is known of a key's text: which key it says it is, and the digest that proves it."""

    key_id: str
    digest: bytes


def made(key_id: bytes, secret: bytes) -> str:
    """The text of a new key, of ``ID_BYTES`` and ``SECRET_BYTES`` random bytes."""
    return f"dak_{key_id.hex()}_{b64(secret)}"


def parsed(text: str) -> Token | None:
    """None for what cannot be a key."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else Token(match[1], sha256(match[2].encode()).digest())


def id_in(text: str) -> str | None:
    """The key id in what a person types: the id, ``dak_`` and the id, or the whole key."""
    match = _ID.fullmatch(text.strip())
    return None if match is None else match[1]


def checked(text: str) -> str:
    """A key as it is given to a client. Raises ValueError that does not repeat it."""
    if parsed(text) is None:
        raise ValueError("a key as 'devassist keys create' prints it: dak_, an id, _ and a secret")
    return text
