"""Circuit breakers of a process: one per endpoint, each with a stream of its own that tells when it opened and closed.

A run records what it saw; a breaker's stream records what became of it. The latest fact is what a restart begins with.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from devassist.core.breaker import BROKEN, CLOSED, THROTTLED, UNTOLD, Breaker, Value
from devassist.core.errors import DevAssistError
from devassist.core.events import ModelFailed
from devassist.core.scope import TENANT, Scope
from devassist.core.signals import Fact
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Heads, Journal
from devassist.runtime.view import decoded

log = logging.getLogger("devassist.runtime")

FACT = "breaker"
TRIAL_US = 2_000_000
"""While one attempt tries, others come back after so long."""
SCOPE = Scope(TENANT, "system", frozenset({"system"}))


class Admission(NamedTuple):
    """What a breaker says to an attempt: ``open`` refuses it, and ``until`` is when to come back."""

    value: Value
    until: int = 0


class Breakers:
    """``endpoints`` names the endpoint of each model that has one (key of the model -> endpoint); others never fail as
    an endpoint does. As many breakers are kept as there are endpoints."""

    def __init__(self, journal: Journal, clock: Clock, endpoints: Mapping[str, str] | None = None) -> None:
        self._journal, self._clock = journal, clock
        self._endpoints = dict(endpoints or {})
        self._breakers: dict[str, Breaker] = dict.fromkeys(self._endpoints.values(), CLOSED)

    def values(self) -> dict[str, Breaker]:
        """Every endpoint's breaker as it stands."""
        return dict(self._breakers)

    async def load(self, heads: Heads) -> None:
        """Begin with the latest fact of each breaker's stream. A trial that was under way ended with the process that
        made it."""
        for endpoint in self._breakers:
            head = await heads.named(SCOPE, "endpoint", endpoint)
            if head is None:
                continue
            facts = decoded(await self._journal.read(SCOPE, head.stream, head.head_seq - 1))
            if facts and isinstance(fact := facts[-1][0], Fact):
                self._breakers[endpoint] = _breaker(dict(fact.data))

    async def admit(self, model: str) -> Admission:
        """Whether an attempt may be made now. What comes of one that was let through is told by ``report``."""
        endpoint = self._endpoints.get(model)
        if endpoint is None or (breaker := self._breakers[endpoint]).value == "closed":
            return Admission("closed")
        now = self._clock.now_us()
        if breaker.value == "half_open" or now < breaker.until:
            return Admission("open", max(breaker.until, now + TRIAL_US))
        await self._move(endpoint, breaker.tried())
        return Admission("half_open")

    async def report(self, model: str, admission: Admission, failure: ModelFailed | None) -> None:
        """A reply (``failure`` None) or a failure came of the attempt that ``admission`` let through."""
        endpoint, code = self._endpoints.get(model), "" if failure is None else failure.code
        if endpoint is None:
            return
        breaker, now, trial = self._breakers[endpoint], self._clock.now_us(), admission.value == "half_open"
        throttled = failure is not None and code == THROTTLED and failure.retry_after > 0
        if failure is not None and (code in BROKEN or throttled):
            after = breaker.failed(now, failure.retry_after, throttled=throttled, trial=trial)
            await self._move(endpoint, after, code)
        elif code not in UNTOLD:
            await self._move(endpoint, breaker.succeeded(trial=trial), code)
        else:
            self.untold(model, admission)

    def untold(self, model: str, admission: Admission) -> None:
        """The attempt was cut off, so nothing is known of the endpoint: if it was to try, the next one may."""
        endpoint = self._endpoints.get(model)
        if endpoint is not None and admission.value == "half_open":
            self._breakers[endpoint] = self._breakers[endpoint].untold(self._clock.now_us())

    async def _move(self, endpoint: str, after: Breaker, code: str = "") -> None:
        """Set first, so that no second attempt slips through while the fact is written. What cannot be written is said
        in the log and no more: the outcome that led to it is worth more than the breaker's own story."""
        before, self._breakers[endpoint] = self._breakers[endpoint], after
        if (before.value, before.until) == (after.value, after.until):
            return
        given = {"value": after.value, "failures": after.failures, "openings": after.openings, "until": after.until}
        data = tuple((name, str(value)) for name, value in {**given, "code": code}.items() if value != "")
        fact = Fact(FACT, "system", data)
        try:
            await self._journal.note(SCOPE, "endpoint", endpoint, [Body.of(fact)], self._clock.now_us())
        except DevAssistError:
            log.exception("the breaker of %s is %s, which could not be recorded", endpoint, after.value)


def _breaker(data: dict[str, str]) -> Breaker:
    value: Value = "open" if data.get("value") in ("open", "half_open") else "closed"
    failures, openings, until = (int(data.get(name, "0")) for name in ("failures", "openings", "until"))
    return Breaker(value, failures, openings, until)
