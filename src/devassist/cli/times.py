"""Points in time as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"([0-9]{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(_: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option: an ISO 8601 time (the local zone where it names none) or how long ago (``15m``, ``2h``,
    ``7d``), as microseconds since the Unix epoch."""
    if value is None:
        return None
    try:
        return (_moment(value.strip()) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        wanted = "a time such as 2026-03-01T08:30, or 15m, 2h, 7d for so long ago"
        raise click.BadParameter(f"{value!r} is not {wanted}") from None


def _moment(text: str) -> datetime:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    when = datetime.fromisoformat(text)
    return when if when.tzinfo is not None else when.astimezone()
