"""Signals and facts: the events that others than a run's driver write.

A signal is appended to an open run by anyone authorised, unique by ``signal_id``; it never changes the run's state. A
fact stands in a stream of its own, which is no run. Field rules are those of ``core.events``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from devassist.core.event_parts import Outcome, Ref


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Signal: someone asks that the run end."""

    kind: ClassVar[str] = "cancel_requested"
    version: ClassVar[int] = 1
    signal_id: str
    actor: str


@dataclass(frozen=True, slots=True)
class ApprovalGiven:
    """Signal: a person decides on the call with ``digest``; ``args`` replaces its arguments when given, and
    ``new_digest`` is what the call then is known by."""

    kind: ClassVar[str] = "approval_given"
    version: ClassVar[int] = 1
    signal_id: str
    actor: str
    digest: str
    decision: Literal["approve", "reject"]
    note: Ref | None = None
    args: Ref | None = None
    new_digest: str | None = None


@dataclass(frozen=True, slots=True)
class SettlementGiven:
    """Signal: a person says what became of a call in doubt."""

    kind: ClassVar[str] = "settlement_given"
    version: ClassVar[int] = 1
    signal_id: str
    actor: str
    digest: str
    outcome: Literal["happened", "repeat", "abandon"]
    result: Ref | None = None
    note: Ref | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Signal: the time that a wait named has come."""

    kind: ClassVar[str] = "timer_fired"
    version: ClassVar[int] = 1
    signal_id: str
    until: int


@dataclass(frozen=True, slots=True)
class ChildFinished:
    """Signal: a child run ended."""

    kind: ClassVar[str] = "child_finished"
    version: ClassVar[int] = 1
    signal_id: str
    child: str
    state: str
    result: Ref | None = None


@dataclass(frozen=True, slots=True)
class LateOutcome:
    """Signal: what a superseded owner still had in hand; ``signal_id`` is call_id + attempt."""

    kind: ClassVar[str] = "late_outcome"
    version: ClassVar[int] = 2
    signal_id: str
    of: int
    outcome: Outcome
    result: Ref | None = None
    shown: Ref | None = None
    code: str | None = None
    retrieval: Ref | None = None


@dataclass(frozen=True, slots=True)
class RunRestored:
    """Signal: the journal was put back to an earlier state while the run was open. What it did between the two times is
    not on record, so a person decides on each of its ``once`` calls."""

    kind: ClassVar[str] = "run_restored"
    version: ClassVar[int] = 1
    signal_id: str
    window_from: int
    window_to: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of no run, in a stream of its own (access, deploy, knowledge, erasure, endpoint, conversation, notes).

    ``name`` says what happened, ``data`` holds ids, enums and numbers (strings only, so bodies stay flat)."""

    kind: ClassVar[str] = "fact"
    version: ClassVar[int] = 1
    name: str
    actor: str
    data: tuple[tuple[str, str], ...] = ()


Signal = CancelRequested | ApprovalGiven | SettlementGiven | TimerFired | ChildFinished | LateOutcome | RunRestored
SIGNAL_CLASSES: tuple[type[Any], ...] = (
    CancelRequested, ApprovalGiven, SettlementGiven, TimerFired, ChildFinished, LateOutcome, RunRestored,
)  # fmt: skip
SIGNALS: frozenset[str] = frozenset(cls.kind for cls in SIGNAL_CLASSES)
