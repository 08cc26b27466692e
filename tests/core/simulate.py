"""Legal histories by chance: ``simulate`` walks ``decide`` as a driver would, against a world of random outcomes,
crashes and signals. What it appends is what could have been recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from devassist.core.commands import (
    Abort,
    CallModel,
    CallTools,
    CloseCall,
    Command,
    CutCall,
    CutModel,
    Fail,
    Finish,
    Hold,
    Switch,
    Wait,
)
from devassist.core.decide import decide
from devassist.core.event_parts import Limits
from devassist.core.events import (
    RETRY_2,
    RETRY_3,
    BreakerSeen,
    CallClosed,
    ModelFailed,
    ModelIntended,
    ModelSwitched,
    RunAborted,
    RunFailed,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.run_state import RunState
from devassist.core.signals import (
    ApprovalGiven,
    CancelRequested,
    ChildFinished,
    LateOutcome,
    RunRestored,
    SettlementGiven,
    TimerFired,
)
from devassist.core.states import State
from devassist.core.transitions import OVERFLOW
from tests.core.build import Script

MOST_EVENTS = 400
ACTOR = "00" * 16
EFFECTS = ("pure", "idempotent", "once")


@dataclass
class Walk:
    """A simulated run: its script, and every command with the state that it was decided in."""

    script: Script
    rng: Random
    crashes: float
    signals: float
    cancels: float
    epoch: int = 1
    signal: int = 0
    decided: list[tuple[RunState, Command | None]] = field(default_factory=list)

    @property
    def state(self) -> RunState:
        return self.script.now

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def add(self, event: Any) -> None:
        self.script.add(event, ms=self.rng.choice((0, 1, 10, 200)))

    def name(self) -> str:
        self.signal += 1
        return f"s{self.signal}"

    # -- what others append ---------------------------------------------------------------------------------------

    def noise(self) -> None:
        """Maybe a signal, mostly one that answers nothing."""
        if self.state.closed:
            return
        if self.chance(self.signals):
            self.add(self.stray())
        if self.chance(self.cancels):
            self.add(CancelRequested(self.name(), ACTOR))

    def stray(self) -> Any:
        rng, ref = self.rng, self.script.put("late")
        intents = [seq for event, seq, _ in self.script.placed if event.kind == "tool_intended"] or [0]
        return rng.choice((
            TimerFired(self.name(), rng.choice((0, self.state.at, self.state.wait_until))),
            ChildFinished(self.name(), ACTOR, "FINAL_ANSWER"),
            ApprovalGiven(self.name(), ACTOR, "no such digest", "approve"),
            SettlementGiven(self.name(), ACTOR, "no such digest", "abandon"),
            LateOutcome(self.name(), rng.choice(intents), "result", ref, ref),
            LateOutcome(self.name(), rng.choice(intents), "unknown", code="interrupted"),
            *([RunRestored(self.name(), 1, 2)] if self.chance(0.2) else []),
        ))  # fmt: skip

    def answer(self) -> None:
        """What a waiting run waits for."""
        state, rng = self.state, self.rng
        if state.state is State.WAIT:
            self.add(TimerFired(self.name(), state.wait_until))
            return
        held = next(c for c in state.calls if c.digest is not None and c.answer is None)
        assert held.digest is not None
        if held.phase == "doubt":
            outcome = rng.choice(("happened", "repeat", "abandon"))
            self.add(SettlementGiven(self.name(), ACTOR, held.digest, outcome, rng.choice((None, self.script.json(1)))))
        else:
            args = self.script.json({"edited": True}) if self.chance(0.3) else None
            decision = "approve" if self.chance(0.7) else "reject"
            self.add(ApprovalGiven(self.name(), ACTOR, held.digest, decision, args=args))

    # -- what the owner appends -----------------------------------------------------------------------------------

    def run(self) -> Walk:
        while len(self.script.placed) < MOST_EVENTS:
            self.noise()
            command = decide(self.state)
            self.decided.append((self.state, command))
            if command is not None:
                self.do(command)
            elif self.state.closed:
                return self
            else:
                if self.chance(0.2):
                    self.add(self.stray())
                    continue
                self.answer()
                self.epoch += 1
        raise AssertionError(f"not ended after {MOST_EVENTS} events")

    def do(self, command: Command) -> None:
        script, state = self.script, self.state
        match command:
            case CallModel() if state.started.flags and self.chance(0.1):
                self.decided.pop()  # not carried out
                self.add(BreakerSeen(state.choice, state.at + 50_000))
            case CallModel(step, attempt):
                added = tuple(dict.fromkeys(e.seq for e in state.transcript if e.seq > state.base))
                base = state.base if state.base >= 0 else None
                model = state.model or "m-1"
                intent = ModelIntended(step, attempt, model, "scripted", self.epoch, added, 100, base)
                self.add(replace(intent, choice=state.choice))
                self.effect(self.reply)
            case CallTools(calls):
                for call in calls:
                    self.intend(call)
                for call in self.rng.sample(calls, len(calls)):
                    self.effect(lambda call=call: self.outcome(call))
            case CutModel(of, code):
                self.add(ModelFailed(of, code, 503, True, 0))
            case CutCall(of, code):
                self.add(ToolReturned(of, "unknown", 0, shown=script.put("cut"), code=code))
            case CloseCall(call, closing, code):
                result = state.calls[call].answer_ref if closing == "happened" else None
                shown = result or script.put(closing)
                self.add(CallClosed(state.reply_seq, call, closing, shown, result, code))
            case Hold(call, reason, digest):
                script.held(call, reason, digest)
            case Wait(until, jitter, reason):
                self.add(WaitBegun(reason, until + self.rng.randrange(jitter + 1)))
            case Switch(choice, reason):
                self.add(ModelSwitched(f"m-{choice + 1}", "scripted", reason, choice))
            case Finish():
                script.finish()
            case Fail(code, status):
                self.add(RunFailed(code, status, script.put(code)))
            case Abort(reason):
                self.add(RunAborted(reason))

    def intend(self, call: int) -> None:
        state, c = self.state, self.state.calls[call]
        args = c.answer_ref if c.answer == "approve" and c.answer_ref else c.call.args
        self.add(
            ToolIntended(
                state.reply_seq, call, state.step, c.attempts + 1, c.call.tool, c.call.effect, args,
                state.at + 30_000_000, self.epoch,
            )
        )  # fmt: skip

    def effect(self, outcome: Any) -> None:
        """An effect ends by itself, or its process dies and another goes on."""
        self.noise()
        if self.chance(self.crashes):
            self.epoch += 1
        else:
            outcome()

    def reply(self) -> None:
        script, rng = self.script, self.rng
        kind = rng.choice(("final", "calls", "calls", "calls", "fault", "failed"))
        if kind == "final":
            script.final("Done.")
        elif kind == "calls":
            count = rng.choice((1, 1, 3))
            script.calls(*[(f"tool{rng.randrange(3)}", {"n": n}, rng.choice(EFFECTS)) for n in range(count)])
        elif kind == "fault":
            script.fault(rng.choice(("tool_not_found", "reply_empty", "content_filtered")), "Mend it.")
        else:
            code = rng.choice(("provider_error", "provider_error", OVERFLOW))
            again = code != OVERFLOW and self.chance(0.7)
            self.add(ModelFailed(self.state.open_model, code, 502, again, 5, retry_after=rng.choice((0, 9, 6_000_000))))

    def outcome(self, call: int) -> None:
        c = self.state.calls[call]
        if c.phase != "running":  # a late outcome came first
            return
        kind = self.rng.choice(("result", "result", "retry", "failed", "unknown", "needs_approval", "fault"))
        ref = self.script.put("shown") if kind not in ("fault", "unknown") else None
        self.add(ToolReturned(c.intent, kind, 1, shown=ref, code=kind, status=503 if kind == "fault" else 0))


def simulate(rng: Random, *, cancels: float = 0.02, **changes: Any) -> Walk:
    """A whole run, from INIT to its end."""
    limits = Limits(
        steps=rng.choice((1, 3, 6)), corrections=rng.choice((0, 2)), tokens=rng.choice((20, 10_000)),
        deadline_ms=rng.choice((300, 60_000)), cost=rng.choice((-1, 0, 50)),
    )  # fmt: skip
    start = {
        "limits": limits,
        "parallel": rng.random() < 0.5,
        "on_unknown": rng.choice(("hold", "tell")),
        **rng.choice(({}, {"flags": rng.choice(((RETRY_2,), (RETRY_2, RETRY_3))), "fallbacks": rng.choice((0, 0, 2))})),
    }
    script = Script("go", **(start | changes))
    return Walk(script, rng, rng.choice((0, 0.1, 0.3)), rng.choice((0, 0.1)), cancels).run()
