"""A client of the event stream as section 5 of the contract describes it, over bytes, and strict about every rule."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from typing import Any

STEP_KEYS = {
    "step_index", "call_index", "thought", "action_raw", "tool_name", "tool_args", "observation", "observation_text",
    "error", "started_at_ms", "finished_at_ms", "latency_ms", "in_doubt", "truncated",
}  # fmt: skip
WITHOUT_ID = {"delta", "partial", "reset", "resync"}
ENDS = {"done", "error"}
MOST_BYTES = 64 * 1024
_LINE_END = re.compile(r"\r\n|\n|\r(?!$)")


class Page:
    """What a client keeps across connections."""

    def __init__(self) -> None:
        self.text = ""
        self.attempt = 0
        self.last_id: str | None = None
        self.meta: dict[str, Any] = {}
        self.status: dict[str, Any] | None = None
        self.steps: dict[tuple[int, int], dict[str, Any]] = {}
        self.answer: dict[str, Any] | None = None
        self.end: dict[str, Any] | None = None
        self.messages: list[dict[str, Any]] = []
        self.ids: list[int] = []
        self.comments: list[str] = []

    def connect(self) -> Connection:
        return Connection(self)

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]

    @property
    def deltas(self) -> list[str]:
        return [message["content"] for message in self.messages if message["type"] == "delta"]


class Connection:
    """One connection: feed it bytes as they come; what is cut off in mid-event is lost, as in a browser."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._decode = getincrementaldecoder("utf-8")()
        self._buffer = ""
        self._id: str | None = None
        self._data: list[str] = []
        self._event: str | None = None
        self.types: list[str] = []
        self.bytes = 0

    def feed(self, data: bytes) -> None:
        self.bytes += len(data)
        self._buffer += self._decode.decode(data)
        *lines, self._buffer = _LINE_END.split(self._buffer)
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        if not line:
            if self._data:
                self._dispatch("\n".join(self._data))
            self._data, self._id, self._event = [], None, None
            return
        if line.startswith(":"):
            self.page.comments.append(line)
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        assert name in ("id", "data"), f"unexpected field {line!r}"
        if name == "id":
            self._id = value
        else:
            assert not self._data, "one data line a message"
            assert len(value.encode()) <= MOST_BYTES
            self._data.append(value)

    def _dispatch(self, data: str) -> None:
        page, message = self.page, json.loads(data)
        assert page.end is None, f"nothing follows the end, but {message['type']} did"
        page.messages.append(message)
        self.types.append(message["type"])
        if self._id is not None:
            assert message["type"] not in WITHOUT_ID, message["type"]
            assert self._id.isdigit()
            assert not page.ids or int(self._id) > page.ids[-1], "ids rise"
            page.ids.append(int(self._id))
            page.last_id = self._id
        self._apply(message)

    def _apply(self, message: dict[str, Any]) -> None:
        page = self.page
        match message["type"]:
            case "meta":
                page.meta = message
            case "resync":
                assert self.types == ["resync"], "it goes first"
                page.ids.clear()
                page.last_id = None
            case "status":
                assert message.keys() >= {"status", "pending", "degraded"}
                page.status = message
            case "step":
                assert message.keys() == STEP_KEYS | {"type"}
                page.steps[message["step_index"], message["call_index"]] = message
            case "partial":
                assert self.types.count("partial") == 1, "one a connection"
                assert "delta" not in self.types, "before any delta"
                page.attempt, page.text = message["attempt"], message["text"]
            case "delta":
                assert "partial" in self.types
                assert message["attempt"] >= page.attempt
                if message["attempt"] > page.attempt:
                    page.attempt, page.text = message["attempt"], ""
                assert message["offset"] == len(page.text), "offsets count code points, without gap or repeat"
                assert message["content"]
                page.text += message["content"]
            case "reset":
                page.attempt, page.text = message["attempt"], ""
            case "answer":
                assert page.text == (message["text"] or "") or message["truncated"]
                page.answer = message
            case "done" | "error":
                if page.answer is not None:
                    assert message["answer"] == page.answer["text"]
                page.end = message
            case "step_started":
                assert message["tool_name"]
            case other:
                raise AssertionError(f"unknown message {other}")
