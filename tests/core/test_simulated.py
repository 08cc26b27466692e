"""Every projection takes every legal history: what a watcher sees, and what replay derives."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from devassist.audit.record import Recorded
from devassist.audit.replay import rederive
from devassist.core.codec import parse_canonical
from devassist.core.event_codec import decode, encode
from devassist.core.events import ModelIntended, ModelReplied, RunStarted, ToolIntended
from devassist.core.frames import Watcher
from devassist.core.graph import mermaid
from devassist.core.states import STATUS
from devassist.core.steps import StepBuilder, steps
from devassist.core.transitions import apply
from devassist.core.view import summary
from devassist.tools.schema import SchemaChecker
from tests.core.simulate import Walk, simulate

TRACE = "0192f0c1a2b37c4d8e5f60718293a4b5"
CHECKER = SchemaChecker()
INVENTED = {"model_replied", "run_started", "run_finished"}
"""Kinds that the simulation makes up, so that their texts do not lead to what they say."""
walks = st.integers(0, 2**40).map(lambda seed: simulate(Random(seed), cancels=0.05))
often = settings(max_examples=100)


def watched(walk: Walk, after: int = -1) -> list[Any]:
    watcher = Watcher(text=walk.script.text, admin=True, after=after, trace_id=TRACE)
    return [frame for placed in walk.script.placed for frame in watcher.feed(*placed)]


@often
@given(walks)
def test_steps_are_complete_and_in_order(walk: Walk) -> None:
    """One step a call that was asked for, in call order, each once; what was cut off or settled still shows."""
    script = walk.script
    found = steps(script.placed, script.text)
    places = [(step["step_index"], step["call_index"]) for step in found]
    assert places == sorted(set(places))
    calls = sum(len(e.calls) for e in script.events if isinstance(e, ModelReplied))
    assert sum(step["tool_name"] is not None for step in found) == calls
    made = {(e.step, e.call) for e in script.events if isinstance(e, ToolIntended)}
    assert made <= set(places)


@often
@given(walks)
def test_a_step_comes_as_soon_as_its_call_and_those_before_it_are_over(walk: Walk) -> None:
    """After every event the steps of a decision that were given are those of its first calls, as many as are done."""
    builder, state, given_so_far = StepBuilder(walk.script.text), None, list[int]()
    for event, seq, at in walk.script.placed:
        state = apply(state, event, seq, at)
        given_so_far = [] if isinstance(event, ModelIntended) else given_so_far
        given_so_far += [turn.call for turn in builder.turns(event, at, state) if turn.args is not None]
        over = [call.phase == "done" or state.closed for call in state.calls]
        assert given_so_far == list(range(next((i for i, ended in enumerate(over) if not ended), len(over))))


@often
@given(walks)
def test_summary_and_graph_take_any_run(walk: Walk) -> None:
    """The answer object says how the run ended, waits for nothing, and the graph is drawn."""
    script = walk.script
    told = summary(script.placed, script.text, trace_id=TRACE)
    assert told["status"] == STATUS[walk.state.state]
    assert told["pending"] == []
    assert (told["error"] is None) == (told["status"] != "failed")
    assert mermaid(script.events, script.text).startswith(("flowchart", "graph", "%%", "---"))


@often
@given(walks, st.floats(0, 1))
def test_a_stream_ends_once_and_goes_on_where_it_was_left(walk: Walk, share: float) -> None:
    """Exactly one end, ids that rise, and a reader who comes back after any id sees all that follows it."""
    whole = watched(walk)
    assert [f.data["type"] for f in whole if f.data["type"] in ("done", "error")] == [whole[-1].data["type"]]
    ids = [f.id for f in whole if f.id is not None]
    assert ids == sorted(set(ids))
    last = ids[round(share * (len(ids) - 1))]
    if last != ids[-1]:
        again = [f.id for f in watched(walk, last) if f.id is not None]
        assert again == sorted(set(again))
        assert set(again) >= {i for i in ids if i > last}
        assert again[0] > last
        assert again[-1] == ids[-1]


@often
@given(walks)
def test_replay_derives_every_decision(walk: Walk) -> None:
    """What ``decide`` says over the record is what was recorded, signals and crashes and all."""
    script = walk.script
    started = script.events[0]
    assert isinstance(started, RunStarted)
    report = rederive(Recorded(bytes(16), started, script.placed, script.texts), CHECKER)
    derived = [d for d in report.differences if d.field not in ("tokens", "left", "left_history")]
    assert [d for d in derived if script.events[d.seq].kind not in INVENTED] == []


@often
@given(walks)
def test_bodies_round_trip(walk: Walk) -> None:
    """Every event of every history survives its bytes."""
    for event in walk.script.events:
        assert decode(parse_canonical(encode(event))) == event
