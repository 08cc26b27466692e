"""The cases of group B that need a whole run: a provider behind real HTTP, and waits that stand in the record."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from statistics import median
from typing import Any

import pytest

from devassist.core.commands import JITTER_US
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
from devassist.core.patience import BACKOFF_US, MAX_FAILURES
from devassist.runtime.view import RunView
from tests.llm.cases import case
from tests.provider.fake import Answer, of_case, provider, refusal, throttled
from tests.provider.rig import asked, calling, ended, waits
from tests.runtime.read import answer, failure, kinds, of
from tests.runtime.rig import USER
from tests.runtime.world import MovedClock, World, call, final

HELLO = Answer()


def waited(view: RunView, wait: WaitBegun) -> int:
    """Microseconds from the failure to the end of the wait."""
    at = next(at for event, _, at in view.placed if event is wait)
    return wait.until - at


def set_to(moment: str) -> MovedClock:
    clock = MovedClock()
    wanted = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    clock.forward(wanted - clock.now_us() / 1_000_000)
    return clock


async def test_b01_retry_after_in_seconds() -> None:
    """The second request comes 7 s after the refusal, never earlier and hardly later; the wait is driven time."""
    clock = MovedClock()
    async with provider([of_case(step) for step in case("B01")["input"]]) as fake, calling(fake, clock=clock) as made:
        stream = (await made.service.start(USER, made.start_run())).stream
        view = await waits(made, stream)
        assert view is not None
        (wait,) = of(view, WaitBegun)
        assert 7_000_000 <= waited(view, wait) <= 7_000_000 + JITTER_US
        clock.forward((wait.until - clock.now_us()) / 1_000_000 - 0.05)
        await made.service.sweep()
        assert (await waits(made, stream)) is not None
        assert fake.count == 1, "not earlier"
        view = await ended(made, clock, stream)
    assert (answer(view), fake.count) == ("Hello", 2)
    assert 7_000_000 <= view.state.driven < 9_000_000
    (failed,) = of(view, ModelFailed)
    assert (failed.code, failed.retry_after) == ("provider_rate_limited", 7_000_000)


async def test_b01_a_wait_that_the_run_would_not_outlive() -> None:
    """It is not begun: the run fails at once, with what the provider said."""
    clock = MovedClock()
    async with (
        provider([throttled("7"), HELLO]) as fake,
        calling(fake, clock=clock, limits=Limits(deadline_ms=7_000)) as made,
    ):
        view = await asked(made, clock)
    assert (failure(view)[0], fake.count) == ("provider_rate_limited", 1)
    assert "slow down" in view.texts[of(view, RunFailed)[0].message]


@pytest.mark.parametrize(("moment", "least", "most"), [("10:00:00", 19.0, 20.0), ("10:01:00", 0.0, 0.5)])
async def test_b02_retry_after_as_a_date(moment: str, least: float, most: float) -> None:
    """Until the date by our clock; a date in the past leaves it to the normal pause."""
    clock = set_to(f"2026-05-06T{moment}")
    async with provider([of_case(step) for step in case("B02")["input"]]) as fake, calling(fake, clock=clock) as made:
        view = await asked(made, clock)
    (wait,) = of(view, WaitBegun)
    assert least * 1e6 <= waited(view, wait) <= most * 1e6 + JITTER_US
    assert (answer(view), fake.count) == ("Hello", 2)


async def test_throttling_without_retry_after() -> None:
    """Our own pauses, each longer, then the provider's word is the run's."""
    clock = MovedClock()
    async with provider([throttled()]) as fake, calling(fake, clock=clock) as made:
        view = await asked(made, clock)
    pauses = [waited(view, wait) for wait in of(view, WaitBegun)]
    assert all(own <= pause <= own * 5 // 4 + JITTER_US for own, pause in zip(BACKOFF_US, pauses, strict=True))
    assert (failure(view)[0], fake.count) == ("provider_rate_limited", MAX_FAILURES)


async def test_b04_twenty_at_once_spread_and_all_come_through() -> None:
    """Each is refused three times: pauses grow, none is like another's, every attempt is on record, and no breaker
    keeps those away who would be served."""
    clock, script = MovedClock(), case("B04")["input"]
    answers, refused = [of_case(step) for step in script["script"]], Counter[str]()

    def plan(body: dict[str, Any], _: int) -> Answer:
        asked_by = body["messages"][-1]["content"]
        refused[asked_by] += 1
        return answers[refused[asked_by] - 1]

    async with provider(plan) as fake, calling(fake, clock=clock) as made:
        starts = [made.start_run(f"run {n}") for n in range(script["parallel_runs"])]
        streams = [(await made.service.start(USER, start)).stream for start in starts]
        views = [await ended(made, clock, stream) for stream in streams]
    pauses = [[waited(view, wait) for wait in of(view, WaitBegun)] for view in views]
    medians = [median(each) for each in zip(*pauses, strict=True)]
    assert len(medians) == 3
    assert medians == sorted(set(medians))
    assert all(len(set(each)) > 15 for each in zip(*pauses, strict=True))
    assert max(max(each) for each in pauses) <= max(BACKOFF_US) * 5 // 4
    assert {answer(view) for view in views} == {"Hello"}
    attempts = [len(of(view, ModelIntended)) for view in views]
    assert attempts == [4] * 20
    assert max(attempts) <= MAX_FAILURES
    assert sum(attempts) == fake.count


async def test_b06_an_error_under_200_is_a_failure() -> None:
    """Retried as a 502 would be, its message kept in the trace, and counted by the breaker until that opens."""
    clock = MovedClock()
    async with provider([of_case(case("B06")["input"])]) as fake, calling(fake, clock=clock) as made:
        view = await asked(made, clock)
        (breaker,) = made.driver._breakers.values().values()
    assert (failure(view), fake.count) == (("provider_error", 502), MAX_FAILURES)
    assert (breaker.value, breaker.failures) == ("open", fake.count)
    for failed in of(view, ModelFailed):
        assert failed.retryable
        assert "upstream returned 502" in view.texts[failed.message]


async def test_b07_usage_of_an_empty_reply_is_booked() -> None:
    """Though no answer came, the run's tokens count it."""
    clock = MovedClock()
    async with provider([of_case(case("B07")["input"]), HELLO]) as fake, calling(fake, clock=clock) as made:
        view = await asked(made, clock)
    assert (answer(view), fake.count) == ("Hello", 2)
    assert view.state.input_tokens + view.state.output_tokens == 12 + 25


async def test_b09_a_blocked_reply_is_asked_for_nowhere_else() -> None:
    """The user is told that the provider blocked it; neither this nor another model gets the request again."""
    clock = MovedClock()
    blocked = Answer(body=case("B09")["input"])
    async with provider([blocked]) as fake, provider([HELLO]) as other, calling(fake, other, clock=clock) as made:
        view = await asked(made, clock)
    assert (failure(view)[0], fake.count, other.count) == ("content_filtered", 1, 0)
    assert "blocked" in view.texts[of(view, RunFailed)[0].message]


@pytest.mark.parametrize(("name", "tokens"), [("B10", (0, 0)), ("B14", (611, 13)), ("B15", (0, 0))])
async def test_streams_as_providers_send_them(name: str, tokens: tuple[int, int]) -> None:
    """Comments before the first token, usage after the last, line ends of Unicode: one attempt, the exact answer, and
    the tokens of the run."""
    clock, one = MovedClock(), case(name)
    async with provider([Answer(sse=one["input"])]) as fake, calling(fake, clock=clock) as made:
        view = await asked(made, clock, watched=True)
    assert (answer(view), fake.count) == (one["expected"]["accept"][0]["answer"], 1)
    assert (view.state.input_tokens, view.state.output_tokens) == tokens


async def test_b12_a_cut_stream_is_an_attempt_that_failed() -> None:
    """Nothing of it is in the answer, no tool was called by it, and the next attempt is made within the budget."""
    clock, world = MovedClock(), World()
    asks = Answer(call("look", "all of it"), cut=40)
    step = of_case(case("B12")["input"])
    async with provider([asks, step, HELLO]) as fake, calling(fake, clock=clock, tools=world.tools()) as made:
        view = await asked(made, clock, watched=True)
    assert [failed.code for failed in of(view, ModelFailed)] == ["stream_interrupted"] * 2
    assert (answer(view), fake.count, world.seen) == ("Hello", 3, [])
    assert not any("The limit is 10" in text for text in view.texts.values())
    assert all(request["stream"] for request in fake.requests)


OVERFLOWS = [of_case(one) for one in case("B17")["input"]]


@pytest.mark.parametrize("said", OVERFLOWS[:6], ids=range(1, 7))
async def test_b17_an_overflow_makes_the_prompt_shorter(said: Answer) -> None:
    """However it is worded: the same request is never sent twice, and the breaker does not count it."""
    clock, world = MovedClock(), World()
    steps = [Answer(call("look", str(n) * 1500)) for n in range(6)]
    async with provider([*steps, said, said, HELLO]) as fake, calling(fake, clock=clock, tools=world.tools()) as made:
        view = await asked(made, clock)
        (breaker,) = made.driver._breakers.values().values()
    assert (answer(view), fake.count) == ("Hello", 9)
    assert [failed.code for failed in of(view, ModelFailed)] == ["context_length_exceeded"] * 2
    sizes = [len(fake.prompt(number)) for number in (6, 7, 8)]
    assert sizes == sorted(set(sizes), reverse=True)
    assert (breaker.value, breaker.failures) == ("closed", 0)
    assert "wait_begun" not in kinds(view)
    assert of(view, RunFinished)[0].degraded == ("prompt_shortened",)


async def test_b17_a_prompt_that_cannot_be_shorter_goes_to_another_model() -> None:
    """At once, and whole; without another model the run fails and says why."""
    clock = MovedClock()
    async with provider([OVERFLOWS[0]]) as fake, provider([HELLO]) as other, calling(fake, other, clock=clock) as made:
        view = await asked(made, clock)
    assert (answer(view), fake.count, other.count) == ("Hello", 1, 1)
    assert of(view, ModelSwitched)[0].reason == "context_length_exceeded"
    assert of(view, RunFinished)[0].degraded == ("model_switched",)
    async with provider([OVERFLOWS[0]]) as fake, calling(fake, clock=clock) as made:
        view = await asked(made, clock)
    assert (failure(view)[0], fake.count) == ("context_length_exceeded", 1)


async def test_b17_it_is_made_shorter_only_so_often() -> None:
    """A model whose context never fits is left after a few tries, though more could be left out."""
    clock, world = MovedClock(), World()

    def plan(body: dict[str, Any], number: int) -> Answer:
        return Answer(call("look", str(number) * 300)) if number < 6 else OVERFLOWS[1]

    async with provider(plan) as fake, provider([HELLO]) as other, calling(
        fake, other, clock=clock, tools=world.tools()
    ) as made:  # fmt: skip
        view = await asked(made, clock)
        fine = all(breaker.failures == 0 for breaker in made.driver._breakers.values().values())
    assert (answer(view), fake.count - 6, other.count) == ("Hello", 3, 1)
    assert fine
    assert len(other.prompt(0)) > len(fake.prompt(fake.count - 1)), "the other model gets the whole prompt again"


async def test_b17_a_bad_request_is_not_repeated() -> None:
    """The control: no overflow, no retry, and no failure of the endpoint."""
    clock = MovedClock()
    async with provider([OVERFLOWS[6]]) as fake, calling(fake, clock=clock) as made:
        view = await asked(made, clock)
        (breaker,) = made.driver._breakers.values().values()
    assert (failure(view)[0], fake.count, breaker.failures) == ("provider_rejected", 1, 0)


@pytest.mark.parametrize("watched", [False, True])
async def test_b19_three_failures_of_three_kinds(watched: bool) -> None:
    """529, 503 with Retry-After, an error inside a stream: each is waited out and counted; nothing of them is shown."""
    clock = MovedClock()
    async with provider([of_case(step) for step in case("B19")["input"]]) as fake, calling(fake, clock=clock) as made:
        stream = (await made.service.start(USER, made.start_run(watched=watched))).stream
        counted: list[int] = []
        seq = -1
        while (view := await waits(made, stream, seq)) is not None:
            seq = view.state.seq
            counted += [breaker.failures for breaker in made.driver._breakers.values().values()]
            clock.forward(max(view.state.wait_until - clock.now_us(), 0) / 1_000_000)
            await made.service.sweep()
        view = await made.service.view(USER, stream)
    assert (answer(view), fake.count, counted) == ("Hello", 4, [1, 2, 3])
    assert all(failed.retryable for failed in of(view, ModelFailed))
    waits_us = [waited(view, wait) for wait in of(view, WaitBegun)]
    assert waits_us[1] >= 2_000_000
    (replied,) = of(view, ModelReplied)
    assert "Thought: a" not in view.texts[replied.reply]


async def test_attempts_say_what_they_were() -> None:
    """Each names its model and number; none says that its breaker was anything but closed."""
    clock = MovedClock()
    plans = [refusal(500), refusal(500)], [refusal(503), Answer(final("There."))]
    async with provider(plans[0]) as fake, provider(plans[1]) as other, calling(fake, other, clock=clock) as made:
        view = await asked(made, clock)
    intents = of(view, ModelIntended)
    assert [(i.attempt, i.model, i.choice, i.breaker) for i in intents] == [
        (1, "m-1", 0, "closed"), (2, "m-1", 0, "closed"), (3, "m-2", 1, "closed"), (4, "m-2", 1, "closed"),
    ]  # fmt: skip
    assert len(intents) == fake.count + other.count
    assert not of(view, BreakerSeen)
