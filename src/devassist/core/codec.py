"""Canonical JSON (RFC 8785) for what is hashed, and plain deterministic JSON for what is only stored.

Event bodies hold objects, arrays, strings, booleans, null and integers within ±(2^53-1) (RFC 8785 section 3.2.2.3 and
appendix: what every JSON reader can hold exactly). Floats, lone surrogates and keys that are not strings are refused:
decimals travel as strings, times as microseconds, money as micro-units.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from typing import Any, cast

from devassist.core.errors import JournalCorrupt, ServiceFault

MAX_INT = 2**53 - 1
_NESTING = 64


class NotCanonical(ServiceFault):
    """A value cannot stand in an event body; ``detail`` names the path."""

    code = "not_canonical"
    title = "The value has no canonical form"


def _check(value: Any, path: str, depth: int) -> bool:
    """Raise NotCanonical for what has no canonical form; return whether keys need RFC 8785's UTF-16 order."""
    if value is None or isinstance(value, str | bool):
        return False
    if type(value) is int:
        if -MAX_INT <= value <= MAX_INT:
            return False
        raise NotCanonical(f"{path}: integer {value} is beyond ±(2^53-1); use a string")
    if depth > _NESTING:
        raise NotCanonical(f"{path}: nested deeper than {_NESTING}")
    if type(value) is dict:
        astral = False
        for key, item in cast("dict[Any, Any]", value).items():
            if type(key) is not str:
                raise NotCanonical(f"{path}: key {key!r} is not a string")
            if not key.isascii():
                astral = True
            if item is None or isinstance(item, str | bool):
                continue
            if type(item) is int and -MAX_INT <= item <= MAX_INT:
                continue
            if _check(item, f"{path}/{key}", depth + 1):
                astral = True
        return astral
    if isinstance(value, list | tuple):
        astral = False
        for index, item in enumerate(cast("list[Any]", value)):
            if _check(item, f"{path}/{index}", depth + 1):
                astral = True
        return astral
    raise NotCanonical(f"{path}: {type(value).__name__} has no canonical form; floats become strings")


def _utf16_sorted(value: Any) -> Any:
    """Rebuild with keys in RFC 8785 order (UTF-16 code units); only needed where a key is not ASCII."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        keys = sorted(items, key=lambda k: k.encode("utf-16-be", "surrogatepass"))
        return {k: _utf16_sorted(items[k]) for k in keys}
    if isinstance(value, list | tuple):
        return [_utf16_sorted(v) for v in cast("list[Any]", value)]
    return value


_sorted = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_as_given = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of ``value``. Raises NotCanonical."""
    text = _as_given(_utf16_sorted(value)) if _check(value, "", 0) else _sorted(value)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NotCanonical(f"a string holds a lone surrogate at character {error.start}") from None


def parse_canonical(data: bytes) -> Any:
    """Read canonical bytes back. Raises JournalCorrupt when they are not JSON or not in canonical form."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise JournalCorrupt(f"body is not JSON: {error}") from None
    try:
        same = canonical(value) == data
    except NotCanonical as error:
        raise JournalCorrupt(f"body is not canonical: {error.detail}") from None
    if not same:
        raise JournalCorrupt("body is not in canonical form")
    return value


def json_text(value: Any) -> str:
    """Deterministic JSON for payload texts: sorted keys, no spaces, any finite number. Raises ValueError for NaN."""
    return _sorted(value)


def sound(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced: what can be encoded, and so stored."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def cut_middle(text: str, limit: int) -> str:
    """Head and tail of a text of more than ``limit`` characters, with what was left out said between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}… {len(text) - 2 * half} characters omitted …{text[-half:]}"


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def b64(data: bytes) -> str:
    """base64url without padding (RFC 4648 section 5): how references and ids stand in bodies."""
    return b2a_base64(data, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def unb64(text: str) -> bytes:
    """Inverse of ``b64``. Raises JournalCorrupt for anything but its exact output."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise JournalCorrupt(f"not base64url: {text[:60]!r}") from None
    if b64(data) != text:
        raise JournalCorrupt(f"not canonical base64url: {text[:60]!r}")
    return data
