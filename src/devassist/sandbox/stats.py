"""What a backend has counted since it was opened, for metrics. Whoever shows them adds the names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """``warm`` and ``cold``: programs that found a sandbox ready, or waited for one to be made. ``killed``: programs
    that did not end by themselves, of which ``timeouts`` for their time, ``floods`` for their output, ``oom`` for
    memory, ``cancelled`` because nobody wanted the result any more. ``leaks``: sandboxes that could not be removed.
    ``swept``: leftovers of dead processes, removed at start. ``waited_us``: time spent waiting for a turn."""

    warm: int = 0
    cold: int = 0
    killed: int = 0
    timeouts: int = 0
    floods: int = 0
    oom: int = 0
    cancelled: int = 0
    leaks: int = 0
    swept: int = 0
    waited_us: int = 0
