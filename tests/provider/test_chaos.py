"""A hundred runs at once against providers that fail in every way: each run ends, and the record adds up.

Time runs faster here than on the wall, so that pauses of seconds take moments; all else is as in production.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from devassist.audit.auditor import RecordAuditor
from devassist.core.event_parts import Limits
from devassist.core.events import (
    BreakerSeen,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    ModelSwitched,
    RunFailed,
    RunFinished,
    WaitBegun,
)
from devassist.core.scope import SYSTEM
from devassist.core.signals import TimerFired
from devassist.core.states import State
from devassist.llm.endpoint import SessionSettings
from devassist.runtime.clock import SystemClock
from devassist.runtime.starting import Bounds
from devassist.runtime.view import RunView, load
from devassist.tools.schema import SchemaChecker
from tests.provider.fake import Answer, FakeProvider, provider, refusal, throttled
from tests.provider.rig import calling
from tests.runtime.read import answer, of
from tests.runtime.rig import USER, Rig
from tests.runtime.world import World, call, final

RUNS = 100
FAULTS = 0.2
HOUR_S = 3600
"""Minutes on the wall: what is bounded by time must not depend on how busy the machine is."""
SETTINGS = SessionSettings(connect_s=1.5, first_token_s=1.0, idle_s=1.0)
PROVIDERS_OWN = {
    "provider_rate_limited", "provider_error", "stream_interrupted", "stream_incomplete", "provider_timeout",
    "reply_unreadable", "reply_empty_choices",
}  # fmt: skip


class FastClock(SystemClock):
    """The host's clock, so many times as fast."""

    def __init__(self, pace: int) -> None:
        self._pace, self._began, self._boot = pace, super().now_us(), super().boottime_us()

    def now_us(self) -> int:
        return self._began + (super().now_us() - self._began) * self._pace

    def boottime_us(self) -> int:
        return self._boot + (super().boottime_us() - self._boot) * self._pace

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._pace)


@dataclass
class Chaos:
    """What an endpoint does: seeded faults, and an outage for requests in ``dark``."""

    clock: FastClock
    seed: str
    dark: range = range(0)

    def __call__(self, body: dict[str, Any], number: int) -> Answer:
        rng = Random(f"{self.seed}/{number}")
        if number in self.dark:
            return refusal(rng.choice((500, 502, 503)))
        if rng.random() < FAULTS:
            return rng.choice((
                self.throttled, self.dated, throttled, lambda: refusal(rng.choice((500, 502, 503, 529)), "down"),
                lambda: Answer(_reply(body), cut=12), lambda: Answer(_reply(body), unfinished=True),
                lambda: Answer(_reply(body), first_s=3.5), lambda: Answer(body="{oops"),
                lambda: Answer(body={"error": {"message": "upstream", "code": 502}, "choices": None}),
                lambda: Answer(body={"choices": [], "usage": {"total_tokens": 3}}),
                lambda: Answer("I would rather just chat."), lambda: Answer("Action: tool:look\nargs: {broken"),
            ))()  # fmt: skip
        return Answer(_reply(body))

    def throttled(self) -> Answer:
        return throttled("2")

    def dated(self) -> Answer:
        return throttled(formatdate(self.clock.now_us() / 1e6 + 3, usegmt=True))


def _reply(body: dict[str, Any]) -> str:
    """Look something up, then answer with the number of the run."""
    texts = [message["content"] for message in body["messages"]]
    number = next(text for text in texts if text.startswith("run "))
    return final(f"It is {number}.") if any(text.startswith("Observation") for text in texts) else call("look", number)


@asynccontextmanager
async def swept(made: Rig) -> AsyncIterator[None]:
    """Timers go by the wall, so look more often than once a second for what is due."""

    async def often() -> None:
        while True:
            await asyncio.sleep(0.05)
            await made.service.sweep()

    task = asyncio.create_task(often())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("dark", [range(0), range(60, 130)], ids=["faults", "faults and an outage"])
async def test_every_run_ends_and_the_record_adds_up(tmp_path: Path, dark: range) -> None:
    """Each run has its own answer or a typed error within bounds; attempts on record are the requests that providers
    counted, every failure is followed by a recorded wait, switch or end, and all runs verify and replay."""
    clock, world = FastClock(20), World()
    chaos = Chaos(clock, f"own {dark}", dark), Chaos(clock, f"spare {dark}")
    async with provider(chaos[0]) as own, provider(chaos[1]) as spare, calling(
        own, spare, clock=clock, path=tmp_path, tools=world.tools(timeout_s=HOUR_S), settings=SETTINGS,
        bounds=Bounds(lease_s=HOUR_S), limits=Limits(deadline_ms=HOUR_S * 1000),
    ) as made, swept(made):  # fmt: skip
        starts = [made.start_run(f"run {n}", watched=n % 2 == 0) for n in range(RUNS)]
        started = await asyncio.gather(*(made.service.start(USER, start) for start in starts))
        async with asyncio.timeout(90):
            await asyncio.gather(*(made.service.wait(USER, one.stream) for one in started))
        views = [await load(made.journal, SYSTEM, one.stream) for one in started]
        auditor = RecordAuditor(made.journal, made.journal, made.journal, made.vault, SchemaChecker())
        for view in views:
            for report in (await auditor.verify(SYSTEM, view.stream), await auditor.replay(SYSTEM, view.stream)):
                assert report.ok, report
        told = await breaker_facts(made)
    for number, view in enumerate(views):
        check_end(view, number)
        check_waits(view)
    check_count(views, own, spare)
    check_breakers(views, told, outage=bool(dark))
    codes = Counter(failed.code for view in views for failed in of(view, ModelFailed))
    assert set(codes) <= PROVIDERS_OWN
    assert len(codes) >= 6, codes
    assert sum(view.state.state is State.FINAL_ANSWER for view in views) >= 0.9 * RUNS
    assert any(of(view, ModelSwitched) for view in views)
    assert world.done["look"] == sum(view.state.tool_calls for view in views)


def check_end(view: RunView, number: int) -> None:
    """Its own answer, maybe marked as one without the format, or an error with a code that names the provider."""
    assert view.state.state in (State.FINAL_ANSWER, State.ERROR)
    if view.state.state is State.ERROR:
        (failed,) = of(view, RunFailed)
        assert failed.code in PROVIDERS_OWN | {"reply_format_invalid", "tool_arguments_malformed", "deadline_exceeded"}
        assert view.texts[failed.message]
        return
    (finished,) = of(view, RunFinished)
    assert ("model_switched" in finished.degraded) == bool(of(view, ModelSwitched))
    expected = "I would rather just chat." if "unstructured" in finished.degraded else f"It is run {number}."
    assert answer(view) == expected


def check_waits(view: RunView) -> None:
    """After each failure the record says what was done about it, and no wait was cut short."""
    owner = [event for event in view.events if not isinstance(event, TimerFired)]
    for event, after in pairwise(owner):
        if isinstance(event, ModelFailed):
            assert isinstance(after, WaitBegun | ModelSwitched | RunFailed), (event, after)
    began = {id(event): at for event, _, at in view.placed}
    for index, event in enumerate(view.events):
        if isinstance(event, WaitBegun):
            failed = view.events[index - 1]
            after = view.events[index + 2]
            assert began[id(after)] >= event.until
            if isinstance(failed, ModelFailed):
                assert event.until - began[id(failed)] >= failed.retry_after


def check_count(views: list[RunView], own: FakeProvider, spare: FakeProvider) -> None:
    """What the journal calls an attempt is what a provider calls a request."""
    intents = [intent for view in views for intent in of(view, ModelIntended)]
    outcomes = [event for view in views for event in view.events if isinstance(event, ModelReplied | ModelFailed)]
    assert len(intents) == len(outcomes)
    assert (sum(i.choice == 0 for i in intents), sum(i.choice == 1 for i in intents)) == (own.count, spare.count)
    assert own.count > RUNS


async def breaker_facts(made: Rig) -> dict[str, list[tuple[int, str]]]:
    """Of each endpoint's stream: when its breaker came to be what."""
    told: dict[str, list[tuple[int, str]]] = {}
    for head in await made.journal.streams(SYSTEM, "endpoint"):
        records = await made.journal.read(SYSTEM, head.stream)
        told[head.name] = [(record.at, dict(json.loads(record.body)["data"])["value"]) for record in records]
    return told


def check_breakers(views: list[RunView], told: dict[str, list[tuple[int, str]]], *, outage: bool) -> None:
    """Streams of breakers tell a legal story, and what runs saw of them agrees with it."""
    assert outage <= bool(told), "an outage opens a breaker"
    follows = {None: {"open"}, "open": {"open", "half_open"}, "half_open": {"open", "closed"}, "closed": {"open"}}
    for story in told.values():
        before: str | None = None
        for _, value in story:
            assert value in follows[before]
            before = value
    tries = sum(value == "half_open" for story in told.values() for _, value in story)
    made = sum(intent.breaker == "half_open" for view in views for intent in of(view, ModelIntended))
    assert tries == made
    opened = {name.split("@")[0]: min(at for at, _ in story) for name, story in told.items()}
    for view in views:
        for event, _, at in view.placed:
            if isinstance(event, BreakerSeen):
                assert at >= opened[f"m-{event.choice + 1}"] - 1_000_000
    assert outage <= any(of(view, BreakerSeen) for view in views)
