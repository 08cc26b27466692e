"""What a store keeps beside a run's events: one pure function of its state; ``verify`` recomputes and compares it."""

from __future__ import annotations

from typing import NamedTuple

from devassist.core.run_state import RunState


class HeadFields(NamedTuple):
    """The derivable columns of a run's head. ``wake_at`` is 0 when nothing wakes it."""

    state: str
    driving: bool
    wake_at: int


def head_fields(state: RunState) -> HeadFields:
    """Of a run that has been claimed once; before that a store may keep ``driving`` false and any ``wake_at``."""
    return HeadFields(str(state.state), not state.closed, max(state.wake_at, 0))
