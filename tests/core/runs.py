"""One run of each kind, written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from devassist.core.events import RunAborted, RunFailed, WaitBegun
from devassist.core.signals import ApprovalGiven, CancelRequested, LateOutcome, SettlementGiven, TimerFired
from devassist.core.tooling import Effect
from tests.core.build import Script, Wanted


def tool_round(script: Script, tool: str, args: dict[str, Any], value: Any, effect: Effect = "pure") -> None:
    """One whole step: the model asks for one call, which works."""
    script.think()
    script.calls((tool, args, effect))
    script.attempt()
    script.returned(0, value)


def plain(answer: str = "你好，世界", **changes: Any) -> Script:
    """A message and its answer."""
    script = Script("say hello", **changes)
    script.think()
    script.final(answer, thought="Easy.")
    script.finish()
    return script


def two_tools() -> Script:
    """Two calls, one after the other, then the answer."""
    script = Script("find it and run it")
    tool_round(script, "search_docs", {"query": "sort"}, {"hits": []})
    tool_round(script, "execute_code", {"code": "print(1)"}, {"stdout": "1\n", "exit_code": 0}, "once")
    script.think()
    script.final("It prints 1.")
    script.finish()
    return script


def parallel(order: Sequence[int] = (1, 2, 0)) -> Script:
    """Three native calls in one decision, whose outcomes come in ``order``."""
    script = Script("look in three places", parallel=True)
    script.think()
    native = script.json([[f"id{n}", "search_docs", json.dumps({"query": f"q{n}"})] for n in range(3)])
    wanted: list[Wanted] = [("search_docs", {"query": f"q{n}"}, "pure") for n in range(3)]
    script.calls(*wanted, raw="Looking.", native=native)
    for call in range(3):
        script.attempt(call)
    for call in order:
        script.returned(call, {"hits": [call]})
    script.think()
    script.final("Nothing.")
    script.finish()
    return script


def faulty() -> Script:
    """A reply that cannot be acted on, a correction, an answer."""
    script = Script("go")
    script.think()
    script.fault(
        "tool_arguments_invalid", "query: is required", raw="Action: search_docs\nArgs: {}", tool="search_docs"
    )
    script.think()
    script.final("Done.")
    script.finish()
    return script


def retried() -> Script:
    """The provider fails once; after the wait the next attempt answers."""
    script = Script("go")
    script.think()
    script.model_failed()
    until = script.placed[-1][2] + 500_000
    script.add(WaitBegun("backoff", until))
    script.add(TimerFired("t1", until), ms=500)
    script.think()
    script.final("Here.")
    script.finish()
    return script


def cancelled() -> Script:
    """Cancelled while a call that may take effect is under way."""
    script = Script("send it")
    script.think()
    script.calls(("send_mail", {"to": "a"}, "once"), ("search_docs", {"query": "b"}, "pure"))
    script.attempt(0)
    script.add(CancelRequested("s1", "00" * 16))
    script.unknown(0)
    script.close(0, "abandoned", "cancelled")
    script.close(1, "cancelled", "cancelled")
    script.add(RunAborted("cancelled"))
    return script


def doubtful() -> Script:
    """A once-call whose outcome is unknown: the run waits for a person."""
    script = Script("send it")
    script.think()
    script.calls(("send_mail", {"to": "a"}, "once"))
    script.attempt(0)
    script.unknown(0)
    script.held(0, "settlement", "d0")
    return script


def settled() -> Script:
    """As ``doubtful``; the person says that it happened."""
    script = doubtful()
    script.add(SettlementGiven("s1", "00" * 16, "d0", "happened", script.json({"sent": True})))
    script.close(0, "happened", "settled", result={"sent": True})
    script.think()
    script.final("It was sent.")
    script.finish()
    return script


def late() -> Script:
    """As ``doubtful``; the superseded owner delivers what came of it."""
    script = doubtful()
    intent = script.now.calls[0].intent
    script.add(LateOutcome("l1", intent, "result", script.json({"sent": True}), script.put("sent")))
    script.think(epoch=2)
    script.final("It was sent.")
    script.finish()
    return script


def approved() -> Script:
    """A call waits for approval and is made with other arguments."""
    script = Script("refund")
    script.think()
    script.calls(("refund", {"amount": 100}, "once"))
    script.attempt(0)
    script.returned(0, outcome="needs_approval", result=None, shown=None)
    script.held(0, "approval", "d1")
    script.add(ApprovalGiven("a1", "00" * 16, "d1", "approve", args=script.json({"amount": 50})))
    script.attempt(0, args={"amount": 50})
    script.returned(0, {"ok": True})
    script.think()
    script.final("Refunded 50.")
    script.finish()
    return script


def gated() -> Script:
    """A policy run: a refused answer, a look-up with text written after the action, a released answer."""
    script = Script("几天内报销？", release="gated", grounded=True)
    script.think()
    script.fault("answer_ungrounded", "Look it up first.", raw="Action: final: SECRET draft")
    script.think()
    raw = 'Action: get_policy\nArgs: {"question": "报销"}\nObservation: SECRET'
    script.calls(("get_policy", {"question": "报销"}, "pure"), raw=raw, discarded=len("Observation: SECRET"))
    script.attempt()
    script.returned(0, {"found": True, "matches": []})
    script.think()
    script.final("三十天", raw="Action: final: SECRET raw")
    script.finish(
        "三十天内（依据：《报销办法》）", output={"answer": "三十天内", "source": None}, verdicts=("quote_verified",)
    )
    return script


def failed() -> Script:
    """A run that reaches its step limit."""
    script = Script("loop")
    tool_round(script, "search_docs", {"query": "x"}, {"hits": []})
    script.add(RunFailed("step_limit", 422, script.put("The step limit was reached.")))
    return script


SCRIPTS = {
    run.__name__: run
    for run in (
        plain, two_tools, parallel, faulty, retried, cancelled, doubtful, settled, late, approved, gated, failed,
    )
}  # fmt: skip
