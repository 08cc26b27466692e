"""Circuit breakers as runs see them: what is not sent, who tries, and what the record says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devassist.audit.auditor import RecordAuditor
from devassist.core.breaker import FAILURES, OPEN_US, Breaker
from devassist.core.commands import JITTER_US
from devassist.core.errors import ProviderError
from devassist.core.event_codec import encode
from devassist.core.event_parts import Limits
from devassist.core.events import BreakerSeen, ModelIntended, ModelSwitched, RunFinished, WaitBegun
from devassist.core.scope import SYSTEM
from devassist.core.signals import CancelRequested
from devassist.core.states import State
from devassist.core.view import summary
from devassist.llm.scripted import Scripted
from devassist.ports.journal import Append, Body
from devassist.runtime import starting
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.tools.schema import SchemaChecker
from tests.provider.fake import Answer, FakeProvider, provider, refusal, throttled
from tests.provider.rig import calling, ended, waits
from tests.runtime.read import answer, failure, kinds, of
from tests.runtime.rig import USER, Rig, build
from tests.runtime.world import MovedClock, final, until


async def opened(made: Rig, clock: MovedClock, fake: FakeProvider) -> None:
    """One run that fails until the breaker of the first endpoint is open; the provider works again after it."""
    stream = (await made.service.start(USER, made.start_run("first"))).stream
    view = await ended(made, clock, stream)
    assert view.state.state is State.ERROR
    assert fake.count == FAILURES
    assert [b.value for b in made.driver._breakers.values().values()] == ["open"]


async def test_fifty_runs_wait_and_one_of_them_tries() -> None:
    """While the breaker is open nothing is sent; then one request, and the others only after its reply."""
    clock = MovedClock()
    async with provider([refusal(500)]) as fake, calling(fake, clock=clock) as made:
        await opened(made, clock, fake)
        streams = [(await made.service.start(USER, made.start_run(f"n{n}"))).stream for n in range(50)]
        views = [await waits(made, stream) for stream in streams]
        assert all(view is not None and kinds(view) == ["run_started", "breaker_seen", "wait_begun"] for view in views)
        assert fake.count == FAILURES
        fake.then(Answer(final("Here.")))
        fake.gate.clear()
        clock.forward(OPEN_US / 1e6 + 1)
        for _ in range(10):
            await made.service.sweep()
            await asyncio.sleep(0.02)
        assert fake.count == FAILURES + 1
        fake.gate.set()
        done = [await ended(made, clock, stream) for stream in streams]
    assert {answer(view) for view in done} == {"Here."}
    assert fake.count == FAILURES + 50
    tries = [intent for view in done for intent in of(view, ModelIntended) if intent.breaker == "half_open"]
    assert len(tries) == 1
    assert all(wait.reason == "breaker" for view in done for wait in of(view, WaitBegun))


async def test_a_cancelled_trial_frees_the_way() -> None:
    """The run that tried is cancelled in the middle of it; the next one tries instead."""
    clock = MovedClock()
    async with provider([refusal(500)]) as fake, calling(fake, clock=clock) as made:
        await opened(made, clock, fake)
        clock.forward(OPEN_US / 1e6)
        fake.then(Answer(first_s=5.0), Answer(final("Here.")))
        first = (await made.service.start(USER, made.start_run("slow"))).stream
        await until(lambda: fake.count == FAILURES + 1)
        await made.service.cancel(USER, first)
        assert (await made.service.wait(USER, first)).state.state is State.ABORTED
        view = await made.ask("next")
    assert answer(view) == "Here."
    assert [intent.breaker for intent in of(view, ModelIntended)] == ["half_open"]


async def test_an_outage_ends_runs_with_a_typed_error() -> None:
    """Without another model a run waits as long as its time allows, and then says that the provider was left alone."""
    clock = MovedClock()
    limits = Limits(deadline_ms=30_000)
    async with provider([refusal(503)]) as fake, calling(fake, clock=clock, limits=limits) as made:
        await opened(made, clock, fake)
        view = await ended(made, clock, (await made.service.start(USER, made.start_run("late"))).stream)
    assert failure(view) == ("provider_circuit_open", 503)
    assert len(of(view, BreakerSeen)) == 2
    assert fake.count == FAILURES + 1, "one attempt, to try"


async def test_throttled_runs_come_back_when_the_provider_said() -> None:
    """Who comes while others were told to wait is told the same time, without a request; no pause of ours is added."""
    clock = MovedClock()
    async with provider([throttled("2")]) as fake, calling(fake, clock=clock) as made:
        fake.gate.clear()
        streams = [(await made.service.start(USER, made.start_run(f"n{n}"))).stream for n in range(FAILURES)]
        await until(lambda: fake.count == FAILURES)
        fake.gate.set()
        for stream in streams:
            assert await waits(made, stream) is not None
        view = await waits(made, (await made.service.start(USER, made.start_run("late"))).stream)
        assert view is not None
        assert kinds(view) == ["run_started", "breaker_seen", "wait_begun"]
        assert view.state.wait_until <= clock.now_us() + 2_000_000 + JITTER_US
        fake.then(Answer(final("Here.")))
        assert answer(await ended(made, clock, view.stream)) == "Here."
        assert {answer(await ended(made, clock, stream)) for stream in streams} == {"Here."}
        assert fake.count == 2 * FAILURES + 1


async def test_a_run_goes_back_to_its_own_model_when_that_may_be_tried() -> None:
    """The fallback is left alone for minutes, the own model for seconds: the run waits for that one, which answers, and
    the answer is marked with nothing, since no other model had a part in it. It replays without a difference."""
    clock = MovedClock()
    async with (
        provider([Answer(final("Here."))]) as own,
        provider([]) as spare,
        calling(own, spare, clock=clock) as made,
    ):
        now, breakers = clock.now_us(), made.driver._breakers._breakers
        for endpoint, left in zip(list(breakers), (5_000_000, 150_000_000), strict=True):
            breakers[endpoint] = Breaker("open", FAILURES, 4, now + left)
        stream = (await made.service.start(USER, made.start_run())).stream
        view = await ended(made, clock, stream)
        auditor = RecordAuditor(made.journal, made.journal, made.journal, made.vault, SchemaChecker())
        report = await auditor.replay(SYSTEM, stream)
        told = summary(view.placed, view.text, trace_id=stream.hex())
    assert (answer(view), own.count, spare.count) == ("Here.", 1, 0)
    assert [switched.choice for switched in of(view, ModelSwitched)] == [1, 0]
    assert (of(view, RunFinished)[0].degraded, told["degraded"]) == ((), [])
    assert (report.ok, report.differences) == (True, ())


# -- runs of before --------------------------------------------------------------------------------------------------


async def test_runs_of_before_know_no_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without the flag asks as it always did, open breaker or not, and replays without a difference."""
    clock = MovedClock()
    monkeypatch.setattr(starting, "FLAGS", ())
    async with provider([refusal(500)]) as fake, calling(fake, clock=clock) as made:
        auditor = RecordAuditor(made.journal, made.journal, made.journal, made.vault, SchemaChecker())
        for number in (1, 2, 3):
            stream = (await made.service.start(USER, made.start_run(f"n{number}"))).stream
            view = await ended(made, clock, stream)
            assert fake.count == 3 * number, "three attempts each, as before"
            assert not of(view, BreakerSeen)
            report = await auditor.replay(SYSTEM, stream)
            assert (report.ok, report.differences) == (True, ())
        assert [b.value for b in made.driver._breakers.values().values()] == ["open"]


class Crossed(MemoryJournal):
    """A journal in which a cancel comes right before the next model intent, once ``crossing`` is set."""

    crossing = False

    async def append(self, scope: Any, append: Append) -> Any:
        if self.crossing and append.bodies[-1].kind == ModelIntended.kind:
            self.crossing = False
            event = CancelRequested("cancel:x", "00" * 16)
            await self.signal(SYSTEM, append.stream, event.signal_id, Body(event.kind, encode(event)), append.at)
        return await super().append(scope, append)


async def test_a_signal_in_the_way_of_an_intent_leaves_no_trial_behind() -> None:
    """The run was cancelled before its intent could be appended: no attempt was made, and the next one may try."""
    clock, vault, up = MovedClock(), MemoryVault(), False
    error = ProviderError("down", code="provider_error", retryable=True)
    journal = Crossed(vault)
    model = Scripted(lambda _: final() if up else error)
    made = build(journal, vault, model, clock=clock, endpoints={"scripted:scripted": "there"})
    await made.service.open(sole_driver=True)
    try:
        await ended(made, clock, (await made.service.start(USER, made.start_run())).stream)
        assert [b.value for b in made.driver._breakers.values().values()] == ["open"]
        clock.forward(OPEN_US / 1e6)
        up = journal.crossing = True
        view = await made.ask("second")
        assert view.state.state is State.ABORTED
        assert kinds(view) == ["run_started", "cancel_requested", "run_aborted"]
        assert answer(await made.ask("third")) == "Done."
    finally:
        await made.service.drain(0.0)
