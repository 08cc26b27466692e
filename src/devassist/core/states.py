"""The states of a run and the one transition table (state x event kind -> state).

Docs, UI legend and the CHECK constraints of the stores come from this table. A signal never changes the state.
"""

from __future__ import annotations

from enum import StrEnum

from devassist.core.signals import SIGNALS


class State(StrEnum):
    """Summary of a run."""

    INIT = "INIT"
    LLM_DECIDE = "LLM_DECIDE"
    TOOL_EXECUTE = "TOOL_EXECUTE"
    AWAIT_APPROVAL = "AWAIT_APPROVAL"
    WAIT = "WAIT"
    FINAL_ANSWER = "FINAL_ANSWER"
    ERROR = "ERROR"
    ABORTED = "ABORTED"


CLOSED = frozenset({State.FINAL_ANSWER, State.ERROR, State.ABORTED})
OPEN = tuple(s for s in State if s not in CLOSED)

_I, _L, _T, _A, _W = State.INIT, State.LLM_DECIDE, State.TOOL_EXECUTE, State.AWAIT_APPROVAL, State.WAIT
_F, _E, _X = State.FINAL_ANSWER, State.ERROR, State.ABORTED

TABLE: dict[tuple[State, str], State] = {
    (_I, "model_intended"): _L,
    (_I, "breaker_seen"): _L,
    (_I, "run_failed"): _E,
    (_I, "run_aborted"): _X,
    (_L, "model_intended"): _L,
    (_L, "breaker_seen"): _L,
    (_L, "model_replied"): _L,
    (_L, "model_failed"): _L,
    (_L, "model_switched"): _L,
    (_L, "tool_intended"): _T,
    (_L, "call_closed"): _T,
    (_L, "held"): _A,
    (_L, "wait_begun"): _W,
    (_L, "run_finished"): _F,
    (_L, "run_failed"): _E,
    (_L, "run_aborted"): _X,
    (_T, "tool_intended"): _T,
    (_T, "tool_returned"): _T,
    (_T, "call_closed"): _T,
    (_T, "held"): _A,
    (_T, "wait_begun"): _W,
    (_T, "model_intended"): _L,
    (_T, "breaker_seen"): _L,
    (_T, "run_failed"): _E,
    (_T, "run_aborted"): _X,
    (_A, "model_intended"): _L,
    (_A, "breaker_seen"): _L,
    (_A, "tool_intended"): _T,
    (_A, "call_closed"): _T,
    (_A, "held"): _A,
    (_A, "wait_begun"): _W,
    (_A, "run_failed"): _E,
    (_A, "run_aborted"): _X,
    (_W, "model_intended"): _L,
    (_W, "breaker_seen"): _L,
    (_W, "model_switched"): _L,
    (_W, "tool_intended"): _T,
    (_W, "call_closed"): _T,
    (_W, "run_failed"): _E,
    (_W, "run_aborted"): _X,
} | {(state, kind): state for state in OPEN for kind in SIGNALS}

STATUS: dict[State, str] = {
    _I: "waiting",
    _L: "running",
    _T: "running",
    _A: "awaiting_approval",
    _W: "waiting",
    _F: "succeeded",
    _E: "failed",
    _X: "cancelled",
}
"""How a state reads outside. A run in INIT that is being driven already reads ``running``."""
