"""Recording a model and playing the record back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from devassist.core.errors import ConfigInvalid, ProviderError
from devassist.core.messages import ChatMessage, ModelReply, NativeCall
from devassist.core.scope import Scope
from devassist.llm.recorded import (
    Record,
    Recorded,
    Recording,
    RecordMismatch,
    RecordMissing,
    load_records,
    prompt_digest,
    to_line,
)
from devassist.llm.scripted import Chunks, Scripted
from devassist.ports.model import ModelRequest

SCOPE = Scope("default", "ann")
REPLY = ModelReply("Hi 你好", (NativeCall("c", "t", '{"a":1}'),), "tool_calls", 7, 3, "because", "m-1")


def request(attempt: int, text: str = "q", trace_id: str = "t1") -> ModelRequest:
    return ModelRequest((ChatMessage("user", text),), attempt=attempt, trace_id=trace_id)


async def test_a_record_replays_what_was_answered(tmp_path: Path) -> None:
    """Replies with all their fields, and failures, come back by attempt number."""
    path = tmp_path / "record.jsonl"
    failure = ProviderError("busy", code="provider_rate_limited", retryable=True, retry_after_ms=5, provider_status=429)
    recording = Recording(Scripted(lambda asked: failure if asked.attempt == 1 else REPLY), path)
    with pytest.raises(ProviderError):
        await recording.complete(SCOPE, request(1))
    assert await recording.complete(SCOPE, request(2)) == REPLY
    await recording.complete(SCOPE, request(1 + 1, trace_id="other"))
    await recording.close()

    replay = Recorded(load_records(path, "t1"))
    with pytest.raises(ProviderError) as caught:
        await replay.complete(SCOPE, request(1))
    error = caught.value
    assert (error.detail, error.code, error.retryable, error.retry_after_ms) == ("busy", failure.code, True, 5)
    deltas: list[str] = []
    assert await replay.complete(SCOPE, request(2), deltas.append) == REPLY
    assert deltas == [REPLY.text]
    assert (replay.name, replay.kind) == ("recorded", "recorded")


async def test_another_prompt_is_a_mismatch_that_names_both() -> None:
    """A replay that goes another way is a typed error with both digests."""
    recorded, given = prompt_digest(request(1)), prompt_digest(request(1, "other"))
    replay = Recorded([Record(1, REPLY, recorded)])
    with pytest.raises(RecordMismatch) as caught:
        await replay.complete(SCOPE, request(1, "other"))
    assert (caught.value.recorded, caught.value.given) == (recorded, given)
    assert recorded in caught.value.detail
    assert given in caught.value.detail


async def test_an_attempt_without_a_record() -> None:
    """A replay that asks once more than was recorded says so."""
    with pytest.raises(RecordMissing):
        await Recorded([Record(1, REPLY)]).complete(SCOPE, request(2))


async def test_a_recording_shows_its_model_and_keeps_streaming(tmp_path: Path) -> None:
    """Name and kind are the inner model's, deltas pass through, and the file is private and holds no prompt."""
    path = tmp_path / "record.jsonl"
    recording = Recording(Scripted([["a", "b"]], name="inner"), path)
    deltas: list[str] = []
    await recording.complete(SCOPE, request(1, "confidential question"), deltas.append)
    assert (recording.name, recording.kind, deltas) == ("inner", "scripted", ["a", "b"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert "confidential" not in path.read_text("utf-8")


async def test_a_cancelled_call_leaves_no_record(tmp_path: Path) -> None:
    """What was never answered is not recorded."""
    path = tmp_path / "record.jsonl"
    call = asyncio.create_task(Recording(Scripted([Chunks((("a", 10_000),))]), path).complete(SCOPE, request(1)))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not path.exists()


def test_the_digest_tells_prompts_apart_and_nothing_else() -> None:
    """Messages, calls, tools and the bound count; attempt, trace and time limit do not."""
    base = ModelRequest((ChatMessage("user", "a"),))
    same = ModelRequest((ChatMessage("user", "a"),), attempt=9, trace_id="x", timeout_s=1, agent="b", lang="en")
    assert prompt_digest(base) == prompt_digest(same)
    others = [
        ModelRequest((ChatMessage("system", "a"),)),
        ModelRequest((ChatMessage("user", "a", tool_call_id="c"),)),
        ModelRequest((ChatMessage("user", "a", (NativeCall("c", "t", "{}"),)),)),
        ModelRequest((ChatMessage("user", "a"),), tools=({"type": "function"},)),
        ModelRequest((ChatMessage("user", "a"),), max_tokens=5),
        ModelRequest((ChatMessage("user", "a\ud83d"),)),
    ]
    assert len({prompt_digest(one) for one in (base, *others)}) == len(others) + 1


@pytest.mark.parametrize("line", ["{", "[]", '{"v": 2}', '{"v": 1}', '{"v":1,"attempt":"x","reply":{}}', "7"])
def test_a_broken_record_names_its_line(tmp_path: Path, line: str) -> None:
    """A file that is no record is refused with the number of the line."""
    path = tmp_path / "record.jsonl"
    path.write_text(to_line(Record(1, REPLY)) + line + "\n", "utf-8")
    with pytest.raises(ConfigInvalid) as caught:
        load_records(path)
    assert f"{path}:2" in caught.value.detail


def test_records_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    """Two records of one attempt are refused, and so is a file that is not there."""
    with pytest.raises(ConfigInvalid):
        Recorded([Record(1, REPLY, trace_id="a"), Record(1, REPLY, trace_id="b")])
    with pytest.raises(ConfigInvalid):
        load_records(tmp_path / "none.jsonl")
