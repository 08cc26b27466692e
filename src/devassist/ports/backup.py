"""Port to a data directory's files as a whole: a copy of them while they are in use, and putting one back.

A backup is the truth only: the journal, and knowledge where there is some. What is derived from it is made again, and
keys are never part of it: who has both can read all.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from devassist.core.lineage import Place, Rewind


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds. ``files`` maps names to (SHA-256, bytes); ``generation`` is that of its event kinds."""

    product: str
    generation: int
    place: Place
    made_at: int
    runs: int
    open_runs: int
    files: dict[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Staged:
    """A backup's files, checked and copied beside the place where they will stand."""

    manifest: Manifest
    journal: Path


class LostRun(NamedTuple):
    """A run that the journal to be replaced has and the backup has not. ``idem``: the digest of route and
    Idempotency-Key, base64url, which is all that is stored of them."""

    trace_id: str
    state: str
    idem: str | None


class Later(NamedTuple):
    """What the journal to be replaced says of a run that was open at the backup: its state there, and the ``once``
    calls that it made since, as (tool, time, outcome or None)."""

    state: str
    once: tuple[tuple[str, int, str | None], ...]


@dataclass(frozen=True, slots=True)
class Present:
    """The journal that a restore replaces, read beside the staged one. ``readable`` is false where there is none, or
    none that can be read: then nothing is known of the window."""

    readable: bool
    place: Place | None = None
    lost: tuple[LostRun, ...] = ()
    later: dict[str, Later] | None = None


class Backups(Protocol):
    """One data directory and its keys."""

    async def take(self, target: Path) -> Manifest:
        """Copy to a directory that is new or empty, also while a server writes: one moment's state. Durable when the
        call returns; one that was cut off has no manifest. Raises InvalidRequest for a place within the data or the
        keys, Conflict, Unavailable, JournalCorrupt."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """The directory is not driven by anybody else. Raises DataDirInUse naming who drives it."""
        ...

    async def remembered(self) -> Place | None:
        """Where the journal was last seen to stand."""
        ...

    async def stage(self, source: Path) -> Staged:
        """Check a backup and copy it beside its place. Raises InvalidRequest for what is no backup of this product,
        JournalCorrupt for one whose files are not those that were made."""
        ...

    async def discard(self, staged: Staged) -> None: ...

    async def present(self, staged: Staged) -> Present: ...

    async def swap(self, staged: Staged, rewind: Rewind) -> Path | None:
        """Mark the staged journal, move the present files aside and put the staged ones in their place; what is derived
        is removed. Returns where the old files are, None where there were none. Needs the lock."""
        ...

    async def clear_derived(self) -> None:
        """Remove what is made from the journal: it is made again at the next start. Needs the lock."""
        ...

    async def report(self, report: dict[str, Any]) -> Path:
        """Keep a restore's report in the data directory."""
        ...

    async def peek(self) -> Rewind | None:
        """Whether a start would be held, without leaving a mark."""
        ...
