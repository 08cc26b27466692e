"""Runs whose model fails, brought to where the next thing is decided."""

from __future__ import annotations

from typing import Any

from devassist.core.commands import Command, Switch, Wait
from devassist.core.decide import decide
from devassist.core.events import RETRY_2, ModelFailed, ModelIntended, ModelSwitched, WaitBegun
from devassist.core.signals import TimerFired
from tests.core.build import Script

RETRYABLE = ("provider_error", "provider_rate_limited", "provider_unreachable", "provider_timeout",
             "stream_interrupted", "stream_incomplete", "reply_unreadable", "reply_empty_choices")  # fmt: skip
FINAL = ("provider_auth_failed", "provider_quota_exhausted", "provider_rejected", "reply_too_large")


def begun(fallbacks: int = 0, **changes: Any) -> Script:
    return Script("go", **({"flags": (RETRY_2,)} | changes), fallbacks=fallbacks)


def intend(script: Script, **fields: Any) -> None:
    state = script.now
    step = state.step + (state.reply is not None or state.step < 0)
    model = state.model or "m-1"
    script.add(ModelIntended(step, state.attempts + 1, model, "openai", 1, (), fields.pop("tokens", 100),
                             choice=state.choice, **fields))  # fmt: skip


def failed(script: Script, code: str = "provider_error", **fields: Any) -> Command | None:
    """An attempt that fails, and what is decided then."""
    intend(script)
    error = {"status": 502, "retryable": code in RETRYABLE, "took": 1} | fields
    script.add(ModelFailed(script.now.open_model, code, **error))
    return decide(script.now)


def wait_out(script: Script, command: Command | None) -> Wait:
    """Do as ``command``, a wait, says."""
    assert isinstance(command, Wait), command
    script.add(WaitBegun(command.reason, command.until), ms=0)
    assert decide(script.now) is None
    left_ms = -(-(command.until - script.now.at) // 1000)
    script.add(TimerFired(f"t{script.now.seq}", command.until), ms=left_ms)
    return command


def switch(script: Script, command: Command | None) -> Switch:
    assert isinstance(command, Switch), command
    script.add(ModelSwitched(f"m-{command.choice + 1}", "openai", command.reason, command.choice))
    assert script.now.choice == command.choice
    return command
