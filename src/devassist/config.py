"""The settings, and the only reader of the environment.

``SETTINGS`` is the whole list, as data: name, default, what it means, how its text is read. A value comes from a flag,
else the environment, else ``devassist.toml`` in the working directory, else the default; an empty one counts as not
given. In the file the keys are the lower-case names without ``DEVASSIST_`` (``port``, ``openai_base_url``).

Whatever is wrong raises ConfigInvalid, which names the setting, the value (never a secret) and what is allowed. A value
that this build cannot honour is refused rather than ignored.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from devassist.core.errors import ConfigInvalid
from devassist.core.events import Limits
from devassist.core.prices import PriceList, micro_units, parse_prices

PREFIX = "DEVASSIST_"
OPENAI_URL = "https://api.openai.com/v1"
PACKAGED_PRICES = Path(__file__).with_name("prices.json")

_USER_INFO = re.compile(r"//[^/@\s]*@")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_])?\.?")
_MEMORY = re.compile(r"([1-9][0-9]{0,11})([bkmg]?)", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class ModelChoice(NamedTuple):
    """Which model answers; ``script`` is the file of a scripted one (for tests)."""

    kind: Literal["openai", "extractive", "scripted"]
    script: Path | None = None


class _Auto(NamedTuple):
    """``openai`` where an endpoint or key is set, else ``extractive``."""


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """Another endpoint to go to. ``api_key`` was read from the variable that the setting names."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)


# Readers turn a text into a value. They raise ValueError saying what is allowed, never repeating the text.


def _text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("text of one line")
    return text


def _whole(least: int, most: int, note: str = "") -> Callable[[str], int]:
    def read(text: str) -> int:
        if text.isascii() and text.isdecimal() and len(text) < 19 and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"a whole number from {least} to {most}{note}")

    return read


def _seconds(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if least <= value <= most:
            return value
        raise ValueError(f"seconds from {least:g} to {most:g}")

    return read


def _one_of(*allowed: str, later: tuple[str, ...] = ()) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in allowed:
            return text
        missing = f"; {text} is not in this build" if text in later else ""
        raise ValueError(f"one of {', '.join(allowed)}{missing}")

    return read


def _switch(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"0", "false", "no", "off"}:
        return False
    raise ValueError("1 or 0")


def _path(text: str) -> Path:
    if "\0" in text:
        raise ValueError("a path")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("a path; the home directory in it cannot be found") from None


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(_path(part) for part in text.split(":") if part)


def _host(text: str) -> str:
    bare = text.removeprefix("[").removesuffix("]")
    if _HOST.fullmatch(bare) is None and not _is_address(bare):
        raise ValueError("a host name or an IP address, without a port")
    return bare.lower()


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _hosts(text: str) -> tuple[str, ...]:
    return tuple(_host(part.strip()) for part in text.split(",") if part.strip())


def _url(text: str) -> str:
    allowed = "an address that begins with http:// or https://"
    try:
        parts = urlsplit(text)
        host, user = parts.hostname, parts.username
        _ = parts.port  # raises for what is no port
    except ValueError:
        raise ValueError(allowed) from None
    if parts.scheme not in {"http", "https"} or not host or not text.isprintable() or " " in text:
        raise ValueError(allowed)
    if user is not None:
        raise ValueError(f"{allowed} and holds no user or password")
    return text.rstrip("/")


def _journal(text: str) -> Path:
    scheme, _, path = text.partition(":///")
    if scheme != "sqlite" or not path or path == ":memory:" or "?" in path:
        raise ValueError("sqlite:///path/to/journal.db; this build supports SQLite only")
    return _path(path)


def _money(text: str) -> int:
    return micro_units(text)


def _memory(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not 16 << 20 <= size <= 1 << 40:
        raise ValueError("a size from 16m up, such as 128m or 1g")
    return size


def _model(text: str) -> ModelChoice | _Auto:
    if text == "auto":
        return _Auto()
    kind, colon, path = text.partition(":")
    if kind == "scripted" and path:
        return ModelChoice("scripted", _path(path))
    if colon or (kind != "openai" and kind != "extractive"):
        missing = "; embedded is not in this build" if text == "embedded" else ""
        raise ValueError(f"auto, openai, extractive or scripted:/path/to/script.json{missing}")
    return ModelChoice(kind)


def _fallbacks(text: str) -> tuple[tuple[str, str, str | None], ...]:
    """(base_url, model, name of the variable that holds the key) each."""
    allowed = 'a JSON list of {"base_url": …, "model": …, "api_key_env": the name of a variable, or left out}'
    try:
        rows: Any = json.loads(text)
        if not isinstance(rows, list):
            raise ValueError
        return tuple(_fallback(row) for row in cast("list[Any]", rows))
    except (ValueError, TypeError, RecursionError):
        raise ValueError(allowed) from None


def _fallback(row: dict[str, Any]) -> tuple[str, str, str | None]:
    if not isinstance(row, dict) or row.keys() - {"base_url", "model", "api_key_env"}:  # pyright: ignore[reportUnnecessaryIsInstance]  # JSON
        raise ValueError
    url, model, env = row.get("base_url"), row.get("model"), row.get("api_key_env")
    if not isinstance(url, str) or not isinstance(model, str) or not model or not isinstance(env, str | None):
        raise ValueError
    return _url(url), model, env
