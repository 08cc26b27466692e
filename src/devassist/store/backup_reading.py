"""Journals read from outside: what the one that a restore replaces has beyond the backup (runs that are lost, and what
became of the others), and whether a start on one would be held."""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from devassist.core.codec import b64
from devassist.core.errors import DevAssistError
from devassist.core.lineage import Place, Rewind, noticed
from devassist.ports.backup import Later, LostRun, Present
from devassist.store.database import Database, connect
from devassist.store.position import hash_in, place_of, rewind_of
from devassist.store.sql_files import statements

SQL = statements("backup.sql")


def compare(journal: Path, staged: Path) -> Present:
    """Never raises for what the old journal holds: it may be the reason for the restore."""
    if not journal.exists():
        return Present(readable=False)
    try:
        db = connect(journal)
        try:
            db.execute(SQL["attach"], (str(staged),)).fetchall()
            place = place_of(db)
            lost = tuple(
                LostRun(stream.hex(), state, None if idem is None else b64(idem))
                for stream, state, idem in db.execute(SQL["lost"])
            )
            later = {
                stream.hex(): Later(state, _once(db, stream, seq))
                for stream, state, seq in db.execute(SQL["later"]).fetchall()
            }
        finally:
            db.close()
    except (apsw.Error, DevAssistError, ValueError, TypeError, AttributeError):
        return Present(readable=False)
    return Present(readable=True, place=place, lost=lost, later=later)


def _once(db: Database, stream: bytes, after: int) -> tuple[tuple[str, int, str | None], ...]:
    """The ``once`` calls of a run after a seq, with what came of each."""
    made: dict[int, tuple[str, int, str | None]] = {}
    for seq, at, kind, body in db.execute(SQL["since"], (stream, after)):
        event = json.loads(body)
        if kind == "tool_intended":
            if event.get("effect") == "once":
                made[seq] = (str(event.get("tool")), at, None)
        elif event.get("of") in made:
            tool, begun, _ = made[event["of"]]
            made[event["of"]] = (tool, begun, str(event.get("outcome")))
    return tuple(made.values())


def peek(journal: Path, remembered: Place | None, now: int) -> Rewind | None:
    """What a start would find, without leaving a mark."""
    mark, place, there = None, Place("", 0, -1, ""), None
    if journal.exists():
        db = connect(journal)
        try:
            mark, place = rewind_of(db), place_of(db)
            there = hash_in(db, remembered.row) if remembered is not None else None
        except apsw.SQLError:  # a file without the schema: as good as none
            pass
        finally:
            db.close()
    return noticed(mark, remembered, place, there, now=now, fresh="")
