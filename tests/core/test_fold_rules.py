"""Rules of the fold that a crash, a late owner or a deadline depends on."""

from __future__ import annotations

from devassist.core.codec import parse_canonical
from devassist.core.commands import CallModel, CallTools, CloseCall
from devassist.core.decide import decide
from devassist.core.event_codec import decode, encode
from devassist.core.event_parts import Limits
from devassist.core.events import ModelFailed
from devassist.core.signals import ApprovalGiven, CancelRequested, LateOutcome, TimerFired
from tests.core.build import Script
from tests.core.runs import SCRIPTS, doubtful

HOUR = 3_600_000


def test_the_time_a_run_lay_dead_is_not_driven() -> None:
    """An attempt that a crash cut off, and a signal that came meanwhile, add nothing to the run's deadline."""
    script = Script()
    script.think()
    script.add(TimerFired("t", 0), ms=HOUR)
    script.add(ModelFailed(script.now.open_model, "interrupted", 503, True, 0), ms=HOUR)
    assert script.now.driven == 0
    assert decide(script.now) == CallModel(0, 2)
    script.think(epoch=2)
    script.calls(("search_docs", {}, "pure"))
    script.attempt(epoch=2)
    before = script.now.driven
    script.returned(0, outcome="unknown", code="interrupted", ms=HOUR)
    assert script.now.driven == before == 20_000


def test_driven_time_counts_between_the_owners_events() -> None:
    """A signal in between neither stops the clock nor is counted twice."""
    script = Script()
    script.think()
    script.add(CancelRequested("c", "00" * 16))
    script.model_failed()
    assert script.now.driven == 20_000


def test_calls_get_a_result_before_a_deadline_fails_the_run() -> None:
    """Calls that may run together are closed one by one like all others."""
    script = Script(parallel=True, limits=Limits(deadline_ms=1))
    script.think()
    script.calls(("a", {}, "pure"), ("b", {}, "pure"))
    assert decide(script.now) == CloseCall(0, "not_run", "deadline_exceeded")


def test_calls_run_together_only_where_all_are_pure() -> None:
    """One call with an effect puts all in call order."""
    script = Script(parallel=True)
    script.think()
    script.calls(("a", {}, "pure"), ("b", {}, "pure"), ("c", {}, "once"))
    assert decide(script.now) == CallTools((0,))


def test_a_late_owner_that_knows_nothing_changes_nothing() -> None:
    """``unknown`` from a superseded owner leaves the question to the person as it is."""
    script = doubtful()
    before = script.now.calls
    script.add(LateOutcome("l", before[0].intent, "unknown"))
    assert script.now.calls == before
    assert script.now.doubts == (("send_mail", before[0].intent),)


def test_a_late_result_lets_the_run_go_on() -> None:
    """A held doubt that a late outcome settles needs no person: the model is asked next, and that is legal."""
    script = doubtful()
    script.add(LateOutcome("l", script.now.calls[0].intent, "result", script.json(1), script.put("1")))
    assert decide(script.now) == CallModel(1, 2)
    script.think(epoch=2)


def test_approved_arguments_stay() -> None:
    """A further attempt of an approved call uses the arguments that were approved."""
    script = Script()
    script.think()
    script.calls(("refund", {"amount": 100}, "idempotent"))
    script.attempt()
    script.returned(0, outcome="needs_approval", result=None, shown=None)
    script.held(0, "approval", "d1")
    script.add(ApprovalGiven("a1", "00" * 16, "d1", "approve", args=script.json({"amount": 50})))
    script.attempt(0, args={"amount": 50})
    script.unknown()
    assert script.text(script.now.calls[0].call.args) == '{"amount": 50}'


def test_every_event_survives_its_bytes() -> None:
    """Encoding and decoding gives the event back, for every kind that the written runs hold."""
    for make in SCRIPTS.values():
        for event in make().events:
            assert decode(parse_canonical(encode(event))) == event
