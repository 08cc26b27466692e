"""The stream: exactly the contract's messages, the same for every connection, and deltas that join to the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import IllegalTransition
from devassist.core.events import ModelSwitched
from devassist.core.frames import RESYNC, Frame, Watcher
from devassist.core.steps import steps
from devassist.core.view import cost_text, summary
from tests.core.build import TRACE, Script
from tests.core.client import Client
from tests.core.runs import (
    SCRIPTS,
    approved,
    cancelled,
    doubtful,
    failed,
    gated,
    parallel,
    plain,
    retried,
    settled,
    two_tools,
)

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[1] / "cases" / "group_f.jsonl").read_text().splitlines())
}
BOOKKEEPING = frozenset({"partial", "delta", "reset"})


def watch(script: Script, **options: Any) -> list[Frame]:
    watcher = Watcher(trace_id=TRACE, text=script.text, **options)
    return [frame for placed in script.placed for frame in watcher.feed(*placed)]


def types(frames: list[Frame]) -> list[str]:
    return [frame.data["type"] for frame in frames]


END = ["partial", "delta", "step", "answer", "done"]
CALL = ["step_started", "step"]
EXPECTED = {
    "plain": ["meta", *END],
    "two_tools": ["meta", *CALL, *CALL, *END],
    "parallel": ["meta", *["step_started"] * 3, *["step"] * 3, *END],
    "faulty": ["meta", "step", *END],
    "retried": ["meta", "status", "status", *END],
    "cancelled": ["meta", "step_started", "step", "step", "done"],
    "doubtful": ["meta", "step_started", "status"],
    "settled": ["meta", "step_started", "status", "status", "step", *END],
    "late": ["meta", "step_started", "status", "status", "step", *END],
    "approved": ["meta", "step_started", "status", "status", "step", *END],
    "gated": ["meta", "step", *CALL, *END],
    "failed": ["meta", *CALL, "error"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_messages_of_a_run(name: str) -> None:
    """Each kind of run gives its messages in order and, when it is over, exactly one end."""
    assert types(watch(SCRIPTS[name]())) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_id_stands_on_the_last_message_of_an_event(name: str) -> None:
    """Ids are seqs; text pieces and the messages before an event's last bear none."""
    script = SCRIPTS[name]()
    watcher = Watcher(trace_id=TRACE, text=script.text)
    for event, seq, at in script.placed:
        frames = watcher.feed(event, seq, at)
        assert [frame.id for frame in frames] == [None] * (len(frames) - 1) + [seq] * bool(frames)
        assert all(frame.id is None for frame in frames if frame.data["type"] in BOOKKEEPING)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_client_that_comes_back_gets_the_rest_once(name: str) -> None:
    """From any position on: the same messages as without the break, none twice, none missing."""
    script = SCRIPTS[name]()
    whole = Watcher(trace_id=TRACE, text=script.text)
    by_event = [whole.feed(*placed) for placed in script.placed]
    for after in range(-1, len(script.placed)):
        rest = [frame for frames in by_event[after + 1 :] for frame in frames]
        got = [f for f in watch(script, after=after) if f.data["type"] != "status" or after != 0]
        assert got == [f for f in rest if f.data["type"] != "status" or after != 0]


def test_one_that_was_told_to_wait_is_told_that_it_runs() -> None:
    """A run that waits for its turn says so after meta; a client that comes back with that position learns the news."""
    script = plain()
    frames = watch(script, driven=False)
    assert types(frames)[:3] == ["meta", "status", "status"]
    assert (frames[0].id, frames[1].id) == (None, 0)
    assert frames[1].data["status"] == "waiting"
    assert [p["kind"] for p in frames[1].data["pending"]] == ["turn"]
    assert frames[2].data == {"type": "status", "status": "running", "pending": [], "degraded": []}
    assert watch(script, after=0)[0].data["status"] == "running"


def test_meta_says_what_was_resolved() -> None:
    """Meta has all its fields, from INIT alone."""
    assert watch(plain())[0].data == {
        "type": "meta", "agent": True, "rag": False, "trace_id": TRACE, "conversation_id": "c1", "route": "agent",
        "route_reason": "asked for", "agent_name": "dev", "model": "m-1", "model_kind": "scripted",
        "prompt_version": "v1", "release": "live",
    }  # fmt: skip


def test_an_erased_run_is_still_told() -> None:
    """Without its texts a run has its messages, with nulls; agent and rag stay booleans."""
    script = two_tools()
    script.erased = set(script.texts)
    frames = watch(script)
    assert types(frames) == [t for t in EXPECTED["two_tools"] if t not in BOOKKEEPING]
    assert (frames[0].data["agent"], frames[0].data["rag"], frames[0].data["route"]) == (False, False, None)
    assert frames[-2].data["text"] is None
    assert frames[-1].data["answer"] is None


def test_steps_of_the_stream_are_those_of_the_trace() -> None:
    """The stream's steps and the trace page's are the same dicts."""
    script = parallel()
    streamed = [{k: v for k, v in f.data.items() if k != "type"} for f in watch(script) if f.data["type"] == "step"]
    assert streamed == steps(script.placed, script.text)


def test_status_names_what_a_run_waits_for() -> None:
    """A doubt, and a back-off, with every key of pending."""
    doubt = watch(doubtful())[-1].data
    assert doubt["status"] == "awaiting_approval"
    assert doubt["pending"] == [
        {
            "kind": "settlement", "step_index": 0, "call_index": 0, "tool_name": "send_mail", "tool_args": {"to": "a"},
            "digest": "d0", "since_ms": doubtful().placed[-1][2] // 1000, "wake_at_ms": None,
        }
    ]  # fmt: skip
    (wait,) = [f.data for f in watch(retried()) if f.data.get("status") == "waiting"]
    (pending,) = wait["pending"]
    assert (pending["kind"], pending["call_index"], pending["digest"]) == ("timer", None, None)
    assert pending["wake_at_ms"] - pending["since_ms"] == 490


@pytest.mark.parametrize("answered", [approved, settled])
def test_a_run_that_was_answered_waits_for_nobody(answered: Callable[[], Script]) -> None:
    """From the answer on the run goes on: it reads running with nothing pending, before anybody has driven it."""
    script = answered()
    said = next(seq for event, seq, _ in script.placed if event.kind in ("approval_given", "settlement_given"))
    told = summary(script.placed[: said + 1], script.text, trace_id=TRACE)
    assert (told["status"], told["pending"]) == ("running", [])
    before = summary(script.placed[:said], script.text, trace_id=TRACE)
    assert (before["status"], len(before["pending"])) == ("awaiting_approval", 1)


def test_a_failed_run_ends_with_its_problem() -> None:
    """The error message is the problem object with the trace, its type being the message's."""
    end = watch(failed())[-1].data
    assert end == {
        "type": "error", "title": "The run's step limit was reached", "status": 422, "code": "step_limit",
        "detail": "The step limit was reached.", "instance": f"/runs/{TRACE}", "trace_id": TRACE,
    }  # fmt: skip


def test_a_cancelled_run_is_done_without_an_answer() -> None:
    """Cancelling is no error."""
    end = watch(cancelled())[-1].data
    assert (end["type"], end["status"], end["answer"], end["output"]) == ("done", "cancelled", None, None)


def test_a_gated_run_shows_nothing_before_its_verdict() -> None:
    """Deltas of a gated run are not passed on, and no message holds what was not released."""
    script = gated()
    watcher, client = Watcher(trace_id=TRACE, text=script.text), Client()
    for number, placed in enumerate(script.placed):
        client.take(watcher.feed(*placed))
        client.take(watcher.partial(watcher.attempt, "SECRET"))
        client.take(watcher.delta(watcher.attempt, 0, "SECRET"))
        client.take(watcher.reset(watcher.attempt))
        assert number == len(script.placed) - 1 or client.text == ""
    assert "SECRET" not in json.dumps(client.messages)
    assert client.text == "三十天内（依据：《报销办法》）"
    assert client.messages[-2]["verdicts"] == ["quote_verified"]


def test_degraded_answers_say_why() -> None:
    """A model switch shows at once; what the release found, and an answer without the format, show at the end."""
    script = Script()
    script.think()
    script.model_failed()
    script.add(ModelSwitched("m-2", "scripted", "provider_error"))
    script.think()
    script.final("x", unstructured=True)
    script.finish(degraded=("quote_not_verified", "new_code"))
    frames = watch(script)
    (status,) = [f.data for f in frames if f.data["type"] == "status"]
    assert [d["code"] for d in status["degraded"]] == ["model_switched"]
    told = frames[-1].data["degraded"]
    assert [d["code"] for d in told] == ["model_switched", "unstructured", "quote_not_verified", "new_code"]
    assert told[-1]["detail"] == "new code"
    assert all(d["detail"] for d in told)


@pytest.mark.parametrize(
    ("micro", "text"), [(-1, None), (0, "0"), (1, "0.000001"), (1_500_000, "1.5"), (20_000_000, "20"), (10, "0.00001")]
)
def test_costs_are_decimal_strings(micro: int, text: str | None) -> None:
    """No price known is null; nothing is rounded, and no float is involved."""
    assert cost_text(micro) == text


def test_the_summary_is_the_answer_object() -> None:
    """What a POST returns agrees with what the stream said, whole."""
    answer = "长" * 30_000
    script = plain(answer)
    said, ended = summary(script.placed, script.text, trace_id=TRACE), watch(script)[-1].data
    assert list(said) == [
        "trace_id", "conversation_id", "status", "answer", "output", "steps", "usage", "error", "pending", "degraded",
        "meta",
    ]  # fmt: skip
    assert said["answer"] == answer
    assert (said["status"], said["usage"]) == (ended["status"], ended["usage"])
    assert summary(script.placed[:1], script.text, trace_id=TRACE)["status"] == "waiting"
    assert summary(script.placed[:1], script.text, trace_id=TRACE, driven=True)["status"] == "running"
    bad = failed()
    assert summary(bad.placed, bad.text, trace_id=TRACE)["error"]["type"] == "urn:devassist:error:step_limit"


def test_an_illegal_event_changes_nothing() -> None:
    """A gap in the journal raises; the watcher goes on with the right event."""
    script = plain()
    watcher = Watcher(trace_id=TRACE, text=script.text)
    watcher.feed(*script.placed[0])
    with pytest.raises(IllegalTransition):
        watcher.feed(*script.placed[2])
    assert [f for p in script.placed[1:] for f in watcher.feed(*p)] == watch(script)[1:]


@pytest.mark.parametrize("answer", ["长" * 50_000, "a" * 59_000, "\x01" * 30_000, "😀" * 20_000, ""])
def test_long_answers(answer: str) -> None:
    """No message exceeds 64 KiB; the deltas join to the whole answer, and so does the answer unless it is named."""
    script = plain("x")
    script.texts[script.placed[-1][0].answer] = answer  # type: ignore[union-attr]
    script.texts[script.put("{}")] = "{}"
    frames, client = watch(script), Client()
    client.take(frames)
    assert client.text == answer
    assert all(len(frame.encode()) <= 64 * 1024 for frame in frames)
    settled, done = frames[-2].data, frames[-1].data
    assert settled["text"] == done["answer"]
    if "truncated" in settled:
        (cut,) = settled["truncated"]
        assert (cut["path"], cut["characters"]) == ("/text", len(answer))
        assert script.texts[cut["ref"]] == answer
        assert answer.startswith(settled["text"])
    else:
        assert settled["text"] == answer


def test_an_output_beside_a_long_answer_is_named() -> None:
    """The agent's JSON gives way to the text."""
    script = Script()
    script.think()
    script.final("a" * 50_000)
    script.finish(output={"answer": "b" * 50_000, "rows": list(range(9_000))})
    settled = watch(script)[-2].data
    assert settled["text"] == "a" * 50_000
    assert settled["output"] is None
    assert [t["path"] for t in settled["truncated"]] == ["/output"]


def test_text_cannot_forge_an_event() -> None:
    """Line ends and stream look-alikes in a delta stay inside one data line, for any reader of lines."""
    text = CASES["F12"]["input"] + "\x85\u2029\x0b\x0c\x1c"
    encoded = Frame({"type": "delta", "content": text, "offset": 0, "attempt": 1}, 7).encode().decode()
    assert encoded.endswith("\n\n")
    assert len(encoded.splitlines()) == 3
    head, data, _ = re.split("\r\n|\r|\n", encoded)[:3]
    assert head == "id: 7"
    assert json.loads(data.removeprefix("data: "))["content"] == text
    assert RESYNC.encode() == b'data: {"type":"resync"}\n\n'


def test_nothing_is_said_before_init_and_after_the_end() -> None:
    """Late pieces of text are not sent on."""
    script = plain()
    watcher = Watcher(trace_id=TRACE, text=script.text)
    assert watcher.delta(1, 0, "x") == watcher.partial(1, "x") == []
    for placed in script.placed:
        watcher.feed(*placed)
    assert watcher.ended
    assert watcher.delta(1, 0, "x") == watcher.partial(1, "x") == watcher.reset(1) == []
