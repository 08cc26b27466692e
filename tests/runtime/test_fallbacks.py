"""Runs whose model fails, with others to go to: when they go, what they take along, and what the record says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devassist.audit.auditor import RecordAuditor
from devassist.audit.explain import explain
from devassist.core.breaker import FAILURES
from devassist.core.errors import ProviderError
from devassist.core.event_parts import Limits
from devassist.core.events import BreakerSeen, ModelFailed, ModelIntended, ModelSwitched, RunFinished, WaitBegun
from devassist.core.patience import BACKOFF_US, MAX_FAILURES, SWITCH_AFTER
from devassist.core.scope import SYSTEM
from devassist.core.view import summary
from devassist.runtime.breakers import Admission
from devassist.runtime.view import RunView
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.tools.schema import SchemaChecker
from tests.provider.rig import ended, waits
from tests.runtime.read import Recording, answer, failure, kinds, of
from tests.runtime.rig import USER, Rig, build, rig
from tests.runtime.world import MovedClock, World, call, final

DOWN = ProviderError("bad gateway", code="provider_error", retryable=True, provider_status=502)
CLOSED = Admission("closed")
ENDPOINTS = {"scripted:scripted": "a", "spare:b": "b", "spare:c": "c"}


def throttling(seconds: float) -> ProviderError:
    return ProviderError(
        "slow down", code="provider_rate_limited", retryable=True, retry_after_ms=int(seconds * 1000),
        provider_status=429,
    )  # fmt: skip


def refusing(code: str) -> ProviderError:
    return ProviderError("no", code=code, provider_status=401)


class Models:
    """The agent's own model and its fallbacks ``b`` and ``c``; ``asked`` is how often each was."""

    def __init__(self, own: Any, b: Any = None, c: Any = None) -> None:
        self.clock = MovedClock()
        self.own = Recording(own)
        given = {"b": b, "c": c}
        self.spare = {f"spare:{n}": Recording(s, name=n) for n, s in given.items() if s is not None}

    @property
    def asked(self) -> tuple[int, ...]:
        return (len(self.own.requests), *(len(m.requests) for m in self.spare.values()))

    def rig(self, **options: Any) -> Any:
        return rig(self.own, clock=self.clock, fallbacks=self.spare, endpoints=ENDPOINTS, **options)

    async def ask(self, made: Rig, message: str = "hi", **changes: Any) -> RunView:
        stream = (await made.service.start(USER, made.start_run(message, **changes))).stream
        view = await ended(made, self.clock, stream)
        auditor = RecordAuditor(made.journal, made.journal, made.journal, made.vault, SchemaChecker())
        for report in (await auditor.verify(SYSTEM, stream), await auditor.replay(SYSTEM, stream)):
            assert report.ok, report
        return view


def always(reply: Any) -> Any:
    return lambda _: reply


async def test_a_model_that_keeps_failing_is_left() -> None:
    """After a pause and a second failure the next one is asked, with the same messages; the answer says so."""
    models = Models(always(DOWN), [final("From b.")])
    async with models.rig() as made:
        view = await models.ask(made)
    assert (answer(view), models.asked) == ("From b.", (SWITCH_AFTER, 1))
    assert kinds(view) == [
        "run_started", "model_intended", "model_failed", "wait_begun", "timer_fired", "model_intended", "model_failed",
        "model_switched", "model_intended", "model_replied", "run_finished",
    ]  # fmt: skip
    (switched,) = of(view, ModelSwitched)
    assert (switched.model, switched.choice, switched.reason) == ("b", 1, "provider_error")
    assert of(view, RunFinished)[0].degraded == ("model_switched",)
    assert models.own.requests[0].messages == models.spare["spare:b"].requests[0].messages
    (told,) = summary(view.placed, view.text, trace_id=view.stream.hex())["degraded"]
    assert told["code"] == "model_switched"
    assert "b" in told["detail"].split()


async def test_the_rest_of_the_run_stays_with_the_other_model() -> None:
    """What its own model began is gone on with; the record shows which model decided what."""
    world = World()
    models = Models([call("look"), DOWN], [final(), call("look", "b"), final()])
    async with models.rig(tools=world.tools()) as made:
        view = await models.ask(made)
    assert answer(view) == "Done."
    assert [intent.choice for intent in of(view, ModelIntended)] == [0, 0, 0, 1, 1]
    assert [text for _, text, _ in world.seen] == ["x", "b"]


async def test_models_are_gone_through_in_order() -> None:
    """Each has its chances; the last one has all of them, and its failure is the run's."""
    models = Models(always(DOWN), always(DOWN), always(throttling(1)))
    async with models.rig() as made:
        view = await models.ask(made)
    assert models.asked == (SWITCH_AFTER, SWITCH_AFTER, MAX_FAILURES)
    assert failure(view)[0] == "provider_rate_limited"
    assert [switched.choice for switched in of(view, ModelSwitched)] == [1, 2]
    assert len(of(view, WaitBegun)) == 2 * (SWITCH_AFTER - 1) + MAX_FAILURES - 1


async def test_a_long_retry_after_is_not_waited_for() -> None:
    """At once to the next model, after a single attempt; a short one is waited out first."""
    models = Models(always(throttling(60)), always(final("From b.")))
    async with models.rig() as made:
        view = await models.ask(made)
        assert (answer(view), models.asked, of(view, WaitBegun)) == ("From b.", (1, 1), [])
    models = Models([throttling(2)], [final("From b.")])
    async with models.rig() as made:
        view = await models.ask(made)
    assert models.asked == (SWITCH_AFTER, 1)
    assert len(of(view, WaitBegun)) == 1


@pytest.mark.parametrize("code", ["provider_auth_failed", "provider_quota_exhausted", "provider_rejected"])
async def test_a_refusal_is_left_at_once(code: str) -> None:
    """One attempt, no pause, and the other model's answer; without another the run fails at once."""
    models = Models(always(refusing(code)), always(final()))
    async with models.rig() as made:
        for _ in range(MAX_FAILURES + 1):
            view = await models.ask(made)
            assert (answer(view), of(view, WaitBegun), of(view, BreakerSeen)) == ("Done.", [], [])
    alone = Models(always(refusing(code)))
    async with alone.rig() as made:
        for _ in range(MAX_FAILURES + 1):
            assert failure(await alone.ask(made))[0] == code
    assert alone.asked == (MAX_FAILURES + 1,)


async def test_a_filter_is_not_got_round() -> None:
    """No other model is shown what a provider's filter blocked."""
    models = Models(always(refusing("content_filtered")), always(final()))
    async with models.rig() as made:
        view = await models.ask(made)
    assert (failure(view)[0], models.asked) == ("content_filtered", (1, 0))


async def test_an_open_breaker_sends_runs_on_without_a_request() -> None:
    """Once it is known that an endpoint fails, runs go straight to the other; when it works again they come back."""
    models = Models(always(DOWN), always(final("From b.")))
    async with models.rig() as made:
        while made.driver._breakers.values()["a"].value == "closed":
            await models.ask(made)
        before = models.asked[0]
        view = await models.ask(made)
        assert (answer(view), models.asked[0]) == ("From b.", before)
        assert kinds(view)[:3] == ["run_started", "breaker_seen", "model_switched"]
        assert of(view, ModelSwitched)[0].reason == "provider_circuit_open"
        assert of(view, BreakerSeen)[0].until > models.clock.now_us()
        story = await explain(made.journal, made.vault, USER, view.stream)
        assert [entry["what"] for entry in story["entries"]][1:4] == ["breaker_open", "model_switched", "model_asked"]
        models.own._script = always(final("From a."))
        models.clock.forward(11)
        view = await models.ask(made)
        assert of(view, ModelIntended)[0].breaker == "half_open"
        assert (answer(view), of(view, RunFinished)[0].degraded) == ("From a.", ())
        assert answer(await models.ask(made)) == "From a."


async def test_all_breakers_open() -> None:
    """The last model's is waited for; in the end the run has its answer from there."""
    models = Models(always(DOWN), always(DOWN))
    async with models.rig() as made:
        for key in ENDPOINTS:
            for _ in range(FAILURES):
                await made.driver._breakers.report(key, CLOSED, ModelFailed(0, "provider_error", 502, True, 1))
        before = models.asked
        stream = (await made.service.start(USER, made.start_run())).stream
        view = await waits(made, stream)
        assert view is not None
        assert kinds(view) == ["run_started", "breaker_seen", "model_switched", "breaker_seen", "wait_begun"]
        assert models.asked == before
        models.spare["spare:b"]._script = always(final("From b."))
        view = await ended(made, models.clock, stream)
    assert answer(view) == "From b."
    assert models.asked == (before[0], before[1] + 1)


async def test_without_another_model_a_run_waits() -> None:
    """Its own pauses, and then the failure; the waits are all on record."""
    models = Models(always(DOWN))
    async with models.rig() as made:
        view = await models.ask(made)
    assert (failure(view)[0], models.asked) == ("provider_error", (MAX_FAILURES,))
    for wait, least in zip(of(view, WaitBegun), BACKOFF_US, strict=True):
        at = next(at for event, _, at in view.placed if event is wait)
        assert least <= wait.until - at
        woke = next(at for event, _, at in view.placed if event.kind == "timer_fired" and event.until == wait.until)
        assert woke >= wait.until


async def test_a_run_with_no_time_to_wait_goes_on_at_once() -> None:
    """With a deadline nearer than the pause, the other model is asked instead."""
    models = Models(always(DOWN), always(final("From b.")))
    async with models.rig(limits=Limits(deadline_ms=700)) as made:
        view = await models.ask(made)
    assert (answer(view), models.asked, of(view, WaitBegun)) == ("From b.", (1, 1), [])


async def test_a_run_stays_with_the_definition_that_it_began_with() -> None:
    """Fallbacks that were set since are not its own; a fallback that is gone fails it, which replays."""
    models = Models(always(DOWN), always(final("From b.")))
    async with models.rig() as made:
        alone = replace(made.definition, fallbacks=())
        view = await models.ask(made, definition=alone)
        assert (failure(view)[0], models.asked[1]) == ("provider_error", 0)
        models.clock.forward(3600)
        gone = replace(made.definition, fallbacks=("spare:gone",))
        view = await models.ask(made, definition=gone)
    assert failure(view) == ("model_unavailable", 503)
    assert of(view, ModelFailed)


async def test_usage_of_every_attempt_counts() -> None:
    """What failed attempts cost is the run's cost, at the price of the model that each went to."""
    costly = ProviderError("empty", code="reply_empty_choices", retryable=True, input_tokens=100)
    prices = {"scripted": 3, "b": 1}
    models = Models(always(costly), always(final()))
    async with models.rig() as made:
        made.driver._perform = replace(made.driver._perform, cost=lambda model, given, _: given * prices[model])
        view = await models.ask(made)
    last = view.state.input_tokens - SWITCH_AFTER * 100
    assert last > 0
    assert view.state.cost == SWITCH_AFTER * 300 + last


async def test_a_limit_is_looked_at_before_each_attempt() -> None:
    """Also before the first of another model: what failed attempts used up is used up."""
    costly = ProviderError("empty", code="reply_empty_choices", retryable=True, input_tokens=60)
    models = Models(always(costly), always(final()))
    async with models.rig(limits=Limits(tokens=100)) as made:
        view = await models.ask(made)
    assert (failure(view), models.asked) == (("token_limit", 422), (2, 0))


async def test_a_wait_outlives_the_process() -> None:
    """Whoever drives the run next keeps to the time that stands in the record, and to the model that it had gone to."""
    clock, vault = MovedClock(), MemoryVault()
    journal = MemoryJournal(vault)
    spare = Recording([throttling(4), final("From b.")], name="b")
    own = Recording(always(refusing("provider_quota_exhausted")))
    first = build(journal, vault, own, clock=clock, fallbacks={"spare:b": spare}, endpoints=ENDPOINTS)
    await first.service.open(sole_driver=True)
    stream = (await first.service.start(USER, first.start_run())).stream
    view = await waits(first, stream)
    assert view is not None
    until = view.state.wait_until
    await first.service.drain(0.0)
    spare._script = always(final("From b."))
    second = build(journal, vault, own, clock=clock, fallbacks={"spare:b": spare}, endpoints=ENDPOINTS)
    await second.service.open(sole_driver=True)
    try:
        clock.forward((until - clock.now_us()) / 1_000_000 - 0.1)
        await second.service.sweep()
        assert await waits(second, stream) is not None
        assert len(spare.requests) == 1, "not earlier"
        view = await ended(second, clock, stream)
    finally:
        await second.service.drain(0.0)
    assert (answer(view), len(own.requests), len(spare.requests)) == ("From b.", 1, 2)
    assert of(view, ModelIntended)[-1].choice == 1
