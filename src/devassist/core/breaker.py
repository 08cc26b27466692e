"""A circuit breaker as a value: what an endpoint's latest outcomes say about asking it again. Pure.

Closed, it lets everything through. After ``FAILURES`` in a row it opens: nothing is sent until ``until``. Then it is
half open: one attempt is let through to try, and its outcome alone closes it or opens it again, for twice as long.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

FAILURES = 5
"""Failures in a row that open it."""
OPEN_US = 10_000_000
LONGEST_OPEN_US = 160_000_000
LONGEST_ASKED_US = 900_000_000
"""What a provider may ask for at most: a wrong clock at its end must not shut it off for days."""

Value = Literal["closed", "open", "half_open"]

BROKEN = frozenset(
    {
        "provider_error", "provider_unreachable", "provider_timeout", "stream_interrupted", "stream_incomplete",
        "reply_unreadable", "reply_empty_choices",
    }
)  # fmt: skip
"""The failures that speak against the endpoint. A refusal of this request or of its sender is an answer like any other:
a context that was too long, a content filter, a wrong key. It fails one run at once, and should not keep others waiting
until they hear the same."""
THROTTLED = "provider_rate_limited"
"""Speaks against the endpoint where it names a time: until then nobody need ask. Without one each run waits for itself,
since an endpoint at its limit serves some of those who come."""
UNTOLD = frozenset({"interrupted", "cancelled", "deadline_exceeded"})
"""What ended an attempt from our side: of the endpoint nothing was heard."""


class Breaker(NamedTuple):
    """``openings`` counts the times in a row that it opened; ``until`` is when it lets an attempt through to try."""

    value: Value = "closed"
    failures: int = 0
    openings: int = 0
    until: int = 0

    def succeeded(self, *, trial: bool = False) -> Breaker:
        """After a reply. ``trial``: of the attempt that was let through to try."""
        return self if self._late(trial) else CLOSED

    def failed(
        self, now: int, retry_after: int = 0, *, throttled: bool = False, trial: bool = False
    ) -> Breaker:  # fmt: skip
        """After a failure at ``now``; ``retry_after`` is what the provider asked for (microseconds), which is all that
        it opens for where it is only ``throttled``."""
        asked = now + min(retry_after, LONGEST_ASKED_US) if retry_after else 0
        if self._late(trial):
            return self._replace(until=max(self.until, asked)) if self.value == "open" else self
        failures = self.failures + 1
        if not trial and failures < FAILURES:
            return self._replace(failures=failures)
        if throttled:
            return Breaker("open", failures, self.openings, max(now, asked))
        pause = min(OPEN_US << min(self.openings, 4), LONGEST_OPEN_US)
        return Breaker("open", failures, self.openings + 1, max(now + pause, asked))

    def tried(self) -> Breaker:
        """An attempt is let through to try."""
        return self._replace(value="half_open")

    def untold(self, now: int) -> Breaker:
        """The attempt let through came to no outcome: the next one may try."""
        return self._replace(value="open", until=now) if self.value == "half_open" else self

    def _late(self, trial: bool) -> bool:
        """Whether an outcome is of an attempt that was under way when it opened. Alone a wish to wait longer is news
        then: long replies of a provider that takes no new requests still come to their end."""
        return self.value == "open" or (self.value == "half_open" and not trial)


CLOSED = Breaker()
