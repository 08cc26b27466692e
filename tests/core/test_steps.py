"""TraceSteps: one dict a step, complete, in call order, within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devassist.core.events import RunAborted, RunFailed
from devassist.core.signals import ApprovalGiven, SettlementGiven
from devassist.core.steps import StepBuilder, admin_only, steps
from devassist.core.transitions import apply
from devassist.core.wire import MAX_BYTES, MAX_TEXT, size
from tests.core.build import T0, Script
from tests.core.runs import (
    SCRIPTS,
    approved,
    cancelled,
    doubtful,
    faulty,
    gated,
    late,
    parallel,
    plain,
    settled,
    tool_round,
    two_tools,
)

KEYS = [
    "step_index", "call_index", "thought", "action_raw", "tool_name", "tool_args", "observation", "observation_text",
    "error", "started_at_ms", "finished_at_ms", "latency_ms", "in_doubt", "truncated",
]  # fmt: skip


def of(script: Script, *, admin: bool = False) -> list[dict[str, Any]]:
    return steps(script.placed, script.text, admin=admin)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_step_has_every_key(name: str) -> None:
    """Whatever happened, a step has the contract's keys, in its order, and times are whole milliseconds."""
    for step in of(SCRIPTS[name]()):
        assert list(step) == KEYS
        assert all(type(step[key]) is int for key in ("started_at_ms", "finished_at_ms", "latency_ms"))


def test_a_call_and_the_final_turn_are_steps() -> None:
    """Two calls and the answer give three steps with their texts, values and times."""
    first, second, final = of(two_tools())
    assert (first["step_index"], second["step_index"], final["step_index"]) == (0, 1, 2)
    assert first["tool_name"] == "search_docs"
    assert first["tool_args"] == {"query": "sort"}
    assert first["observation"] == {"hits": []}
    assert first["observation_text"] == '{"hits": []}'
    assert first["thought"] == "Let me look."
    assert (first["started_at_ms"], first["finished_at_ms"], first["latency_ms"]) == (
        T0 // 1000 + 30,
        T0 // 1000 + 40,
        10,
    )
    assert second["observation"]["stdout"] == "1\n"
    assert (final["tool_name"], final["tool_args"], final["observation"], final["error"]) == (None, None, None, None)
    assert final["action_raw"] == "Action: final: It prints 1."
    assert (final["started_at_ms"], final["finished_at_ms"], final["latency_ms"]) == (
        T0 // 1000 + 90,
        T0 // 1000 + 110,
        7,
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_parallel_calls_come_in_call_order(order: tuple[int, ...]) -> None:
    """Outcomes may come in any order: steps come in call order, each as soon as those before it are done."""
    script = parallel(order)
    builder, state = StepBuilder(script.text), None
    done: set[int] = set()
    seen: list[int] = []
    for event, seq, at in script.placed:
        state = apply(state, event, seq, at)
        given = [s["call_index"] for s in builder.feed(event, seq, at, state) if s["step_index"] == 0]
        done |= {i for i, c in enumerate(state.calls) if c.phase == "done"}
        seen += given
        if state.calls:
            assert seen == [i for i in range(3) if set(range(i + 1)) <= done]
    first = of(script)[0]
    assert json.loads(first["action_raw"])[0][1] == "search_docs"


def test_a_fault_is_a_step_with_the_correction_as_error() -> None:
    """The model is told what was wrong; the step says so, names the tool, and shows the raw reply."""
    fault, final = of(faulty())
    assert fault["error"] == {
        "code": "tool_arguments_invalid", "message": "query: is required", "retryable": True, "status": 400,
    }  # fmt: skip
    assert (fault["tool_name"], fault["tool_args"], fault["latency_ms"]) == ("search_docs", None, 7)
    assert fault["action_raw"] == "Action: search_docs\nArgs: {}"
    assert final["step_index"] == 1


@pytest.mark.parametrize(
    ("code", "status", "retryable"),
    [
        ("tool_not_found", 404, True),
        ("tool_arguments_invalid", 400, True),
        ("reply_truncated", 400, True),
        ("content_filtered", 502, False),
    ],
)
def test_the_status_of_a_fault(code: str, status: int, retryable: bool) -> None:
    """An unknown tool is 404, a provider's filter 502 and final, all else 400."""
    script = Script()
    script.think()
    script.fault(code, "what is right")
    (step,) = of(script)
    assert (step["error"]["status"], step["error"]["retryable"]) == (status, retryable)


@pytest.mark.parametrize(
    ("outcome", "code", "status", "expected"),
    [
        ("retry", None, 0, ("tool_retry", True, 400)),
        ("failed", "sandbox_code_blocked", 400, ("sandbox_code_blocked", False, 400)),
        ("failed", "sandbox_unavailable", 503, ("sandbox_unavailable", True, 503)),
    ],
)
def test_the_error_of_a_tool(outcome: str, code: str | None, status: int, expected: tuple[str, bool, int]) -> None:
    """A tool's failure keeps its code and status, and its message is what the model was shown."""
    script = Script()
    script.think()
    script.calls(("execute_code", {"code": "x"}, "pure"))
    script.attempt()
    script.returned(0, "no", outcome=outcome, code=code, status=status)
    (step,) = of(script)
    error = step["error"]
    assert (error["code"], error["retryable"], error["status"]) == expected
    assert error["message"] == step["observation_text"] == '"no"'


def test_cancelled_calls_say_whether_they_may_have_happened() -> None:
    """Of two open calls the one under way stays in doubt; the other was never made."""
    first, second = of(cancelled())
    assert first["in_doubt"]
    assert first["error"]["code"] == "cancelled"
    assert not second["in_doubt"]
    assert (second["error"]["code"], second["latency_ms"]) == ("cancelled", 0)


def test_a_doubt_is_no_step_until_it_is_settled() -> None:
    """While a person is asked there is no step; settled or delivered late it is complete and not in doubt."""
    assert of(doubtful()) == []
    for script, text in ((settled(), '{"sent": true}'), (late(), "sent")):
        step = of(script)[0]
        assert not step["in_doubt"]
        assert step["error"] is None
        assert step["observation"] == {"sent": True}
        assert step["observation_text"] == text


def test_an_abandoned_doubt_stays_in_doubt() -> None:
    """A call that the model or a person was told to be unknown says so in its step."""
    script = doubtful()
    script.close(0, "abandoned", "outcome_unknown")
    (step,) = of(script)
    assert step["in_doubt"]
    assert (step["error"]["code"], step["error"]["status"]) == ("outcome_unknown", 502)


def test_an_interrupted_repeatable_call_is_not_in_doubt() -> None:
    """The doubt is about effects: a pure call that was cut off and repeated is one step, timed from its first try."""
    script = Script()
    script.think()
    script.calls(("search_docs", {"query": "x"}, "pure"))
    script.attempt()
    script.unknown()
    script.attempt()
    script.returned(0, {"hits": []})
    (step,) = of(script)
    assert not step["in_doubt"]
    assert step["latency_ms"] == 30


def test_what_a_person_took_to_answer_is_no_latency() -> None:
    """A call that waited an hour for its approval, or for being settled, took what its attempts took."""
    script = Script()
    script.think()
    script.calls(("refund", {"amount": 100}, "once"), ("mail", {"to": "a"}, "once"))
    script.attempt(0)
    script.returned(0, outcome="needs_approval", result=None, shown=None)
    script.held(0, "approval", "d1")
    script.add(ApprovalGiven("a1", "00" * 16, "d1", "approve"), ms=3_600_000)
    script.attempt(0)
    script.returned(0, {"ok": True}, ms=70)
    script.attempt(1)
    script.unknown(1)
    script.held(1, "settlement", "d2")
    script.add(SettlementGiven("s1", "00" * 16, "d2", "repeat"), ms=3_600_000)
    script.attempt(1)
    script.unknown(1)
    script.held(1, "settlement", "d3")
    script.add(SettlementGiven("s2", "00" * 16, "d3", "happened"), ms=3_600_000)
    script.close(1, "happened", "settled")
    # Each attempt takes 10 ms, so does what comes between an outcome and the hold.
    assert [step["latency_ms"] for step in of(script)] == [10 + 10 + 70, 10 + 10 + 10 + 10]
    assert [step["finished_at_ms"] - step["started_at_ms"] > 3_600_000 for step in of(script)] == [True, True]


def test_a_call_that_was_held_before_it_was_ever_made_took_nothing() -> None:
    """A person who rejects a call after an hour ends one that never began."""
    script = Script()
    script.think()
    script.calls(("mail", {"to": "a"}, "once"))
    script.held(0, "approval", "d1")
    script.add(ApprovalGiven("a1", "00" * 16, "d1", "reject"), ms=3_600_000)
    script.close(0, "rejected", "approval_rejected")
    assert [step["latency_ms"] for step in of(script)] == [0]


def test_approval_may_change_the_arguments() -> None:
    """The step shows what was done: the arguments that the approver gave."""
    assert of(approved())[0]["tool_args"] == {"amount": 50}


@pytest.mark.parametrize("ends", ["failed", "aborted"])
def test_calls_left_at_the_end_are_steps(ends: str) -> None:
    """A run that ends with calls not made shows them, with the reason."""
    script = Script()
    script.think()
    script.calls(("a", {}, "pure"), ("b", {}, "pure"))
    script.attempt(0)
    script.returned(0, {})
    reason = script.put("Too long.")
    script.add(RunFailed("deadline_exceeded", 504, reason) if ends == "failed" else RunAborted("cancelled"))
    done, left = of(script)
    assert done["error"] is None
    assert left["error"]["code"] == ("deadline_exceeded" if ends == "failed" else "not_run")


def test_a_gated_run_shows_only_what_was_released() -> None:
    """A refused reply, text after the action and the raw final reply are for administrators; all else is shown."""
    script = gated()
    refused, call, final = of(script)
    assert "SECRET" not in json.dumps([refused, call, final])
    assert refused["action_raw"] is None
    assert final["action_raw"] == "三十天内（依据：《报销办法》）"
    assert [("SECRET" in s["action_raw"]) for s in of(script, admin=True)] == [True, True, True]
    hidden = {script.texts[ref] for ref in admin_only(script.events)}
    assert len(hidden) == 4
    assert all("SECRET" in text or text == "三十天" for text in hidden)
    assert admin_only(plain().events) == frozenset()


def test_erased_texts_are_null() -> None:
    """Without the key there are no texts, and everything else still stands."""
    script = two_tools()
    script.erased = set(script.texts)
    for step in of(script):
        assert list(step) == KEYS
        assert [step[k] for k in ("thought", "action_raw", "tool_args", "observation", "observation_text")] == [
            None
        ] * 5
    assert of(script)[0]["tool_name"] == "search_docs"


def test_long_strings_are_cut_and_named() -> None:
    """A string over 16,000 characters is cut wherever it stands, and ``truncated`` names place, payload and length."""
    script = Script()
    tool_round(script, "t", {"a/b": ["x" * 20_000, "short"]}, {"out": {"stdout": "y" * (MAX_TEXT + 1)}})
    (step,) = of(script)
    assert len(step["tool_args"]["a/b"][0]) == MAX_TEXT
    assert step["tool_args"]["a/b"][1] == "short"
    named = {(t["path"], t["characters"]) for t in step["truncated"]}
    assert named >= {("/tool_args/a~1b/0", 20_000), ("/observation/out/stdout", MAX_TEXT + 1)}
    whole = {t["path"]: script.texts[t["ref"]] for t in step["truncated"]}
    assert json.loads(whole["/observation/out/stdout"])["out"]["stdout"] == "y" * (MAX_TEXT + 1)


HUGE = {
    "wide characters everywhere": {"a": "长" * 30_000, "b": "文" * 30_000},
    "many strings": {str(n): "z" * 900 for n in range(200)},
    "a long list": list(range(100_000)),
    "control characters": ["\x01" * 16_000] * 3,
    "deep": json.loads("[" * 200 + "]" * 200),
    "a long key": {"k" * 70_000: 1},
}


@pytest.mark.parametrize("name", HUGE)
def test_no_step_exceeds_a_message(name: str) -> None:
    """Whatever a tool returned, the step fits 64 KiB, and what is missing is named with its payload."""
    script = Script()
    script.think()
    script.calls(("t", {"v": HUGE[name]}, "pure"), thought="想" * 40_000, raw="写" * 40_000)
    script.attempt()
    script.returned(0, HUGE[name])
    (step,) = of(script)
    assert size(step) <= MAX_BYTES
    assert all(script.texts[t["ref"]] for t in step["truncated"])
    if step["observation"] is None:
        assert "/observation" in {t["path"] for t in step["truncated"]}
    assert step["thought"]


@pytest.mark.parametrize("text", ["not json", "[" * 100_000, "", '{"a":'])
def test_a_result_that_is_no_json_is_null(text: str) -> None:
    """A stored result that cannot be read harms nothing else."""
    script = Script()
    script.think()
    script.calls(("t", {}, "pure"))
    script.attempt()
    script.returned(0, None, result=script.put(text))
    assert of(script)[0]["observation"] is None


def test_values_that_few_readers_hold_become_text() -> None:
    """Lone surrogates, NaN and numbers beyond 64 bits would break a client: they become U+FFFD, null and digits."""
    script = Script()
    script.think()
    script.calls(("t", {}, "pure"))
    script.attempt()
    script.returned(0, None, result=script.put('{"s": "a\\ud800b", "n": NaN, "i": 123456789012345678901, "f": 1e999}'))
    step = of(script)[0]
    assert step["observation"] == {"s": "a\ufffdb", "n": None, "i": "123456789012345678901", "f": "1e999"}
    size(step)
