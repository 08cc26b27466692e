"""Circuit breakers of a process: one an endpoint, each in a stream of its own."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from devassist.audit.auditor import RecordAuditor
from devassist.core.breaker import CLOSED, FAILURES, OPEN_US
from devassist.core.errors import Unavailable
from devassist.core.events import ModelFailed
from devassist.core.scope import SYSTEM
from devassist.runtime.breakers import TRIAL_US, Admission, Breakers
from devassist.store.memory_journal import MemoryJournal
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault, MemoryVault
from devassist.tools.schema import SchemaChecker
from tests.runtime.world import MovedClock

DOWN = ModelFailed(0, "provider_error", 502, True, 1)
MODEL, PLACE = "openai:m-1", "m-1@http://there/v1"
PASSED = Admission("closed")


def made(journal: Any, clock: MovedClock) -> Breakers:
    return Breakers(journal, clock, {MODEL: PLACE, "openai:m-2": "m-2@http://there/v1"})


async def broken(breakers: Breakers, times: int = FAILURES) -> None:
    for _ in range(times):
        await breakers.report(MODEL, await breakers.admit(MODEL), DOWN)


async def facts(journal: Any) -> list[dict[str, str]]:
    """What the streams of endpoints say, in order."""
    found = [json.loads(record.body) for record in await journal.changes(0)]
    return [dict(body["data"]) for body in found if body["k"] == "fact" and body["name"] == "breaker"]


async def test_a_breaker_opens_tries_and_closes() -> None:
    """Each step of it is a fact, with what led to it; another endpoint's is left alone."""
    journal, clock = MemoryJournal(MemoryVault()), MovedClock()
    breakers = made(journal, clock)
    await broken(breakers)
    assert (await breakers.admit(MODEL)).value == "open"
    assert (await breakers.admit("openai:m-2")).value == "closed"
    clock.forward(OPEN_US / 1e6)
    trial = await breakers.admit(MODEL)
    await breakers.report(MODEL, trial, DOWN)
    clock.forward(2 * OPEN_US / 1e6)
    await breakers.report(MODEL, await breakers.admit(MODEL), None)
    assert breakers.values() == {PLACE: CLOSED, "m-2@http://there/v1": CLOSED}
    told = await facts(journal)
    assert [fact["value"] for fact in told] == ["open", "half_open", "open", "half_open", "closed"]
    assert [fact["openings"] for fact in told] == ["1", "1", "2", "2", "0"]
    assert [fact.get("code") for fact in told] == ["provider_error", None, "provider_error", None, None]


async def test_a_model_without_an_endpoint_has_none() -> None:
    """What answers within the process cannot fail as an endpoint does."""
    breakers = made(MemoryJournal(MemoryVault()), MovedClock())
    for _ in range(2 * FAILURES):
        await breakers.report("extractive:extractive", PASSED, DOWN)
    assert await breakers.admit("extractive:extractive") == PASSED
    assert len(breakers.values()) == 2


async def test_one_among_fifty_may_try() -> None:
    """However many come at the same moment; the others are told when to come back, and so is who comes later."""
    clock = MovedClock()
    breakers = made(MemoryJournal(MemoryVault()), clock)
    await broken(breakers)
    clock.forward(OPEN_US / 1e6)
    said = await asyncio.gather(*(breakers.admit(MODEL) for _ in range(50)))
    assert Counter(one.value for one in said) == {"half_open": 1, "open": 49}
    assert all(one.until >= clock.now_us() + TRIAL_US - 1_000_000 for one in said if one.value == "open")
    for late in (DOWN, None):
        await breakers.report(MODEL, PASSED, late)
        breakers.untold(MODEL, PASSED)
    assert (await breakers.admit(MODEL)).value == "open", "outcomes of others let no second one through"


@pytest.mark.parametrize("code", ["deadline_exceeded", None])
async def test_a_trial_that_came_to_nothing_frees_the_way(code: str | None) -> None:
    """Cancelled, or out of its run's time: the next one tries at once."""
    clock = MovedClock()
    breakers = made(MemoryJournal(MemoryVault()), clock)
    await broken(breakers)
    clock.forward(OPEN_US / 1e6)
    trial = await breakers.admit(MODEL)
    if code is None:
        breakers.untold(MODEL, trial)
    else:
        await breakers.report(MODEL, trial, ModelFailed(0, code, 504, False, 1))
    assert (await breakers.admit(MODEL)).value == "half_open"


async def test_a_refused_request_shows_that_the_endpoint_answers() -> None:
    """A trial that was too long a prompt, or came with a wrong key, closes the breaker like any other answer."""
    clock = MovedClock()
    breakers = made(MemoryJournal(MemoryVault()), clock)
    await broken(breakers)
    clock.forward(OPEN_US / 1e6)
    trial = await breakers.admit(MODEL)
    await breakers.report(MODEL, trial, ModelFailed(0, "context_length_exceeded", 502, False, 1))
    assert await breakers.admit(MODEL) == PASSED


async def test_a_provider_that_names_a_time_is_left_alone_until_then() -> None:
    """Retry-After of the failure that opens it counts, where it is longer than our own pause."""
    clock = MovedClock()
    breakers = made(MemoryJournal(MemoryVault()), clock)
    await broken(breakers, FAILURES - 1)
    asked = ModelFailed(0, "provider_rate_limited", 502, True, 1, retry_after=60_000_000)
    await breakers.report(MODEL, PASSED, asked)
    assert (await breakers.admit(MODEL)).until >= clock.now_us() + 59_000_000


async def test_it_outlives_the_process(tmp_path: Any) -> None:
    """The next process begins where the last fact stands; a trial under way ended with the process that made it."""
    vault, clock = FileVault(tmp_path / "keys"), MovedClock()
    journal = await SqliteJournal.open(tmp_path / "journal.db", vault)
    try:
        first = made(journal, clock)
        await first.load(journal)
        await broken(first)
        second = made(journal, clock)
        await second.load(journal)
        assert second.values() == first.values()
        assert (await second.admit(MODEL)).value == "open"
        clock.forward(OPEN_US / 1e6)
        assert (await second.admit(MODEL)).value == "half_open"
        third = made(journal, clock)
        await third.load(journal)
        trial = await third.admit(MODEL)
        assert trial.value == "half_open"
        await third.report(MODEL, trial, None)
        fourth = made(journal, clock)
        await fourth.load(journal)
        assert fourth.values() == made(journal, clock).values()
        (head,) = await journal.streams(SYSTEM, "endpoint")
        assert head.name == PLACE
        report = await RecordAuditor(journal, journal, journal, vault, SchemaChecker()).verify(SYSTEM, head.stream)
        assert report.ok, report
    finally:
        await journal.close()
        await vault.close()


class Unwritable(MemoryJournal):
    async def note(self, *args: Any, **options: Any) -> Any:
        raise Unavailable("the disk is full")


async def test_a_breaker_that_cannot_be_recorded_works_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """The outcome of the attempt is worth more: it is not lost to a fault of the breaker's own story."""
    breakers = made(Unwritable(MemoryVault()), MovedClock())
    await broken(breakers)
    assert (await breakers.admit(MODEL)).value == "open"
    assert "could not be recorded" in caplog.text
