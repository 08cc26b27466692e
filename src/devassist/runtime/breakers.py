"""Circuit breakers of a process: one per endpoint, each with a stream of its own that tells when it opened and closed.

A run records what it saw; a breaker's stream records what became of it. The latest fact is what a restart begins with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from devassist.core.breaker import BROKEN, CLOSED, Breaker, Value
from devassist.core.event_codec import encode
from devassist.core.events import ModelFailed
from devassist.core.scope import Scope
from devassist.core.signals import Fact
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Heads, Journal
from devassist.runtime.view import decoded

FACT = "breaker"
SCOPE = Scope("default", "system", frozenset({"system"}))


class Admission(NamedTuple):
    """What a breaker says to an attempt: ``open`` refuses it, and ``until`` is when to come back."""

    value: Value
    until: int = 0


class Breakers:
    """``endpoints`` names the endpoint of each model that has one (``kind:name`` -> endpoint); others never fail as an
    endpoint does."""

    def __init__(self, journal: Journal, clock: Clock, endpoints: Mapping[str, str] | None = None) -> None:
        self._journal, self._clock = journal, clock
        self._endpoints = dict(endpoints or {})
        self._breakers: dict[str, Breaker] = {}

    def value(self, endpoint: str) -> Breaker:
        return self._breakers.get(endpoint, CLOSED)

    async def load(self, heads: Heads) -> None:
        """Begin with the latest fact of each breaker's stream. A trial that was under way ended with the process that
        made it."""
        for endpoint in set(self._endpoints.values()):
            head = await heads.named(SCOPE, "endpoint", endpoint)
            if head is None:
                continue
            facts = decoded(await self._journal.read(SCOPE, head.stream, head.head_seq - 1))
            if facts and isinstance(fact := facts[-1][0], Fact):
                self._breakers[endpoint] = _breaker(dict(fact.data))

    async def admit(self, model: str) -> Admission:
        """Whether an attempt may be made now. A ``half_open`` admission is the one that tries: it must be reported."""
        endpoint = self._endpoints.get(model)
        breaker = CLOSED if endpoint is None else self.value(endpoint)
        if endpoint is None or breaker.value == "closed":
            return Admission("closed")
        now = self._clock.now_us()
        if breaker.value == "half_open" or now < breaker.until:
            # While one tries, others come back as if it had just begun.
            return Admission("open", max(breaker.until, now + 1_000_000))
        await self._move(endpoint, breaker, breaker.tried(), "")
        return Admission("half_open")

    async def succeeded(self, model: str) -> None:
        endpoint = self._endpoints.get(model)
        if endpoint is not None and self.value(endpoint) is not CLOSED:
            await self._move(endpoint, self.value(endpoint), CLOSED, "")

    async def failed(self, model: str, failure: ModelFailed) -> None:
        endpoint = self._endpoints.get(model)
        if endpoint is None:
            return
        breaker, now = self.value(endpoint), self._clock.now_us()
        if failure.code in BROKEN:
            await self._move(endpoint, breaker, breaker.failed(now, failure.retry_after), failure.code)
        else:
            await self._move(endpoint, breaker, breaker.untold(now), failure.code)

    def untold(self, model: str) -> None:
        """An attempt was cut off, so nothing is known of the endpoint."""
        endpoint = self._endpoints.get(model)
        if endpoint is not None:
            self._breakers[endpoint] = self.value(endpoint).untold(self._clock.now_us())

    async def _move(self, endpoint: str, before: Breaker, after: Breaker, code: str) -> None:
        """Set first, so that no second attempt slips through while the fact is written."""
        self._breakers[endpoint] = after
        if before.value == after.value:
            return
        given = {"value": after.value, "failures": after.failures, "openings": after.openings, "until": after.until}
        data = tuple((name, str(value)) for name, value in {**given, "code": code}.items() if value != "")
        fact = Fact(FACT, "system", data)
        body = Body(fact.kind, encode(fact), fact)
        await self._journal.note(SCOPE, "endpoint", endpoint, [body], self._clock.now_us())


def _breaker(data: dict[str, str]) -> Breaker:
    value: Value = "open" if data.get("value") in ("open", "half_open") else "closed"
    failures, openings, until = (int(data.get(name, "0")) for name in ("failures", "openings", "until"))
    return Breaker(value, failures, openings, until)
