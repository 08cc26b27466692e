"""Ports to what a journal is and where it stands, and to what is remembered of both apart from it."""

from __future__ import annotations

from typing import Protocol

from devassist.core.lineage import Place, Rewind


class Lineage(Protocol):
    """The journal's side."""

    async def place(self) -> Place: ...

    async def hash_at(self, row: int) -> str | None:
        """The hash of the event in a row, None where there is none."""
        ...

    async def rewind(self) -> Rewind | None:
        """The rewind that no person has gone on from yet."""
        ...

    async def mark(self, rewind: Rewind) -> Rewind:
        """Record a rewind and give the journal its incarnation; the one recorded before stays, and is returned, unless
        that is of a mere copy."""
        ...

    async def clear(self) -> None:
        """A person goes on. Idempotent."""
        ...


class Positions(Protocol):
    """The side apart from the journal."""

    async def read(self) -> Place | None:
        """What was written last, None where nothing was. Raises Unavailable for what cannot be read."""
        ...

    async def write(self, place: Place) -> None:
        """A crash leaves this one or one written before. Raises Unavailable."""
        ...
