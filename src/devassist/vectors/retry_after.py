"""What a server asks to wait before the next try. Pure: the wall clock is an argument."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str], wall_s: float) -> float | None:
    """Seconds, from ``Retry-After`` in either form of RFC 9110; a date in the past is 0. None where it is absent or
    unreadable. ``wall_s`` is the time now in seconds since the epoch."""
    text = headers.get("Retry-After", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        return _until(text, wall_s)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(http_date: str, wall_s: float) -> float | None:
    try:
        moment = parsedate_to_datetime(http_date)
        return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - wall_s)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
