"""Columns, times, and texts that must not play with the terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from devassist.cli.output import clean, cut, pad, table, took, width
from devassist.cli.times import moment

OPTION = click.Option(["--since"])
CONTEXT = click.Context(click.Command("x"))


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("退休", 4), ("ｆ", 2), ("e\u0301", 1), ("a\u200db", 2), ("한글", 4), ("…", 1)]
)
def test_width_counts_terminal_columns(text: str, columns: int) -> None:
    """Wide characters take two, marks that join none."""
    assert width(text) == columns


@pytest.mark.parametrize(("room", "shown"), [(8, "退休人员"), (7, "退休人…"), (6, "退休…"), (5, "退休…"), (1, "…")])
def test_cut_never_takes_more_than_its_room(room: int, shown: str) -> None:
    """A wide character is not halved."""
    assert cut("退休人员", room) == shown
    assert width(shown) <= room


def test_columns_stand_under_one_another() -> None:
    """Whatever the letters, the second column begins at the same place."""
    head, one, two = table(("NAME", "X"), [("退休", "1"), ("abc", "2")]).splitlines()
    assert width(one[: one.index("1")]) == width(two[: two.index("2")]) == head.index("X")
    assert pad("退休", 6) == "退休  "


def test_escape_sequences_are_shown_not_sent() -> None:
    """Colours, cursor moves, title changes and reordering marks come out as text; tab and line feed stay."""
    assert clean("a\x1b]0;t\x07\x9b2J\u202eb\tc\nd") == "a\\x1b]0;t\\x07\\x9b2J\\u202eb\tc\nd"


def test_long_times_are_in_seconds() -> None:
    """Milliseconds up to ten seconds."""
    assert (took(9_999), took(12_345)) == ("9999 ms", "12.3 s")


def _moment(text: str) -> int:
    found = moment(CONTEXT, OPTION, text)
    assert found is not None
    return found


def test_iso_times_are_exact_and_local_where_they_name_no_zone() -> None:
    """Microseconds survive; a date is its midnight."""
    assert _moment("2026-03-01T08:30:00.000001Z") == 1772353800000001
    assert _moment("2026-03-01T09:30:00+01:00") == 1772353800000000
    local = datetime(2026, 3, 1).astimezone()
    assert _moment("2026-03-01") == int(local.timestamp()) * 1_000_000


@pytest.mark.parametrize(("text", "ago"), [("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800), ("1w", 604800)])
def test_durations_are_so_long_ago(text: str, ago: int) -> None:
    """Counted from now."""
    expected = datetime.now(UTC) - timedelta(seconds=ago)
    assert abs(_moment(text) / 1e6 - expected.timestamp()) < 5


@pytest.mark.parametrize("text", ["", "soon", "15", "m", "-1h", "2026-13-01", "999999999w", "1.5h"])
def test_other_times_are_refused(text: str) -> None:
    """With what would be right."""
    with pytest.raises(click.BadParameter, match="2026-03-01T08:30"):
        moment(CONTEXT, OPTION, text)
