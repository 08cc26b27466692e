"""The newest rows of the journal that this process wrote, so that its followers need not read them back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from devassist.ports.journal import Record

KEPT = 1024


class Ring:
    """Records of consecutive rows. A row of another process makes a gap: then it begins anew after the gap, and what
    it lacks is read from the database."""

    def __init__(self) -> None:
        self._rows: deque[Record] = deque(maxlen=KEPT)

    def add(self, records: Sequence[Record]) -> None:
        if self._rows and records[0].row != self._rows[-1].row + 1:
            self._rows.clear()
        self._rows.extend(records)

    def after(self, cursor: int, limit: int) -> list[Record]:
        """Up to ``limit`` records from row ``cursor + 1`` on; empty when that row is not here."""
        if not self._rows or not self._rows[0].row <= cursor + 1 <= self._rows[-1].row:
            return []
        start = cursor + 1 - self._rows[0].row
        return list(islice(self._rows, start, start + limit))
