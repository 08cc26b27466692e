"""The judge of the abuse cases is not to be fooled: what got through is a hole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program, SandboxState
from devassist.sandbox.abuse import ABUSES, attempt
from devassist.sandbox.abuse_cases import Abuse

ENDED = Execution("", "", 0, 5, False, False, False, "docker", "image", "limits")


class Answering:
    """A sandbox that runs nothing: every program ends as it was told."""

    def __init__(self, execution: Execution | None) -> None:
        self._execution = execution

    async def open(self) -> None: ...

    async def execute(self, scope: Scope, program: Program) -> Execution:
        compile(program.code, "main.py", "exec")
        if self._execution is None:
            raise SandboxUnavailable("gone")
        return self._execution

    def state(self) -> SandboxState:
        return SandboxState("docker", "image", "limits")

    async def close(self) -> None: ...


def case(number: int) -> Abuse:
    return next(one for one in ABUSES if one.number == number)


@pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.name)
async def test_silence_is_a_hole(abuse: Abuse) -> None:
    """Every case is a program that compiles, and one that just ends has not been held."""
    assert (await attempt(Answering(ENDED), abuse, 1)).verdict == "hole"


@pytest.mark.parametrize(
    ("number", "change", "verdict"),
    [
        (1, {"stdout": "@held no\n"}, "held"),
        (1, {"stdout": "@held no\n@hole yes\n"}, "hole"),
        (1, {"stdout": "@absent no module\n"}, "absent"),
        (1, {"stdout": "@absent no module\n@held no\n"}, "held"),
        (1, {"exit_code": 1, "stderr": "Traceback"}, "hole"),
        (18, {"exit_code": -9, "oom_killed": True}, "held"),
        (18, {"exit_code": -9}, "hole"),
        (22, {"exit_code": -9, "timed_out": True}, "held"),
        (22, {"exit_code": 1}, "hole"),
        (23, {"exit_code": -9, "timed_out": True, "stdout": "x" * 30_000, "truncated": True}, "hole"),
        (28, {"stdout": "@held left\n", "exit_code": -9, "timed_out": True}, "hole"),
        (32, {"stdout": "@held here\n", "exit_code": 0}, "hole"),
        (54, {"exit_code": -11}, "held"),
    ],
)
async def test_verdicts(number: int, change: dict[str, object], verdict: str) -> None:
    """What the program says counts unless its end says otherwise."""
    assert (await attempt(Answering(replace(ENDED, **change)), case(number), 1)).verdict == verdict  # type: ignore[arg-type]


async def test_a_program_that_breaks_the_service_got_through() -> None:
    """SandboxUnavailable while an abuse runs is a hole."""
    assert (await attempt(Answering(None), case(26), 1)).verdict == "hole"
