"""The text of a setting -> its value. Pure.

A reader raises ValueError saying what is allowed; it never repeats the text, which may be a secret.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import urlsplit

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,251}[A-Za-z0-9_])?")
_SIZE = re.compile(r"([1-9][0-9]{0,11})([bkmg]?)", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SMALLEST, _LARGEST = 16 << 20, 1 << 40
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")  # so narrow that hardly any key put there by mistake passes


def line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("text of one line")
    return text


def whole(least: int, most: int, note: str = "") -> Callable[[str], int]:
    """A reader of whole numbers from ``least`` to ``most``."""

    def read(text: str) -> int:
        if text.isascii() and text.isdecimal() and len(text) < 19 and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"a whole number from {least} to {most}{note}")

    return read


def seconds(least: float, most: float) -> Callable[[str], float]:
    """A reader of times from ``least`` to ``most`` seconds."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if least <= value <= most:
            return value
        raise ValueError(f"seconds from {least:g} to {most:g}")

    return read


def one_of(*allowed: str, later: tuple[str, ...] = ()) -> Callable[[str], str]:
    """A reader of words; those in ``later`` are known, but not to this build."""

    def read(text: str) -> str:
        if text in allowed:
            return text
        missing = f" ({text} is not in this build)" if text in later else ""
        raise ValueError(f"{' or '.join(allowed)}{missing}")

    return read


def switch(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"0", "false", "no", "off"}:
        return False
    raise ValueError("1 or 0")


def host(text: str) -> str:
    """A name or an address, an IPv6 one with or without brackets; given back without, in lower case."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if _HOST.fullmatch(bare) is None and not _is_address(bare):
        raise ValueError("a host name or an IP address, without a port")
    return bare.lower()


def hosts(text: str) -> tuple[str, ...]:
    return tuple(host(part.strip()) for part in text.split(",") if part.strip())


def is_loopback(name: str) -> bool:
    """Whether only this machine can reach what is bound to ``name``."""
    return name == "localhost" or (_is_address(name) and ip_address(name).is_loopback)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def web_address(text: str) -> str:
    """An http(s) URL; no user or password may stand in it, and it comes back without its closing slash."""
    allowed = "an address that begins with http:// or https://"
    try:
        parts = urlsplit(text)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    else:
        if parts.username is not None:
            raise ValueError(f"{allowed}, with no user or password in it")
    if not known or not text.isprintable() or " " in text:
        raise ValueError(allowed)
    return text.rstrip("/")


def size(text: str) -> int:
    """Bytes, written as Docker does: ``128m``."""
    match = _SIZE.fullmatch(text)
    value = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not _SMALLEST <= value <= _LARGEST:
        raise ValueError("a size from 16m to 1024g, such as 128m")
    return value


def fallback_models(text: str) -> tuple[tuple[str, str, str | None], ...]:
    """(base_url, model, name of the variable that holds the key or None) each."""
    try:
        rows: Any = json.loads(text)
        if not isinstance(rows, list):
            raise TypeError
        return tuple(_fallback(row) for row in cast("list[dict[str, Any]]", rows))
    except (ValueError, TypeError, AttributeError, RecursionError):
        shape = '[{"base_url": "http://…/v1", "model": "…", "api_key_env": "NAME_OF_A_VARIABLE"}]'
        raise ValueError(f"a JSON list such as {shape}, where api_key_env may be left out") from None


def _fallback(row: dict[str, Any]) -> tuple[str, str, str | None]:
    url, model, env = row.get("base_url"), row.get("model"), row.get("api_key_env")
    known = row.keys() <= {"base_url", "model", "api_key_env"}
    if not (known and isinstance(url, str) and isinstance(model, str) and model and isinstance(env, str | None)):
        raise ValueError
    if env is not None and _VARIABLE.fullmatch(env) is None:
        raise ValueError
    return web_address(url), model, env


def not_yet(text: str) -> str:
    """For settings that a later release will use: better refused than ignored."""
    raise ValueError("nothing yet, because this build does not use it")
