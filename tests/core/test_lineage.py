"""How a journal that was put back is told, and which time is lost."""

from __future__ import annotations

import pytest

from devassist.core.lineage import Place, Rewind, contradiction, lost

THEN = Place("a", 10, 1_000, "ff")


@pytest.mark.parametrize(
    ("remembered", "now", "there", "how"),
    [
        (None, THEN, None, None),  # the first start of all
        (THEN, THEN, "ff", None),
        (THEN, Place("a", 99, 5_000, "ee"), "ff", None),  # it went on after it was last seen
        (Place("a", 0, -1, ""), Place("a", 5, 5, "ee"), None, None),  # it was empty then
        (THEN, Place("a", 9, 900, "dd"), None, "by_hand"),
        (THEN, Place("a", 0, -1, ""), None, "by_hand"),
        (THEN, Place("a", 99, 5_000, "ee"), "dd", "by_hand"),  # grown past it since, on another branch
        (THEN, Place("b", 99, 5_000, "ee"), "ff", "replaced"),
        (Place("a", 0, -1, ""), Place("b", 0, -1, ""), None, "replaced"),
    ],
)
def test_memory_and_journal_contradict_each_other(
    remembered: Place | None, now: Place, there: str | None, how: str | None
) -> None:
    """By incarnation, or by the event in the remembered row; never because the journal went on."""
    assert contradiction(remembered, now, there) == how


@pytest.mark.parametrize(
    ("remembered", "at", "since", "window"),
    [
        (Place("a", 10, 1_000, "ff"), 400, None, (400, 1_000, True)),
        (Place("a", 10, 1_000, "ff"), 700, 400, (400, 1_000, True)),  # a copy, to which something was appended
        (Place("a", 10, 1_000, "ff"), -1, None, (0, 1_000, True)),  # a new journal in place of a lost one
        (Place("a", 3, 300, "ff"), 400, None, (400, 9_000, False)),  # the memory is older than the journal
        (None, 400, None, (400, 9_000, False)),
    ],
)
def test_the_lost_window_has_two_ends(
    remembered: Place | None, at: int, since: int | None, window: tuple[int, int, bool]
) -> None:
    """From where the journal ends to where it is known to have been, or to when that was noticed."""
    now = Place("b", 5, at, "")
    rewind = lost("by_hand", remembered, now, since=since, noticed=9_000, incarnation="c")
    assert (rewind.window_from, rewind.window_to, rewind.known) == window
    assert (rewind.incarnation, rewind.previous) == ("c", "b" if remembered is None else "a")
    assert rewind == Rewind("by_hand", "c", rewind.previous, *window)
