"""Providers that fail, and the bounds of a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from devassist.core.errors import ProviderError
from devassist.core.event_parts import Limits
from devassist.core.events import ModelFailed, RunFailed, ToolIntended, ToolReturned, WaitBegun
from devassist.core.signals import ChildFinished, TimerFired
from devassist.llm.scripted import AfterFailures
from tests.runtime.read import failure, head, kinds, of, parked, signal
from tests.runtime.rig import rig
from tests.runtime.world import MovedClock, World, call, final

BUSY = ProviderError("too many requests", code="provider_overloaded", retryable=True, provider_status=429)


async def test_a_provider_fault_is_waited_out() -> None:
    """The wait stands in the record with its end, a timer ends it, and the attempt after it succeeds."""
    clock = MovedClock()
    async with rig([AfterFailures((BUSY, BUSY), final())], clock=clock) as made:
        asked = asyncio.create_task(made.ask())
        seq = -1
        for _ in range(2):
            found = await parked(made, "WAIT", seq)
            assert found.wake_at > clock.now_us()
            seq = found.head_seq
            clock.forward(3)
            await made.service.sweep()
        view = await asked
    wait = ["model_intended", "model_failed", "wait_begun", "timer_fired"]
    assert kinds(view) == ["run_started", *wait, *wait, "model_intended", "model_replied", "run_finished"]
    for begun, fired in zip(of(view, WaitBegun), of(view, TimerFired), strict=True):
        assert begun.until == fired.until
    assert 2_000_000 <= view.state.driven < 4_000_000, "waiting for a provider is driven time"


async def test_a_wait_is_not_ended_before_its_time() -> None:
    """A signal in the middle of a back-off wakes the run, which sees that its time has not come and waits on."""
    clock = MovedClock()
    async with rig([AfterFailures((BUSY,), final())], clock=clock) as made:
        asked = asyncio.create_task(made.ask())
        found = await parked(made, "WAIT")
        assert await signal(made, found.stream, ChildFinished("child:1", "00" * 16, "ERROR")) == 4
        for _ in range(5):
            await made.service.sweep()
            await asyncio.sleep(0.01)
        found = await head(made)
        assert (found.state, found.head_seq) == ("WAIT", 4)
        clock.forward(3)
        await made.service.sweep()
        view = await asked
    assert kinds(view).count("timer_fired") == 1


async def test_a_refused_key_fails_at_once() -> None:
    """Trying again would not help; the provider's word is in the message."""
    error = ProviderError("invalid api key", code="provider_unauthorised", provider_status=401)
    async with rig([error]) as made:
        view = await made.ask()
    assert failure(view) == ("provider_unauthorised", 502)
    assert "invalid api key" in view.texts[of(view, RunFailed)[0].message]
    assert of(view, ModelFailed)[0].retryable is False


async def test_a_model_that_does_not_answer_in_time() -> None:
    """The attempt is cut at the run's deadline, and the run fails as over time."""
    async with rig([["slow", ("", 60_000)]], limits=Limits(deadline_ms=80)) as made:
        view = await made.ask()
    assert failure(view) == ("deadline_exceeded", 504)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(steps=2), "step_limit"),
        (Limits(tokens=100), "token_limit"),
        (Limits(deadline_ms=1), "deadline_exceeded"),
    ],
)
async def test_limits_end_a_run_that_goes_on(limits: Limits, code: str) -> None:
    """Steps, tokens and driven time: each fails the run under its own code, after the calls under way."""
    world = World()

    async def slow(text: str, _: Any) -> str:
        await asyncio.sleep(0.01)
        return text

    world.does["look"] = slow
    async with rig(lambda _: call("look"), world.tools(), limits=limits) as made:
        view = await made.ask()
    assert failure(view)[0] == code
    assert len(of(view, ToolIntended)) == len(of(view, ToolReturned)) == world.done["look"]


async def test_a_model_that_is_not_configured_any_more() -> None:
    """A run resumed where its model is gone fails and says so."""
    async with rig([final()]) as made:
        view = await made.ask(definition=replace(made.definition, model="gone"))
    assert failure(view) == ("model_unavailable", 503)


async def test_cost_is_counted() -> None:
    """Micro-units by the price of the model, summed over attempts; without a price there is none."""
    world = World()
    async with rig([call("look"), final()], world.tools(), limits=Limits(cost=1)) as made:
        made.driver._perform = replace(made.driver._perform, cost=lambda model, given, made_: 7)
        view = await made.ask()
    assert failure(view) == ("cost_limit", 422)
    assert view.state.cost == 7
