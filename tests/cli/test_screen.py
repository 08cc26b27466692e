"""What a person sees of a run's messages, on a terminal and in a pipe."""

from __future__ import annotations

from typing import Any

import pytest

from devassist.cli.screen import Screen

META = {"type": "meta", "trace_id": "ab" * 16, "agent_name": "dev", "model": "m", "model_kind": "openai",
        "route": "agent", "route_reason": "because"}  # fmt: skip
DONE = {"type": "done", "status": "succeeded", "answer": "x", "output": None, "usage": {}, "degraded": []}


def _delta(content: str, offset: int, attempt: int = 1) -> dict[str, Any]:
    return {"type": "delta", "content": content, "offset": offset, "attempt": attempt}


def _answer(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "answer", "text": text, "output": None, "ref": "r", "verdicts": [], **more}


def _step(**changes: Any) -> dict[str, Any]:
    base = {"type": "step", "step_index": 0, "call_index": 0, "thought": None, "tool_name": "t", "tool_args": {"a": 1},
            "error": None, "latency_ms": 12}  # fmt: skip
    return base | changes


def _shown(capsys: pytest.CaptureFixture[str], live: bool, *messages: dict[str, Any]) -> tuple[str, str]:
    screen = Screen(live=live)
    for message in (META, *messages, DONE):
        screen.take(message)
    assert screen.over
    return capsys.readouterr()


def test_a_lost_connection_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Also while a call is under way; its result is told with the call once more."""
    screen = Screen(live=False)
    screen.take(META)
    screen.take(_step(type="step_started"))
    screen.lost("Gone")
    screen.take(_step())
    assert capsys.readouterr().err.splitlines() == [
        '  1. t {"a": 1}', "connection lost (Gone), trying again", '  1. t {"a": 1}  12 ms',
    ]  # fmt: skip


def test_a_terminal_sees_the_answer_grow(capsys: pytest.CaptureFixture[str]) -> None:
    """Pieces come once each, also when they overlap; the settled text adds what is missing."""
    out, _ = _shown(capsys, True, _delta("Hel", 0), _delta("ello", 1), _answer("Hello!"))
    assert out == "Hello!\n"


def test_a_pipe_gets_the_settled_answer_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """What was withdrawn never reached it, and nothing of the text is changed."""
    out, _ = _shown(capsys, False, _delta("wrong", 0), _delta("ri", 0, 2), _answer("right\x1b"))
    assert out == "right\x1b\n"


def test_a_long_answer_is_joined_from_its_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the message had to be cut, the pieces hold it whole."""
    out, _ = _shown(capsys, False, _delta("all of it", 0), _answer("all", truncated=[{"path": "/text"}]))
    assert out == "all of it\n"


def test_a_withdrawn_answer_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """A new attempt, a reset, or another settled text begin on a line of their own."""
    reset, partial = {"type": "reset", "attempt": 1}, {"type": "partial", "text": "ri", "attempt": 1}
    for turn in (_delta("right", 0, 2), reset, partial):
        out, err = _shown(capsys, True, _delta("wrong", 0), turn, _answer("right"))
        assert out == "wrong\nright\n"
        assert err.count("withdrawn") == 1


def test_a_partial_goes_on_where_the_screen_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """After a reconnection nothing is shown twice."""
    partial = {"type": "partial", "text": "Hello", "attempt": 1}
    out, err = _shown(capsys, True, _delta("Hel", 0), partial, _delta(" you", 5), _answer("Hello you"))
    assert out == "Hello you\n"
    assert "withdrawn" not in err


def test_control_characters_of_a_model_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """They are shown as escapes."""
    out, _ = _shown(capsys, True, _delta("\x1b[2J", 0), _answer("\x1b[2J"))
    assert out == "\\x1b[2J\n"


def test_a_step_is_one_line_and_comes_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Its beginning is shown at once, its end completes the line, and a repetition is dropped."""
    begun = _step(type="step_started")
    out, err = _shown(capsys, False, begun, _step(), begun, _step(), _answer("x"))
    assert err.splitlines()[0] == '  1. t {"a": 1}  12 ms'
    assert err.count("1. t") == 1
    assert out == "x\n"


def test_calls_side_by_side_keep_their_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that another call interrupted is written again, whole."""
    messages = (_step(type="step_started"), _step(type="step_started", call_index=1), _step(), _step(call_index=1))
    _, err = _shown(capsys, False, *messages, _answer("x"))
    assert [line for line in err.splitlines() if line.endswith("ms")] == ['  1. t {"a": 1}  12 ms'] * 2


def test_a_fault_of_the_model_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A reply that was sent back shows its code."""
    error = {"code": "reply_format_invalid", "message": "no\naction", "retryable": True, "status": 400}
    _, err = _shown(capsys, False, _step(tool_name=None, tool_args=None, error=error), _answer("x"))
    assert "  1. reply sent back  12 ms  reply_format_invalid: no action" in err


def test_waiting_and_degradation_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Each note comes a single time, however often it is repeated."""
    noted = [{"code": "model_switched", "detail": "a fallback model was used"}]
    status = {"type": "status", "status": "running", "pending": [], "degraded": noted}
    turn = {"type": "status", "status": "waiting", "pending": [{"kind": "turn"}], "degraded": []}
    _, err = _shown(capsys, False, turn, status, status, _answer("x"))
    assert err.count("a fallback model was used") == 1
    assert "the conversation has an open run" in err


def test_a_wait_for_the_provider_is_one_line_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Why and how long; a switch is told once, and a wait for another reason has its length alone."""

    def waits(ms: int, *degraded: dict[str, str]) -> dict[str, Any]:
        timer = {"kind": "timer", "since_ms": 1_000, "wake_at_ms": 1_000 + ms}
        return {"type": "status", "status": "waiting", "pending": [timer], "degraded": list(degraded)}

    throttled = {"code": "provider_rate_limited", "detail": "The model provider is throttling."}
    switched = {"code": "model_switched", "detail": "The fallback model m-2 was used."}
    goes_on = {"type": "status", "status": "running", "pending": [], "degraded": [switched]}
    messages = (waits(7_100, throttled), goes_on, waits(500, switched, throttled), waits(20_000, switched))
    _, err = _shown(capsys, False, *messages, _answer("x"))
    assert err.splitlines()[:4] == [
        "waiting 7.1 s: The model provider is throttling.",
        "note: The fallback model m-2 was used.",
        "waiting 0.5 s: The model provider is throttling.",
        "waiting 20.0 s",
    ]


def test_a_run_that_waits_for_a_person_is_over_for_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing more will come by itself, and what it waits for is shown."""
    screen = Screen(live=False)
    screen.take(META)
    pending = {"kind": "approval", "tool_name": "refund", "tool_args": {"amount": 5}}
    screen.take({"type": "status", "status": "awaiting_approval", "pending": [pending], "degraded": []})
    assert screen.over
    assert 'waiting for a person (approval): refund {"amount": 5}' in capsys.readouterr().err


def test_an_error_ends_with_its_code_and_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reports it can name the run."""
    screen = Screen(live=False)
    screen.take(META)
    screen.take({"type": "error", "code": "step_limit", "detail": "eight steps", "status": 500})
    err = capsys.readouterr().err
    assert "failed: step_limit: eight steps" in err
    assert f"trace {'ab' * 16}  failed" in err
