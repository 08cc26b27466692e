"""Runs brought to where a call was asked for, is in doubt, or waits for approval."""

from __future__ import annotations

from typing import Any

from devassist.core.commands import Hold
from devassist.core.decide import decide
from devassist.core.holds import hold_digest
from devassist.core.signals import SettlementGiven
from tests.core.build import Script
from tests.core.simulate import ACTOR

MAIL = ("send_mail", {"to": "a"}, "once")
LOOK = ("search_docs", {"query": "a"}, "pure")
PUT = ("put", {"id": 1}, "idempotent")


def asked(*wanted: Any, **changes: Any) -> Script:
    script = Script("go", **changes)
    script.think()
    script.calls(*wanted)
    return script


def doubted(answer: str | None = None, **changes: Any) -> Script:
    """A once-call whose process died, and what a person says of it."""
    script = asked(MAIL, **changes)
    script.attempt()
    script.unknown()
    if answer is not None:
        command = decide(script.now)
        assert isinstance(command, Hold)
        script.held(command.call, command.reason, command.digest)
        script.add(SettlementGiven("s", ACTOR, command.digest, answer))
    return script


def waiting_for_approval(**changes: Any) -> tuple[Script, str]:
    script = asked(MAIL, **changes)
    script.attempt()
    script.returned(outcome="needs_approval", result=None)
    command = decide(script.now)
    assert command == Hold(0, "approval", hold_digest(script.now, 0))
    script.held(0, "approval", command.digest)
    return script, command.digest
