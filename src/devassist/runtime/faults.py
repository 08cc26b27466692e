"""Named points at which a process can be made to die; no-ops in production.

A test sets the hook and kills the process there; resuming must then give what the record promises.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS = (
    "after_init",  # the run is on record, and nobody was told
    "after_claim",  # taken over, nothing done yet
    "after_model_intent",
    "after_model_reply",  # in hand, not on record
    "after_tool_intent",
    "after_tool_effect",  # of each attempt: its outcome is in hand, not on record
    "after_wait",  # that the run waits is on record, its lease is still held
    "before_finish",
    "after_finish",
)
_hook: Callable[[str, bytes], None] | None = None


def set_hook(hook: Callable[[str, bytes], None] | None) -> None:
    """``hook(point, stream)`` is called at every point; None removes it."""
    global _hook
    _hook = hook


def point(name: str, stream: bytes) -> None:
    if _hook is not None:
        _hook(name, stream)
