"""What a user gets of a final reply."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Released:
    """``output`` is the agent's JSON as text, or None; ``verdicts`` and ``degraded`` are codes; ``checks`` is the JSON
    text of what the citation check found, where one was made."""

    text: str
    output: str | None = None
    verdicts: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    checks: str | None = None
