"""A sandbox that is not what it should be is not opened."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from devassist.ports.sandbox import Execution
from devassist.sandbox import proof
from devassist.sandbox.policy import Policy

POLICY = Policy()
RIGHT: dict[str, object] = {
    "user": 65534,
    "group": 65534,
    "capabilities": "0" * 16,
    "no new privileges": "1",
    "filter": "2",
    "memory": str(128 << 20),
    "processes": "64",
    "networks": [],
    "writable": [],
}
ENDED = Execution("", "", 0, 5, False, False, False, "docker", "image", "limits")


def test_what_is_as_it_should_be_passes() -> None:
    """Under a runtime with a kernel of its own that kernel need not answer alike."""
    found = replace(ENDED, stdout=json.dumps(RIGHT))
    assert proof.fault(found, POLICY) == ""
    assert proof.fault(replace(ENDED, stdout=json.dumps(RIGHT | {"filter": ""})), Policy(runtime="runsc")) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("user", 0), ("group", 0), ("capabilities", "00000000a80425fb"), ("no new privileges", "0"), ("filter", "0"),
     ("memory", "max"), ("memory", None), ("processes", "max"),
     ("networks", ["eth0"]), ("writable", ["/"])],
)  # fmt: skip
def test_what_is_not_is_named(name: str, value: object) -> None:
    """One wrong answer is enough, and it is told."""
    found = replace(ENDED, stdout=json.dumps(RIGHT | {name: value}))
    assert f"{name} is {value!r}" in proof.fault(found, POLICY)


@pytest.mark.parametrize("stdout", ["", "42\n", "[]"])
def test_no_answer_is_told_too(stdout: str) -> None:
    """With what the program said when it failed."""
    assert "exit 2: no such file" in proof.fault(
        replace(ENDED, stdout=stdout, stderr="no such file", exit_code=2), POLICY
    )
