"""Where a run waits for a person: calls in doubt, and calls that need approval."""

from __future__ import annotations

from devassist.core.commands import CallModel, CallTools, CloseCall, Fail, Hold, Wait
from devassist.core.decide import decide
from devassist.core.event_parts import Limits
from devassist.core.events import WaitBegun
from devassist.core.holds import doubt_digest, hold_digest
from devassist.core.signals import ApprovalGiven, LateOutcome, SettlementGiven, TimerFired
from tests.core.build import Script
from tests.core.simulate import ACTOR
from tests.core.steps_to import LOOK, MAIL, PUT, asked, doubted, waiting_for_approval


def test_a_doubt_is_held_for_a_person() -> None:
    """By default a once-call without a known outcome waits, and asks once."""
    script = doubted()
    command = decide(script.now)
    assert isinstance(command, Hold)
    assert (command.call, command.reason) == (0, "settlement")
    script.held(0, "settlement", command.digest)
    assert decide(script.now) is None


def test_it_happened() -> None:
    """The call is closed as happened, the doubt is gone, and the model goes on."""
    script = doubted("happened")
    assert decide(script.now) == CloseCall(0, "happened", "settled")
    script.close(0, "happened", "settled", result={"ok": True})
    assert script.now.doubts == ()
    assert decide(script.now) == CallModel(1, 2)


def test_it_is_given_up() -> None:
    """The run fails, the call stays unknown, and calls that were still to be made are not."""
    script = asked(MAIL, ("pay", {}, "once"))
    script.attempt()
    script.unknown()
    script.held(0, "settlement", "d")
    script.add(SettlementGiven("s", ACTOR, "d", "abandon"))
    script.close(0, "abandoned", "outcome_unknown")
    assert decide(script.now) == CloseCall(1, "not_run", "not_run")
    script.close(1, "not_run", "not_run")
    assert decide(script.now) == Fail("outcome_unknown", 502)


def test_it_is_repeated_once_its_deadline_has_passed() -> None:
    """A process that was thought dead may still be at it until then; the same call then gets a further attempt."""
    script = doubted("repeat")
    deadline = script.now.calls[0].deadline
    assert decide(script.now) == Wait(deadline)
    script.add(WaitBegun("backoff", deadline))
    assert decide(script.now) is None
    script.add(TimerFired("t", deadline))
    assert decide(script.now) == CallTools((0,))
    script.attempt(epoch=2)
    assert script.now.calls[0].attempts == 2
    assert script.now.doubts == ()


def test_an_attempt_that_ended_is_repeated_at_once() -> None:
    """Where the tool itself said that it does not know, nothing is under way any more."""
    script = asked(MAIL)
    script.attempt()
    script.returned(outcome="unknown", result=None, code="outcome_unknown")
    script.held(0, "settlement", "d")
    script.add(SettlementGiven("s", ACTOR, "d", "repeat"))
    assert decide(script.now) == CallTools((0,))


def test_a_told_doubt_goes_to_the_model_and_the_tool_needs_approval_from_then_on() -> None:
    """``tell``: the run goes on, and a further call of that tool is asked for first; others are not."""
    script = doubted(on_unknown="tell")
    assert decide(script.now) == CloseCall(0, "abandoned", "outcome_unknown")
    script.close(0, "abandoned", "outcome_unknown")
    assert decide(script.now) == CallModel(1, 2)
    script.think()
    script.calls(LOOK, MAIL)
    assert decide(script.now) == CallTools((0,))
    script.attempt(0)
    script.returned(0, 1)
    command = decide(script.now)
    assert command == Hold(1, "approval", hold_digest(script.now, 1))
    script.held(1, "approval", command.digest)
    script.add(ApprovalGiven("a", ACTOR, command.digest, "approve"))
    assert decide(script.now) == CallTools((1,))


def test_a_rejected_call_is_not_made_because_the_doubt_was_settled_too() -> None:
    """Both words arrive before the run moves: the doubt no longer asks for a person, but the person's no counts."""
    script = doubted(on_unknown="tell")
    intent = script.now.calls[0].intent
    script.close(0, "abandoned", "outcome_unknown")
    script.think()
    script.calls(MAIL)
    command = decide(script.now)
    assert isinstance(command, Hold)
    script.held(0, "approval", command.digest)
    script.add(ApprovalGiven("a", ACTOR, command.digest, "reject"))
    script.add(SettlementGiven("s", ACTOR, doubt_digest(script.now.started, intent), "happened"))
    assert decide(script.now) == CloseCall(0, "rejected", "approval_rejected")


def test_a_late_outcome_settles_a_told_doubt() -> None:
    """Once it is known what became of the call, the tool is called freely again."""
    script = doubted(on_unknown="tell")
    intent = script.now.calls[0].intent
    script.close(0, "abandoned", "outcome_unknown")
    script.add(LateOutcome("l", intent, "result", script.json(1), script.put("1")))
    script.think()
    script.calls(MAIL)
    assert decide(script.now) == CallTools((0,))


# -- approval --------------------------------------------------------------------------------------------------------


def test_an_approval_binds_by_its_digest() -> None:
    """Another digest changes nothing; the right one starts the call, and only the first answer counts."""
    script, digest = waiting_for_approval()
    script.add(ApprovalGiven("a", ACTOR, "0" * 64, "approve"))
    assert decide(script.now) is None
    script.add(ApprovalGiven("b", ACTOR, digest, "reject"))
    script.add(ApprovalGiven("c", ACTOR, digest, "approve"))
    assert decide(script.now) == CloseCall(0, "rejected", "approval_rejected")


def test_an_approval_is_consumed() -> None:
    """What needs approval a second time has another digest; the first answer does not reach it."""
    script, digest = waiting_for_approval()
    script.add(ApprovalGiven("a", ACTOR, digest, "approve"))
    script.attempt()
    script.returned(outcome="needs_approval", result=None)
    command = decide(script.now)
    assert isinstance(command, Hold)
    assert command.digest != digest
    script.held(0, "approval", command.digest)
    script.add(ApprovalGiven("b", ACTOR, digest, "approve"))
    assert decide(script.now) is None


def test_a_digest_binds_arguments_and_definition() -> None:
    """Other arguments, another attempt or another definition give another digest."""
    script, digest = waiting_for_approval()
    state, c = script.now, script.now.calls[0]
    others = [
        state._replace(calls=(c._replace(call=c.call._replace(args="other")),)),
        state._replace(calls=(c._replace(call=c.call._replace(tool="other")),)),
        state._replace(calls=(c._replace(attempts=2),)),
        Script(definition="other").now._replace(calls=state.calls, reply_seq=state.reply_seq),
    ]
    assert len({hold_digest(other, 0) for other in others} | {digest}) == 5


def test_a_call_stays_approved_when_it_is_cut_off() -> None:
    """The further attempt of an approved repeatable call is the same call."""
    script = asked(PUT)
    script.attempt()
    script.returned(outcome="needs_approval", result=None)
    script.held(0, "approval", "d")
    script.add(ApprovalGiven("a", ACTOR, "d", "approve"))
    script.attempt()
    script.unknown()
    assert decide(script.now) == CallTools((0,))
    script.attempt()
    assert script.now.calls[0].approved


def test_the_deadline_counts_driven_time_only() -> None:
    """Hours of waiting for a person cost nothing; the next driven second does."""
    script, digest = waiting_for_approval(limits=Limits(deadline_ms=100))
    script.add(ApprovalGiven("a", ACTOR, digest, "approve"), ms=3_600_000)
    assert decide(script.now) == CallTools((0,))
    script.attempt(epoch=2)
    script.returned(0, 1, ms=200)
    assert decide(script.now) == Fail("deadline_exceeded", 504)
