"""A client of the event stream, as the contract describes it."""

from __future__ import annotations

from typing import Any

from devassist.core.frames import Frame


class Client:
    """A page as the contract describes it: it joins what it is sent, and is strict about offsets."""

    def __init__(self) -> None:
        self.text = ""
        self.attempt = 0
        self.messages: list[dict[str, Any]] = []

    def take(self, frames: list[Frame]) -> None:
        for frame in frames:
            self.one(frame.data)

    def one(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        match message["type"]:
            case "partial":
                assert "delta" not in self.types, "a partial comes before any delta"
                assert self.types.count("partial") == 1
                self.attempt, self.text = message["attempt"], message["text"]
            case "delta":
                assert message["attempt"] >= self.attempt
                if message["attempt"] > self.attempt:
                    self.attempt, self.text = message["attempt"], ""
                assert message["offset"] == len(self.text)
                assert message["content"]
                self.text += message["content"]
            case "reset":
                assert message["attempt"] >= self.attempt
                self.attempt, self.text = message["attempt"], ""
            case _:
                pass

    @property
    def types(self) -> list[str]:
        return [m["type"] for m in self.messages]
