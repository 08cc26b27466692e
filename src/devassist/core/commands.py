"""What ``decide`` can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from devassist.core.event_parts import Closing

JITTER_US = 262_140
"""Up to 0.26 s, so that waiters spread."""


@dataclass(frozen=True, slots=True)
class CallModel:
    """Make model attempt ``attempt`` for step ``step``."""

    step: int
    attempt: int


@dataclass(frozen=True, slots=True)
class CallTools:
    """Make an attempt of each of these calls (indices into the decision), together."""

    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CutModel:
    """The model attempt of seq ``of`` was cut off: record that it gave no reply."""

    of: int
    code: str


@dataclass(frozen=True, slots=True)
class CutCall:
    """The tool attempt of seq ``of`` was cut off: record that its outcome is unknown."""

    of: int
    code: str


@dataclass(frozen=True, slots=True)
class CloseCall:
    """End a call without a further attempt."""

    call: int
    closing: Closing
    code: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait for a person."""

    call: int
    reason: str
    digest: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a time, and up to ``jitter`` microseconds longer (drawn by the caller, and recorded)."""

    until: int
    jitter: int = JITTER_US
    reason: Literal["backoff", "breaker"] = "backoff"


@dataclass(frozen=True, slots=True)
class Switch:
    """The next attempts go to model ``choice`` (see ModelIntended); ``reason`` is the code of what led to it."""

    choice: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Release the final answer of the reply at ``of``."""

    of: int


@dataclass(frozen=True, slots=True)
class Fail:
    code: str
    status: int


@dataclass(frozen=True, slots=True)
class Abort:
    reason: str


Command = CallModel | CallTools | CutModel | CutCall | CloseCall | Hold | Wait | Switch | Finish | Fail | Abort
