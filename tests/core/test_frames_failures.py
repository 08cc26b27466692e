"""What a watcher sees of a provider that fails: text taken back, waits that say why, a switch that says to what."""

from __future__ import annotations

from typing import Any

import pytest

from devassist.core.degraded import degradations
from devassist.core.events import RETRY_2, BreakerSeen, ModelFailed, ModelReplied, ModelSwitched, WaitBegun
from devassist.core.frames import Watcher
from devassist.core.signals import TimerFired
from devassist.core.transitions import OVERFLOW
from devassist.core.view import RunView, summary
from tests.core.build import TRACE, Script
from tests.core.client import Client


class Page:
    """A script, told to a page as it goes."""

    def __init__(self, **changes: Any) -> None:
        self.script = Script("go", **({"flags": (RETRY_2,)} | changes))
        self.watcher = Watcher(trace_id=TRACE, text=self.script.text)
        self.client, self.told = Client(), 0
        self.tell()

    def tell(self) -> list[dict[str, Any]]:
        """The messages of what was added since."""
        before = len(self.client.messages)
        for placed in self.script.placed[self.told :]:
            frames = self.watcher.feed(*placed)
            assert all(frame.id is None for frame in frames if frame.data["type"] == "reset")
            self.client.take(frames)
        self.told = len(self.script.placed)
        return self.client.messages[before:]

    def hear(self, attempt: int, offset: int, text: str) -> None:
        self.client.take(self.watcher.delta(attempt, offset, text))


def test_b12_a_failed_attempt_is_taken_back_before_the_next_one_streams() -> None:
    """At once, not when the next text comes; what arrives late of it is not shown, and nothing is joined."""
    page = Page()
    page.script.think()
    page.tell()
    page.client.take(page.watcher.partial(1, ""))
    page.hear(1, 0, "The limit is 10")
    assert page.client.text == "The limit is 10"
    page.script.model_failed("stream_interrupted")
    assert page.tell() == [{"type": "reset", "attempt": 1}]
    page.hear(1, 0, "The limit is 10 0")
    page.hear(1, 15, " 0")
    assert page.client.text == ""
    page.script.think()
    page.tell()
    page.hear(2, 0, "The limit")
    page.script.final("The limit is 100 000.")
    page.script.finish()
    page.tell()
    assert page.client.text == "The limit is 100 000."
    assert page.client.types.count("reset") == 1


def test_who_comes_while_a_run_waits_sees_nothing_of_the_failed_attempt() -> None:
    """A page that is opened between two attempts begins empty, whatever the process still holds."""
    page = Page()
    page.script.think()
    page.script.model_failed("stream_interrupted")
    page.tell()
    page.client.take(page.watcher.partial(1, "The limit is 10"))
    assert (page.client.text, page.client.types.count("partial")) == ("", 1)


def test_a_failure_without_text_takes_nothing_back() -> None:
    """There is nothing to drop, so there is no message."""
    page = Page()
    page.script.think()
    page.script.model_failed("provider_unreachable")
    assert page.tell() == []


@pytest.mark.parametrize(
    ("code", "en"),
    [
        ("provider_rate_limited", "The model provider is throttling; the run tries again by itself."),
        ("provider_error", "The model provider failed (provider_error); the run tries again by itself."),
    ],
)
def test_a_wait_says_why_while_it_lasts(code: str, en: str) -> None:
    """The status has the reason and a timer; when the run goes on both are gone, and the answer says nothing of it."""
    page = Page()
    page.script.think()
    page.script.add(ModelFailed(page.script.now.open_model, code, 502, True, 1))
    until = page.script.now.at + 7_000_000
    page.script.add(WaitBegun("backoff", until), ms=0)
    (status,) = page.tell()
    assert status["status"] == "waiting"
    assert status["degraded"] == [{"code": code, "detail": en}]
    (timer,) = status["pending"]
    assert (timer["kind"], timer["wake_at_ms"] - timer["since_ms"]) == ("timer", 7_000)
    assert timer["tool_name"] is None
    page.script.add(TimerFired("t", until), ms=7_000)
    page.script.think()
    (status,) = page.tell()
    assert (status["status"], status["pending"], status["degraded"]) == ("running", [], [])
    page.script.final("Done.")
    page.script.finish()
    assert page.tell()[-1]["degraded"] == []


def test_a_breaker_is_a_reason_of_its_own() -> None:
    """In both languages people are told that the provider is left alone for now."""
    page = Page()
    page.script.add(BreakerSeen(0, page.script.now.at + 9_000_000))
    page.script.add(WaitBegun("breaker", page.script.now.at + 9_000_000))
    (status,) = [message for message in page.tell() if message["status"] == "waiting"]
    assert [each["code"] for each in status["degraded"]] == ["provider_circuit_open"]
    view = RunView(page.script.text, trace_id=TRACE, driven=True)
    for placed in page.script.placed:
        view.feed(*placed)
    assert "自动重试" in view._said("provider_circuit_open", "zh")


def test_a_switch_names_the_model() -> None:
    """At once in the status, and in the answer; in both languages."""
    page = Page(fallbacks=1)
    page.script.think()
    page.script.model_failed()
    page.script.add(ModelSwitched("qwen-2", "openai", "provider_error", 1))
    (status,) = page.tell()
    assert "qwen-2" in status["degraded"][0]["detail"]
    page.script.think()
    page.script.final("Done.")
    page.script.finish(degraded=("model_switched", "prompt_shortened"))
    done = page.tell()[-1]
    assert [each["code"] for each in done["degraded"]] == ["model_switched", "prompt_shortened"]
    assert done["degraded"] == summary(page.script.placed, page.script.text, trace_id=TRACE)["degraded"]
    view = RunView(page.script.text, trace_id=TRACE, driven=True)
    for placed in page.script.placed:
        view.feed(*placed)
    assert "备用模型 qwen-2" in view._said("model_switched", "zh")


def test_what_was_left_out_for_a_small_context_is_told() -> None:
    """Once an overflow made the prompts shorter the answer says so, unless another model had all of it."""
    script = Script("go", flags=(RETRY_2,), fallbacks=1)
    script.think()
    script.add(ModelFailed(script.now.open_model, OVERFLOW, 502, False, 1))
    script.think()
    reply = ModelReplied(script.now.open_model, "r", "final", 1, answer="a")
    assert degradations(script.now.started, script.events, reply, ()) == ("prompt_shortened",)
    script.add(ModelFailed(script.now.open_model, OVERFLOW, 502, False, 1))
    script.add(ModelSwitched("m-2", "openai", OVERFLOW, 1))
    script.think()
    told = degradations(script.now.started, script.events, reply, ("not_consulted",))
    assert told == ("model_switched", "not_consulted")
    old = Script("go")
    assert degradations(old.now.started, script.events, reply, ("not_consulted",)) == ("not_consulted",)
