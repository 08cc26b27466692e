"""What goes over the socket of `devassist sandbox serve`, line by line as JSON: a greeting, one request, one answer.

    <- {"devassist_sandbox": 1, "state": {…}, "counts": {…}}      once connected
    -> {"execute": {"code", "timeout_s", "tenant", "actor"}}
    <- {"execution": {…}, "counts": {…}}  or  {"error": "overloaded" | "sandbox_unavailable" | "refused", "detail"}

A connection runs one program; closing it kills the program. There is no other verb.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any, cast

from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import COUNTED, Execution, Program, SandboxState

VERSION = 1
MOST_REQUEST = 2 << 20
"""Bytes of a request: the longest program that the tool takes (100,000 characters), each escaped, and some more."""
MOST_ANSWER = 1 << 20
"""Bytes of an answer: two streams of some 20,000 characters, each escaped, and some more."""
MOST_TIMEOUT_S = 600.0


class Malformed(ValueError):
    """What came is not what the protocol knows; the message says what is wrong."""


def line(value: dict[str, Any]) -> bytes:
    """One line: in ASCII, so that half a character, which programs may well hold, gets through."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def greeting(state: SandboxState, counts: dict[str, int]) -> dict[str, Any]:
    return {"devassist_sandbox": VERSION, "state": asdict(state), "counts": counts}


def request(scope: Scope, program: Program) -> dict[str, Any]:
    return {"execute": {**asdict(program), "tenant": scope.tenant, "actor": scope.actor}}


def read_request(data: bytes) -> tuple[Scope, Program]:
    """Raises Malformed."""
    asked = _members(_object(data), ("execute",)).get("execute")
    if not isinstance(asked, dict):
        raise Malformed("execute takes an object")
    wanted = {"code": str, "timeout_s": float, "tenant": str, "actor": str}
    given = _members(cast("dict[str, Any]", asked), tuple(wanted))
    if isinstance(given["timeout_s"], int) and not isinstance(given["timeout_s"], bool):
        given["timeout_s"] = float(given["timeout_s"])
    for name, kind in wanted.items():
        if type(given[name]) is not kind:
            raise Malformed(f"{name} is no {kind.__name__}")
    if not 0 < given["timeout_s"] <= MOST_TIMEOUT_S:
        raise Malformed(f"timeout_s is not above 0 and at most {MOST_TIMEOUT_S:.0f}")
    scope = Scope(given["tenant"], given["actor"])
    return scope, Program(given["code"], given["timeout_s"])


def read_greeting(said: dict[str, Any]) -> tuple[SandboxState, dict[str, int]]:
    """Raises SandboxUnavailable for a peer that is none of ours, or of another version."""
    try:
        if said.get("devassist_sandbox") != VERSION:
            raise Malformed("its greeting is not one of this version")
        state = said["state"]
        if state["backend"] not in ("docker", "wasi"):
            raise Malformed("it names an unknown backend")
        known = SandboxState(
            state["backend"], str(state["image"]), str(state["limits"]), tuple(map(str, state["cannot"])),
            int(state["warm"]),
        )  # fmt: skip
        return known, read_counts(said)
    except (KeyError, TypeError, ValueError) as error:
        raise SandboxUnavailable(f"What answers is no sandbox of this version: {error}") from None


def read_counts(said: dict[str, Any]) -> dict[str, int]:
    counts: dict[str, Any] = said.get("counts") or {}
    return {name: int(counts.get(name, 0)) for name in COUNTED}


def read_answer(data: bytes) -> dict[str, Any]:
    """Raises SandboxUnavailable."""
    try:
        return _object(data)
    except Malformed as error:
        raise SandboxUnavailable(f"The sandbox's answer cannot be read: {error}") from None


def plain(done: Execution) -> dict[str, Any]:
    return asdict(done)


def execution(said: dict[str, Any]) -> Execution:
    """Raises SandboxUnavailable for one that is not whole."""
    try:
        return Execution(**{field.name: said[field.name] for field in fields(Execution)})
    except (KeyError, TypeError) as error:
        raise SandboxUnavailable(f"The sandbox's answer is not whole: {error}") from None


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise Malformed("that is no JSON") from None
    if not isinstance(value, dict):
        raise Malformed("that is no JSON object")
    return cast("dict[str, Any]", value)


def _members(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    if set(value) != set(names):
        raise Malformed(f"an object with exactly {', '.join(names)} is asked for")
    return dict(value)
