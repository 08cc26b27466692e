"""The benchmark beside the peers: a run of their work leaves a whole trace, and what is amiss is counted."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from bench.child import Failed
from bench.peer_kill import Record
from bench.peer_report import HTTP, OURS, Case, Rows, of_rows
from bench.peer_work import KINDS, NAMES, Within, traces
from devassist.ports.tools import CallContext
from tests.llm.stub import Answer, provider, whole

RESULT = json.dumps({"policy": "annual_leave", "days": 15})


def reply(step: int) -> Answer:
    """As the peers' stub answers: two native calls, then an answer under a label."""
    message: dict[str, Any] = {"role": "assistant", "content": "Final Answer: you have 10 days left."}
    if step < len(NAMES):
        args = json.dumps({"run": "r1", "step": step + 1, "topic": "annual leave"})
        call = {"id": f"call_{step}", "type": "function", "function": {"name": NAMES[step], "arguments": args}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if step < len(NAMES) else "stop"}
    return whole({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]})


class Ran:
    """One run that has ended; ``arrivals`` are its tool calls as the kill test's witness has them."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.answer = ""
        self.arrivals: list[tuple[str, ...]] = []

    def act(self, run: str, step: int, context: CallContext) -> str:
        self.arrivals.append((run, str(step), context.trace_id, context.call_id, str(context.attempt)))
        return RESULT


@pytest.fixture
async def ran(tmp_path: Path) -> Ran:
    """Closed before it is handed over."""
    run = Ran(tmp_path / "data")
    async with provider(*map(reply, range(3))) as stub:
        within = Within(run.data, stub.base_url, run.act)
        await within.open()
        run.answer = await within.run("RUN=r1 How many days of annual leave do I have left?")
        await within.settled()
        await within.close()
    return run


async def test_whole_trace(ran: Ran) -> None:
    """A run of the peers' work is answered, and its trace is whole in the journal and in the decision log."""
    assert ran.answer == "you have 10 days left."
    assert [step for _, step, *_ in ran.arrivals] == ["1", "2"]
    assert traces(ran.data) == (1, 1, "")


@pytest.mark.parametrize("seq", [4, len(KINDS) - 1])
async def test_missing_row_is_counted(ran: Ran, seq: int) -> None:
    """A trace that lacks one row of the decision log is not whole."""
    db: Any = apsw.Connection(str(ran.data / "log.db"))
    db.execute("DELETE FROM log_rows WHERE seq = ?", (seq,))
    db.close()
    seen = traces(ran.data)
    assert (seen.runs, seen.whole) == (1, 0)
    assert seen.wrong


async def test_repeats_are_told_apart(ran: Ran) -> None:
    """A call beyond the attempts of the journal is an unmarked repeat, and one under another key a second effect."""
    record, first = Record(ran.data), ran.arrivals[0]
    clean = {"repeats": 0, "unmarked": 0, "second_effects": 0, "doubts": 0, "missing_rows": 0}
    assert record.beside(ran.arrivals) == {"arrived": 2, **clean}
    again = record.beside([*ran.arrivals, first])
    assert again == {"arrived": 3, **clean, "repeats": 1, "unmarked": 1}
    other = record.beside([*ran.arrivals, (*first[:3], "0" * 32, "1")])
    assert other == {"arrived": 3, **clean, "repeats": 1, "unmarked": 1, "second_effects": 1}


async def test_what_is_not_measured_over_http_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any process is started, with the way to get it; the harness here has what the module takes from theirs."""
    monkeypatch.setitem(sys.modules, "harness", SimpleNamespace(WORK=str(tmp_path), cpu=lambda *_: 0.0))
    monkeypatch.setitem(sys.modules, "stub", SimpleNamespace(FINAL="Final Answer: x"))
    module = import_module("bench.peer_devassist")
    asked = SimpleNamespace(opt="http", mode="resume", db=str(tmp_path / "x.db"), base_url="http://127.0.0.1:9")
    with pytest.raises(Failed, match="in process, without --opt http"):
        await module.Peer().setup(asked)
    assert not list(tmp_path.glob("x.data*"))


def row(cpu: float, runs_s: float, added: float, **more: Any) -> dict[str, Any]:
    """What a contestant tells of a turn."""
    told: dict[str, Any] = {
        "cpu": cpu,
        "runs_s": runs_s,
        "over_p50_ms": added,
        "over_p95_ms": added,
        "rss_mib": 80,
        "errors": {},
    }
    return told | {"devassist": {"made": 5, "whole": 5, "wrong": ""}} | more


def test_ratios_within_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """Ratios are to the best peer of the same pass; a pass in which no peer came through counts for nothing."""
    cases = [Case("c50", 50, 0), Case("c300", 300, 0), Case("slow", 300, 200)]
    peers = [
        [row(30, 20, 9000), row(80, 60, 4000), {"failed": "x"}],
        [row(20, 40, 8000), row(90, 30, 5000), {"failed": "x"}],
    ]
    rows: Rows = {(case, name): found for case in cases for name, found in zip(("a", "b"), peers, strict=True)}
    rows |= {(case, who): [row(2, 400, 800), row(8, 600, 400), row(1, 1, 1)] for case in cases for who in (OURS, HTTP)}
    notes: list[str] = []
    _, figures = of_rows(rows, notes)
    lines = {figure.name: figure.line() for figure in figures}
    assert lines["peers_cpu_inprocess_c50"].endswith("value=0.1000x target=0.1429x ok")
    assert lines["peers_runs_s_inprocess_c300"].endswith("value=10.0x target=8x ok")
    assert lines["peers_added_p50_inprocess_slow"].endswith("value=0.1000x target=0.125x ok")
    assert any("a at c=50" in note for note in notes)
    assert "devassist-http" in capsys.readouterr().out


def test_what_is_amiss_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    """An error, or a trace that is not whole, in any turn of ours makes its figure short."""
    case = Case("c50", 50, 0)
    bad = row(2, 1, 1, errors={"TimeoutError: ": 1}) | {"devassist": {"made": 5, "whole": 3, "wrong": "r: has 11"}}
    rows: Rows = {(case, OURS): [row(2, 1, 1), bad], (case, "a"): [row(30, 1, 1), row(30, 1, 1)]}
    notes: list[str] = []
    _, figures = of_rows(rows, notes)
    lines = {figure.name: figure.line() for figure in figures}
    assert lines["peers_turns_with_errors"].endswith("value=1 target=0 short")
    assert lines["peers_incomplete_traces"].endswith("value=2 target=0 short")
    assert OURS in capsys.readouterr().out
