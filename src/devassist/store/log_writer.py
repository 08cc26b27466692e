"""The writing side of log.db: from batches of journal records to rows, on one thread.

A batch is written in two moves, ``draft`` (which texts and names are needed?) and ``write`` (one transaction, the
cursor in it). Streams under way are carried from batch to batch: where they stand, and which texts stand already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devassist.core.chain import PUBLIC_DOMAIN
from devassist.core.events import TERMINAL
from devassist.ports.journal import Head, Record
from devassist.ports.vault import DomainName
from devassist.store.database import Database, connect, immediate
from devassist.store.log_draft import (
    Carried,
    Draft,
    body_of,
    carry,
    cut,
    drafted,
    erased_by,
    owner_of,
    owners,
    row_of,
    short,
)
from devassist.store.log_references import Mention, link, mentions, number
from devassist.store.sql_files import script, statements

SQL = statements("log.sql")
VERSION = 3
"""Of log_schema.sql."""
CARRIED = 5_000
"""How many streams are carried; beyond it the oldest are read anew from the journal when they move again."""
SLICE = 2000
"""Texts per transaction of the full-text index."""

Texts = Mapping[bytes, Mapping[str, str]]
Names = Mapping[bytes, DomainName | None]


class LogWriter:
    """All methods are for one thread, only ``unknown`` may be
    called between two of them from another. They raise apsw.Error; then nothing was written."""

    def __init__(self, path: Path) -> None:
        # NORMAL waits for the disk at checkpoints only, and a power cut leaves a log that is behind, not a broken one.
        self._db: Database = connect(path, journal_mode="WAL", synchronous="NORMAL", secure_delete="ON")
        _prepare(self._db)
        self._carried: dict[bytes, Carried] = {}
        self._domains: dict[bytes, int] = {}
        self.position = self.generation = self._last_run = self._last_text = 0
        self.unscrubbed = True  # a crash may have come between an erasure and its checkpoint
        self.backlog = 0
        """How many texts are not in the full-text index yet."""
        self.reset()

    def close(self) -> None:
        self._db.close()

    def reset(self) -> None:
        """Forget what is carried and start from what is stored: a batch failed, or another process wrote."""
        self._carried.clear()
        self._domains.clear()
        self.position, self.generation, indexed = self._one("cursor")
        (self._last_run,), (self._last_text,) = self._one("last_run"), self._one("last_text")
        self.backlog = self._last_text - indexed

    # -- batches -------------------------------------------------------------------------------------------------

    def unknown(self, records: Sequence[Record]) -> dict[bytes, Record]:
        """The first record of each stream that is not carried."""
        found: dict[bytes, Record] = {}
        for record in records:
            if record.stream not in self._carried and record.stream not in found:
                found[record.stream] = record
        return found

    def draft(
        self, records: Sequence[Record], past: Mapping[bytes, Sequence[Record]], heads: Mapping[bytes, Head]
    ) -> Draft:
        """Rows of ``records``, which follow ``position``. ``past``: what stands before them in unknown streams;
        ``heads``: of unknown streams that are no run. A draft that is not written needs a ``reset``."""
        draft = Draft(self.position, records[-1].row)
        domains: set[bytes] = set()
        for stream, before in past.items():
            self._take_up(stream, before, heads.get(stream))
        for record in records:
            carried = self._carried.get(record.stream)
            if carried is None:
                carried = self._take_up(record.stream, (record,), heads.get(record.stream), applied=False)
            body = body_of(record)
            made = drafted(record, body, carried)
            draft.rows.append(made)
            known = carried.texts
            named = (made.row.input, made.row.output, made.row.message)
            missing = [ref for ref in named if ref is not None and ref not in known]
            if made.clauses is not None:
                missing.append(made.clauses)
            if missing:
                draft.wanted.setdefault(record.stream, []).extend(missing)
            if carried.id == 0:
                domains.update(owners(carried.context))
            if carried.kind == "erasure":
                draft.erased += erased_by(body)
        draft.domains = frozenset(domains - self._domains.keys())
        return draft

    def write(self, draft: Draft, texts: Texts, names: Names) -> bool:
        """Write the batch; false when another process has moved the cursor meanwhile: draft again."""
        last_text = self._last_text
        with immediate(self._db):
            moved = self._one("cursor")[:2] != (draft.start, self.generation)
            if not moved:
                self._insert(draft, texts, names)
                for domain in draft.erased:
                    self._erase(domain)
                self._db.execute(SQL["move"], (draft.end,))
        if moved:
            self.reset()
            return False
        self.position = draft.end
        self.backlog += self._last_text - last_text
        for _, record, _, _, _ in draft.rows:
            if record.kind in TERMINAL:
                self._carried.pop(record.stream, None)
        while len(self._carried) > CARRIED:
            del self._carried[next(iter(self._carried))]
        if len(self._domains) > 10 * CARRIED:
            self._domains.clear()
        if draft.erased:
            self.scrub()
        return True

    def _take_up(self, stream: bytes, records: Sequence[Record], head: Head | None, *, applied: bool = True) -> Carried:
        """Carry a stream: ``records`` begin it and are applied, unless they are still to be written."""
        carried = self._carried[stream] = carry(records, head)
        found = self._one("find_run", stream)
        stored: dict[int, int] = {}
        if found:
            carried.id = found[0]
            stored.update((ref, id_) for ref, id_ in self._db.execute(SQL["texts_of"], found))
        for record in records if applied else ():
            row, carried.context = row_of(record, body_of(record), carried.context)
            for ref in (row.input, row.output, row.message):
                if ref is not None and (place := stored.get(short(ref))) is not None:
                    carried.texts[ref] = place
        return carried

    def _insert(self, draft: Draft, texts: Texts, names: Names) -> None:
        rows: list[tuple[Any, ...]] = []
        fresh: list[tuple[int, int, int, str]] = []
        none: Mapping[str, str] = {}
        for carried, record, row, extra, clauses in draft.rows:
            if carried.id == 0:
                self._insert_run(carried, record.stream, names)
            known, given = carried.texts, texts.get(record.stream, none)
            if clauses is not None and (text := given.get(clauses)) is not None:
                self._refer(carried.id, record.seq, mentions(record.kind, text))
            for ref in (row.input, row.output, row.message):
                if ref is not None and ref not in known and (text := given.get(ref)) is not None:
                    self._last_text += 1
                    known[ref] = self._last_text
                    fresh.append((self._last_text, carried.id, short(ref), cut(text)))
            rows.append((
                carried.id, record.seq, record.at, row.kind, row.step, row.state, row.tool_name,
                known.get(row.input or ""), known.get(row.output or ""), known.get(row.message or ""), row.error_code,
                row.degraded, row.duration_ms, extra, record.hash,
            ))  # fmt: skip
        self._db.executemany(SQL["insert_text"], fresh)
        self._db.executemany(SQL["insert_row"], rows)

    def _refer(self, run: int, seq: int, found: Sequence[Mention]) -> None:
        for one in found:
            known = self._one("find_clause", one.rev_id, one.clause_id)
            key = known[0] if known else link(number(self._one("last_clause")[0] or b"") + 1)
            if not known:
                self._db.execute(SQL["insert_clause"], (key, one.doc_id, one.rev_id, one.clause_id))
            self._db.execute(SQL["insert_reference"], (run, seq, key, one.used, one.rank))

    def _insert_run(self, carried: Carried, stream: bytes, names: Names) -> None:
        self._last_run += 1
        carried.id = self._last_run
        context = carried.context
        domain, actor = (self._domain_id(owner_of(text), names) for text in (context.domain, context.actor))
        self._db.execute(SQL["insert_run"], (
            carried.id, stream, carried.kind, context.tenant, domain, actor, context.conversation or None,
            context.agent or None,
        ))  # fmt: skip

    def _domain_id(self, domain: bytes | None, names: Names) -> int | None:
        if domain is None:
            return None
        known = self._domains.get(domain)
        if known is None:
            found = self._one("find_domain", domain)
            if not found:
                name = names.get(domain)
                user = name.name if name is not None and name.kind == "user" else None
                found = self._one("insert_domain", domain, user, name is None and domain != PUBLIC_DOMAIN)
            known = self._domains[domain] = found[0]
        return known

    # -- erasure and upkeep --------------------------------------------------------------------------------------

    def erase(self, domain: bytes) -> None:
        """Blank the names and texts of a domain, in the tables and in the files. Idempotent."""
        with immediate(self._db):
            self._erase(domain)
        self.scrub()

    def _erase(self, domain: bytes) -> None:
        """``optimize`` rewrites the index without what was deleted; texts and names are overwritten in place."""
        if not self._one("find_live_domain", domain):
            return
        for name in ("erase_index", "erase_texts", "erase_references", "erase_name"):
            self._db.execute(SQL[name], (domain,))
        self._db.execute(SQL["optimize"])
        self.unscrubbed = True

    def scrub(self) -> None:
        """Bring what was erased out of the write-ahead log; ``unscrubbed`` stays true while a reader is in the way."""
        self.unscrubbed = bool(self._one("checkpoint")[0])

    def index(self) -> None:
        """Put the next slice of texts into the full-text index."""
        with immediate(self._db):
            indexed, last = self._one("cursor")[2], self._one("last_text")[0]
            upto = min(indexed + SLICE, last)
            if upto > indexed:
                self._db.execute(SQL["index_texts"], (indexed, upto))
                self._db.execute(SQL["move_indexed"], (upto,))
        self.backlog = last - upto

    def wipe(self) -> None:
        """Remove everything: the next batch begins at the journal's beginning."""
        with immediate(self._db):
            self._db.execute(SQL["wipe"])
        self.scrub()
        self.reset()

    def count(self) -> int:
        return self._one("count")[0]

    def _one(self, name: str, *values: Any) -> tuple[Any, ...]:
        return self._db.execute(SQL[name], values).fetchone() or ()


def _prepare(db: Database) -> None:
    """Make the tables. What another build made lacks columns: it is dropped, and derived again from the journal."""
    if _version(db) == VERSION:
        return
    with immediate(db):
        if _version(db) == VERSION:  # by another process, meanwhile
            return
        made: list[tuple[str, str]] = [(kind, name) for kind, name in db.execute(SQL["made"]).fetchall()]
        names = {name for _, name in made}
        past = db.execute(SQL["old_generation"]).fetchone() if "cursor" in names else None
        for kind, name in made:
            db.execute(f'DROP {kind} IF EXISTS "{name}"')
        db.execute(script("log_schema.sql"))
        if past is not None:
            # A process of the other build that still follows into this file has to see that it was begun anew.
            db.execute(SQL["set_generation"], (past[0] + 1,))


def _version(db: Database) -> int:
    return (db.execute(SQL["version"]).fetchone() or (0,))[0]
