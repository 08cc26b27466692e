"""What a run asks of people, read off its events."""

from __future__ import annotations

from typing import Any

import pytest

from devassist.core.errors import ApprovalNotFound, DoubtNotFound, InvalidRequest, JournalCorrupt, NotWaiting
from devassist.core.holds import doubt_digest, hold_digest
from devassist.core.questions import Questions, questions
from devassist.core.signals import ApprovalGiven, CancelRequested, LateOutcome, RunRestored, SettlementGiven
from tests.core.build import Script
from tests.core.simulate import ACTOR
from tests.core.steps_to import LOOK, MAIL, asked, doubted, waiting_for_approval


def of(script: Script) -> Questions:
    return questions(script.placed)


def told(*wanted: Any) -> Script:
    """A run that went on from calls in doubt."""
    script = asked(*wanted, on_unknown="tell")
    for index in range(len(wanted)):
        script.attempt(index)
        script.unknown(index)
        script.close(index, "abandoned", "outcome_unknown")
    return script


def test_a_run_that_asks_nothing_has_no_questions() -> None:
    """Calls that come back as they should are nobody's business; without INIT there is no run."""
    script = asked(LOOK)
    script.attempt()
    script.returned(0, 1)
    assert of(script).all == ()
    with pytest.raises(JournalCorrupt):
        questions([])


def test_an_approval_is_open_until_it_is_answered() -> None:
    """It says which call of which step, and keeps the answer that the run took."""
    script, digest = waiting_for_approval()
    (q,) = of(script).waiting
    assert (q.kind, q.digest, q.step, q.call, q.tool, q.open) == ("approval", digest, 0, 0, "send_mail", True)
    assert script.text(q.args) == '{"to": "a"}'
    said = ApprovalGiven("a", ACTOR, digest, "approve")
    script.add(said)
    script.add(ApprovalGiven("b", ACTOR, digest, "reject"))
    (q,) = of(script).all
    assert (q.open, q.answer) == (False, said)
    assert q.answered == script.placed[-2][2]
    assert of(script).approval(digest) == q


def test_an_answer_that_comes_too_late_is_none() -> None:
    """The run ended before it was there: nobody's word is made up."""
    script, digest = waiting_for_approval()
    script.add(CancelRequested("c", ACTOR))
    script.close(0, "cancelled", "cancelled")
    script.add(ApprovalGiven("a", ACTOR, digest, "approve"))
    (q,) = of(script).all
    assert (q.open, q.answer) == (False, None)


def test_answers_before_a_rewind_are_void() -> None:
    """The same digest waits again, and another signal may answer it."""
    script, digest = waiting_for_approval()
    script.add(ApprovalGiven("a", ACTOR, digest, "approve"))
    before = of(script)
    script.add(RunRestored("r", 1, 2))
    after = of(script)
    assert (before.all[0].open, after.all[0].open, after.all[0].answer) == (False, True, None)
    assert before.signal_id("approval", digest) != after.signal_id("approval", digest)


def test_a_doubt_that_is_held_is_one_question() -> None:
    """Its digest is that of the hold, and nothing is told."""
    script = doubted()
    script.held(0, "settlement", hold_digest(script.now, 0))
    (q,) = of(script).all
    assert (q.kind, q.digest, q.open, q.told) == ("settlement", hold_digest(script.now, 0), True, False)
    assert of(script).doubt(0) == q
    with pytest.raises(NotWaiting):
        of(script).approval(q.digest)


def test_a_told_doubt_is_open_until_somebody_settles_it() -> None:
    """Nothing waits for it; giving it up settles it too, repeating it is no answer."""
    script = told(MAIL)
    intent = script.now.doubts[0][1]
    digest = doubt_digest(script.now.started, intent)
    script.think()
    (q,) = of(script).doubts
    assert (q.digest, q.step, q.call, q.intent, of(script).waiting) == (digest, 0, 0, intent, ())
    script.add(SettlementGiven("r", ACTOR, digest, "repeat"))
    assert of(script).doubts == (q,)
    said = SettlementGiven("s", ACTOR, digest, "abandon")
    script.add(said)
    assert [(q.open, q.answer) for q in of(script).all] == [(False, said)]


def test_an_outcome_that_comes_in_late_answers_for_itself() -> None:
    """The doubt is gone, and nobody said so."""
    script = told(MAIL)
    script.add(LateOutcome("l", script.now.doubts[0][1], "result", script.json(1), script.put("1")))
    (q,) = of(script).all
    assert (q.open, q.answer) == (False, None)


def test_what_was_asked_when_the_run_was_cancelled_is_a_doubt_afterwards() -> None:
    """Nothing waits any more, but whether the call took effect is as unknown as before."""
    script = doubted()
    script.held(0, "settlement", hold_digest(script.now, 0))
    script.add(CancelRequested("c", ACTOR))
    script.close(0, "abandoned", "cancelled")
    (q,) = of(script).doubts
    assert (q.told, q.digest) == (True, doubt_digest(script.now.started, q.intent))
    first = SettlementGiven("", ACTOR, "", "happened")
    later = of(script).settled([(q.intent, first, 7), (q.intent, SettlementGiven("", ACTOR, "", "abandon"), 8)])
    assert [(q.open, q.answer, q.answered) for q in later.all] == [(False, first, 7)]


def test_which_call_of_a_step_is_meant() -> None:
    """One is found by its step, several need their number, and what never was in doubt is not found."""
    found = of(told(MAIL, MAIL))
    assert found.doubt(0, 1).call == 1
    assert found.doubt(0, digest=found.all[0].digest).call == 0
    with pytest.raises(InvalidRequest, match=r"0 \(send_mail\), 1 \(send_mail\)") as several:
        found.doubt(0)
    assert [path for path, _ in several.value.errors] == ["/call_index"]
    for step, call in ((1, None), (0, 2)):
        with pytest.raises(DoubtNotFound, match="step 0 call 0, step 0 call 1"):
            found.doubt(step, call)
    with pytest.raises(ApprovalNotFound):
        found.approval("0" * 64)


def test_the_open_one_of_several_is_meant() -> None:
    """A call that was settled is not asked about again."""
    script = told(MAIL, MAIL)
    script.add(SettlementGiven("s", ACTOR, of(script).all[0].digest, "happened"))
    assert of(script).doubt(0).call == 1
