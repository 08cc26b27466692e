"""Native tool calls put together from the pieces of a stream. Pure; shared by adapters, recordings and tests.

Providers agree that arguments come in pieces that are joined, and on little else: ``index`` may be missing, shared by
several calls or wrong on later pieces; id and name may be repeated, empty or null. A piece belongs to the call that it
names by id, else by index, else to the last one; it begins a new call where it brings a name and the call that it
would belong to is complete or has another name. Nothing is ever closed or left out to make arguments parse.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, cast

from devassist.core.messages import NativeCall


@dataclass(slots=True)
class _Growing:
    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list[str])

    @property
    def arguments(self) -> str:
        return "".join(self.parts)

    def complete(self) -> bool:
        """Whether the arguments are one JSON value already, so that any more would spoil them."""
        text = self.arguments
        if not text.rstrip().endswith(("}", "]", '"', "null")):
            return False
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return False
        return True


class CallAssembler:
    """``add`` the ``tool_calls`` list of each delta in order, then take ``result``."""

    __slots__ = ("_by_index", "_calls")

    def __init__(self) -> None:
        self._calls: list[_Growing] = []
        self._by_index: dict[int, _Growing] = {}

    def add(self, delta_tool_calls: Sequence[object]) -> None:
        """Total on any JSON: what is no piece of a call is passed over."""
        for item in delta_tool_calls:
            piece = _mapping(item)
            if not piece:
                continue
            function = _mapping(piece.get("function"))
            index = piece.get("index")
            call_id, name, arguments = _text(piece.get("id")), _text(function.get("name")), function.get("arguments")
            if not isinstance(arguments, str):
                # Some servers send the parsed object, or null for nothing.
                arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
            if call_id or name or arguments:
                self._take(index if isinstance(index, int) else None, call_id, name, arguments)

    def result(self) -> tuple[NativeCall, ...]:
        """The calls in the order in which they began. Where the provider gave no id, one is derived from the call."""
        taken: set[str] = set()
        calls: list[NativeCall] = []
        for position, call in enumerate(self._calls):
            call_id, arguments = call.id, call.arguments
            if not call_id or call_id in taken:
                digest = sha256(f"{position}\0{call.name}\0{arguments}".encode("utf-8", "surrogatepass"))
                call_id = f"call_{digest.hexdigest()[:16]}"
            taken.add(call_id)
            calls.append(NativeCall(call_id, call.name, arguments))
        return tuple(calls)

    def _take(self, index: int | None, call_id: str, name: str, arguments: str) -> None:
        call = self._owner(index, call_id, name, arguments)
        foreign = index is not None and self._by_index.get(index) is not call
        if call is None or _begins(call, call_id, name, foreign=foreign):
            call = _Growing()
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        call.id = call.id or call_id
        if len(name) > len(call.name):
            call.name = name
        _join(call, arguments)

    def _owner(self, index: int | None, call_id: str, name: str, arguments: str) -> _Growing | None:
        """The call that a piece points at; None where it can only begin one."""
        last = self._calls[-1] if self._calls else None
        for call in self._calls:
            if call_id and call.id == call_id:
                return call
        if index is not None and index in self._by_index:
            return self._by_index[index]
        if name:
            return None if index is not None or call_id else last
        # A tail on another index, or under another id, belongs to the call that still lacks one.
        return last if not call_id or (arguments and last is not None and not last.complete()) else None


def _begins(call: _Growing, call_id: str, name: str, *, foreign: bool) -> bool:
    """Whether a piece that points at ``call`` begins another one. ``foreign``: it stands on an index not its own."""
    if not name or not call.name:
        return False
    if not name.startswith(call.name):
        return True
    other_id = bool(call_id and call.id and call_id != call.id)
    if not call.parts:
        return other_id
    return (other_id or foreign or not call_id) and call.complete()


def _join(call: _Growing, arguments: str) -> None:
    # A second object cannot go on with a finished one: either "{}" kept the place, or the whole is sent again.
    again = bool(call.parts) and arguments.lstrip().startswith("{") and call.complete()
    if again and call.arguments.strip() in ("{}", arguments.strip()):
        call.parts = [arguments]
    elif arguments:
        call.parts.append(arguments)


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
