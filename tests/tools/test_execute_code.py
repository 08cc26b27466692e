"""The tool execute_code: what a model is told, what the record gets, and that nothing passes by the scan (E08)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from devassist.core.definition import Request
from devassist.core.errors import Overloaded, SandboxUnavailable, ToolArgumentsInvalid
from devassist.core.events import Event, ToolIntended, ToolReturned
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import SYSTEM
from devassist.core.states import State
from devassist.core.tooling import ToolFailure, ToolOutcome, ToolResult
from devassist.ports.sandbox import Finding
from devassist.runtime.starting import StartRun
from devassist.runtime.view import RunView
from devassist.tools.execute_code import execute_code_tool
from devassist.tools.registry import Tool, ToolRegistry
from tests.runtime.rig import Rig, rig
from tests.sandbox_fake import FakeSandbox, done
from tests.tools.probe import CONTEXT, SCOPE

CASES = [json.loads(line) for line in Path("tests/cases/group_e.jsonl").read_text("utf-8").splitlines()]
ESCAPE: str = next(case["input"] for case in CASES if case["id"] == "E01")
BLOCKED: list[str] = [
    c["input"] for c in CASES if [a["outcome"] for a in c["expected"].get("accept", [])] == ["blocked"]
]


async def ask(sandbox: FakeSandbox, *cannot: str, **args: Any) -> ToolOutcome:
    return await ToolRegistry([sandbox.tool(*cannot)]).call(SCOPE, "execute_code", args, CONTEXT)


async def result(sandbox: FakeSandbox, **args: Any) -> ToolResult:
    outcome = await ask(sandbox, **args)
    assert isinstance(outcome, ToolResult)
    return outcome


async def test_a_program_reaches_the_sandbox_as_it_is() -> None:
    """Byte for byte, in the caller's name, with its time; the result names all the evidence."""
    sandbox, code = FakeSandbox(), "\tprint('Ä😀\\u2028')\r\n# `` \n"
    outcome = await result(sandbox, code=code, timeout_s=60)
    (program,) = sandbox.programs
    assert (program.code, program.timeout_s) == (code, 60.0)
    assert sandbox.scopes == [SCOPE]
    contract = {
        "stdout",
        "stderr",
        "exit_code",
        "duration_ms",
        "timed_out",
        "oom_killed",
        "truncated",
        "backend",
        "image",
    }
    assert contract | {"limits", "flooded", "warnings"} == outcome.value.keys()
    assert outcome.text is None
    assert (await result(sandbox, code="1")).value["stdout"] == "ok\n"
    assert sandbox.programs[1].timeout_s == 5


@pytest.mark.parametrize(
    "args",
    [{}, {"code": ""}, {"code": "1", "timeout_s": 0}, {"code": "1", "timeout_s": 61}, {"code": "1", "scan": False}],
)
async def test_what_does_not_fit_is_refused(args: dict[str, Any]) -> None:
    """Times outside 1 to 60 s, no code, and any further field: nothing can be asked to pass by the scan."""
    sandbox = FakeSandbox()
    with pytest.raises(ToolArgumentsInvalid):
        await ask(sandbox, **args)
    assert sandbox.programs == []


@pytest.mark.parametrize("code", BLOCKED)
async def test_blocked_programs_are_not_run(code: str) -> None:
    """The reason names rule, line and column, and the status is the contract's."""
    sandbox = FakeSandbox()
    outcome = await ask(sandbox, code=code)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.status) == ("sandbox_code_blocked", 400)
    assert "line " in outcome.message
    assert ", column " in outcome.message
    assert "(dynamic-code)" in outcome.message
    assert sandbox.programs == []


async def test_a_refusal_stays_readable() -> None:
    """However much there is to find, and however long its names."""
    outcome = await ask(FakeSandbox(), code="\n".join(["import subprocess"] * 40 + [f"x.__{'y' * 5000}__"]))
    assert isinstance(outcome, ToolFailure)
    assert len(outcome.message) < 2500
    assert "more" in outcome.message


async def test_warnings_stand_in_the_result() -> None:
    """What was noticed but let through is journalled with the evidence."""
    outcome = await result(FakeSandbox(), code="x = 1\nprint(open('/etc/passwd').read())")
    (warning,) = outcome.value["warnings"]
    assert warning.startswith("line 2, column 7: open('/etc/passwd')")


async def test_no_sandbox_is_a_fault_of_the_service() -> None:
    """It is raised past the model, which gets no output to reason about."""
    with pytest.raises(SandboxUnavailable):
        await ask(FakeSandbox(SandboxUnavailable("no engine")), code="1")


async def test_a_full_queue_is_told_to_the_model() -> None:
    """Nothing was run: it may try again."""
    outcome = await ask(FakeSandbox(Overloaded("too many of your programs wait")), code="1")
    assert outcome == ToolFailure("sandbox_busy", "too many of your programs wait", 429)


async def test_the_description_says_what_programs_cannot_do() -> None:
    """In the description's own language; the effect is pure and the time holds a turn in the queue."""
    spec = FakeSandbox().tool("import numpy / 导入 numpy", "open files / 打开文件").spec
    assert spec.description.endswith("Programs cannot: import numpy; open files.")
    assert spec.effect == "pure"
    assert spec.timeout_s >= 60 + 30


NOTE = "… 5000 characters omitted …"


async def test_long_streams_are_shown_apart() -> None:
    """A model sees both ends of each stream and every other field, whatever has to be left out between; the record
    has it all."""
    out = f"{'a' * 9990}OUT-HEAD!!{NOTE}{'b' * 9991}OUT-TAIL!"
    gives = done(stdout=out, stderr="e" * 15_000 + "ERR-TAIL", exit_code=3, truncated=True)
    outcome = await result(FakeSandbox(gives), code="1")
    assert outcome.value["stdout"] == out
    assert outcome.text is not None
    shown = json.loads(outcome.text)
    assert len(outcome.text) <= 18_000
    assert shown["exit_code"] == 3
    assert shown["stdout"].startswith("aaa")
    assert shown["stdout"].endswith("OUT-TAIL!")
    assert shown["stderr"].endswith("ERR-TAIL")
    assert f"… {20_000 + 5000 - 8000} characters omitted …" in shown["stdout"]
    assert shown.keys() == outcome.value.keys()


async def test_streams_of_control_characters_are_shown_too() -> None:
    """Their escapes take six times the room."""
    outcome = await result(FakeSandbox(done(stdout="\x00" * 20_000, stderr="\x01" * 20_000)), code="1")
    assert outcome.text is not None
    assert len(outcome.text) <= 18_000
    assert json.loads(outcome.text)["truncated"]


# -- every path of the runtime -----------------------------------------------------------------------------------------


def text_call(code: str) -> str:
    return f"Thought: t\nAction: tool:execute_code\nargs: {json.dumps({'code': code})}"


def native_call(code: str) -> ModelReply:
    return ModelReply("", (NativeCall("c1", "execute_code", json.dumps({"code": code})),), "tool_calls")


FINAL = "Thought: t\nAction: final: I see."


def outcomes(events: list[Event]) -> list[tuple[str, str | None, int]]:
    return [(e.outcome, e.code, e.status) for e in events if isinstance(e, ToolReturned)]


async def run(made: Rig) -> RunView:
    request = Request(user="alice", route="agent", route_reason="test")
    started = await made.service.start(SCOPE, StartRun("hi", made.definition, request))
    return await made.service.wait(SCOPE, started.stream)


REFUSED = [("failed", "sandbox_code_blocked", 400)]


@pytest.mark.parametrize(
    ("replies", "protocol"), [((text_call(ESCAPE), FINAL), "text"), ((native_call(ESCAPE), "I see."), "tools")]
)
async def test_models_cannot_run_what_is_blocked(replies: tuple[Any, ...], protocol: str) -> None:
    """By the text protocol and by a native call: it is a step's error, and the model may go on."""
    sandbox = FakeSandbox()
    async with rig(list(replies), [sandbox.tool()], protocol=protocol) as made:
        view = await run(made)
    assert view.state.state is State.FINAL_ANSWER
    assert outcomes(view.events) == REFUSED
    assert sandbox.programs == []


async def test_a_resumed_step_is_blocked_too(tmp_path: Path) -> None:
    """A call that was decided before a crash goes through the same door when another process takes it up."""
    first = FakeSandbox(holds=asyncio.Event())
    async with rig([text_call("print(1)"), FINAL], [first.tool()], tmp_path) as made:
        request = Request(user="alice", route="agent", route_reason="test")
        started = await made.service.start(SCOPE, StartRun("hi", made.definition, request))
        while not first.programs:
            await asyncio.sleep(0.01)
    assert first.killed == 1
    blocked = FakeSandbox()
    async with rig([FINAL, FINAL], [_stricter(blocked)], tmp_path) as made:
        view = await made.service.wait(SCOPE, started.stream)
    assert outcomes(view.events)[-1:] == REFUSED
    assert blocked.programs == []


def _stricter(sandbox: FakeSandbox) -> Tool:
    """The tool with a scan that lets nothing through."""
    return execute_code_tool(sandbox, lambda code: (Finding(1, 1, "all", "anything", blocked=True),), 5)


async def test_a_cut_off_program_is_run_again_as_another_attempt(tmp_path: Path) -> None:
    """It is pure: whoever takes the run up runs it anew, without asking anybody, and both attempts are on record."""
    first, second = FakeSandbox(holds=asyncio.Event()), FakeSandbox()
    async with rig([text_call("print(1)"), FINAL], [first.tool()], tmp_path) as made:
        request = Request(user="alice", route="agent", route_reason="test")
        started = await made.service.start(SCOPE, StartRun("hi", made.definition, request))
        while not first.programs:
            await asyncio.sleep(0.01)
    async with rig([FINAL, FINAL], [second.tool()], tmp_path) as made:
        view = await made.service.wait(SCOPE, started.stream)
        journalled = await made.journal.read(SYSTEM, started.stream)
    assert view.state.state is State.FINAL_ANSWER
    assert [e.attempt for e in view.events if isinstance(e, ToolIntended)] == [1, 2]
    assert second.programs == first.programs
    assert sum(e.kind == "tool_intended" for e in journalled) == 2


async def test_no_sandbox_ends_the_run_as_unavailable() -> None:
    """503 and its own code; the model is not asked again, and no output stands in the record."""
    async with rig([text_call("print(1)"), FINAL], [FakeSandbox(SandboxUnavailable("no engine")).tool()]) as made:
        view = await run(made)
    assert view.state.state is State.ERROR
    last: Any = view.events[-1]
    assert (last.code, last.status) == ("sandbox_unavailable", 503)
    assert "sandbox" in view.texts[last.message].lower()
    assert [(o, c) for o, c, _ in outcomes(view.events)] == [("fault", "sandbox_unavailable")]
    assert sum(e.kind == "model_intended" for e in view.events) == 1
