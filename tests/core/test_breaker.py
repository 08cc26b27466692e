"""A circuit breaker as a value."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from devassist.core.breaker import (
    BROKEN,
    CLOSED,
    FAILURES,
    LONGEST_ASKED_US,
    LONGEST_OPEN_US,
    OPEN_US,
    UNTOLD,
    Breaker,
)
from devassist.core.transitions import OVERFLOW

NOW = 1_800_000_000_000_000


def opened(now: int = NOW, retry_after: int = 0) -> Breaker:
    breaker = CLOSED
    for _ in range(FAILURES):
        breaker = breaker.failed(now, retry_after)
    return breaker


@given(st.lists(st.booleans(), max_size=40))
def test_it_opens_after_so_many_failures_in_a_row_and_no_sooner(outcomes: list[bool]) -> None:
    """A success begins the count anew; once open, outcomes of attempts that were under way change nothing."""
    breaker, row, was_open = CLOSED, 0, False
    for number, well in enumerate(outcomes):
        breaker = breaker.succeeded() if well else breaker.failed(NOW + number)
        row = 0 if well else row + 1
        was_open = was_open or row == FAILURES
        assert (breaker.value == "open") == was_open
        assert breaker.value != "half_open"


def test_a_throttled_endpoint_is_left_alone_for_as_long_as_it_asks() -> None:
    """No longer and no shorter, and again as long as it asks; what comes of other failures later begins small."""
    breaker = CLOSED
    for _ in range(FAILURES):
        breaker = breaker.failed(NOW, 2_000_000, throttled=True)
    assert (breaker.value, breaker.until, breaker.openings) == ("open", NOW + 2_000_000, 0)
    later = breaker.until
    again = breaker.tried().failed(later, 3_000_000, throttled=True, trial=True)
    assert (again.value, again.until) == ("open", later + 3_000_000)
    broken = again.tried().failed(later, trial=True)
    assert (broken.until, broken.openings) == (later + OPEN_US, 1)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2 * LONGEST_ASKED_US)), max_size=60))
def test_only_the_trial_decides(story: list[tuple[bool, bool, int]]) -> None:
    """While an attempt tries, others' outcomes count for nothing; its own closes, or opens for longer within bounds."""
    breaker, now, longest = opened(), NOW, OPEN_US
    for trial, well, asked in story:
        if breaker.value == "closed":
            breaker, longest = opened(now), OPEN_US
        now = max(now, breaker.until)
        trying = breaker.tried()
        assert trying.value == "half_open"
        after = trying.succeeded(trial=trial) if well else trying.failed(now, asked, trial=trial)
        if not trial:
            assert after == trying
            after = trying.untold(now)
            assert (after.value, after.until) == ("open", now), "the next one may try at once"
        elif well:
            assert after == CLOSED
        else:
            longest = min(2 * longest, LONGEST_OPEN_US)
            assert after.value == "open"
            assert after.until == now + max(longest, min(asked, LONGEST_ASKED_US))
        breaker = after


def test_a_later_wish_to_wait_is_kept_to() -> None:
    """Of several who were under way when it opened, the one who was told to wait longest is heard."""
    breaker = opened(retry_after=1)
    assert breaker.until == NOW + OPEN_US
    later = breaker.failed(NOW, 60_000_000)
    assert (later.value, later.until, later.openings) == ("open", NOW + 60_000_000, 1)
    assert later.failed(NOW, 30_000_000) == later
    assert breaker.failed(NOW, 30 * LONGEST_ASKED_US).until == NOW + LONGEST_ASKED_US


def test_what_was_not_to_try_is_not_told_of() -> None:
    """An attempt that came to nothing frees the trial only."""
    for breaker in (CLOSED, opened(), CLOSED.failed(NOW)):
        assert breaker.untold(NOW) == breaker


def test_a_refusal_of_one_request_is_no_failure_of_the_endpoint() -> None:
    """A prompt that is too long, a filter, a wrong key: the endpoint answered."""
    assert BROKEN.isdisjoint(UNTOLD)
    assert BROKEN.isdisjoint({OVERFLOW, "content_filtered", "provider_rejected", "provider_auth_failed"})
