"""The journal on SQLite, through apsw: WAL, ``synchronous=FULL``, one writer thread with group commit.

Implements the ports Journal, Heads, Feed and Inspector. Small reads by key run where they are asked for (tens of
microseconds on a WAL reader); long ones are cut into portions so that no read holds up the event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import apsw

from devassist.core.chain import PUBLIC_DOMAIN
from devassist.core.codec import unb64
from devassist.core.errors import JournalCorrupt, PayloadErased, PayloadMissing, RunNotFound, Unavailable
from devassist.core.ids import uuid7
from devassist.core.scope import Scope
from devassist.core.states import OPEN
from devassist.ports.journal import Append, Appended, Begun, Body, Head, HeadQuery, NewRun, Record, StreamKind
from devassist.ports.vault import Payload, Vault
from devassist.store import journal_ops as ops
from devassist.store.database import READING, Database, connect
from devassist.store.ring import Ring
from devassist.store.sql_files import script
from devassist.store.text_cache import TextCache
from devassist.store.writer import Writer

SQL = ops.SQL
PORTION = 500
MINIMUM_SQLITE = (3, 51, 3)
"""Before this version WAL could corrupt a file that two processes use (the WAL-reset bug)."""
_POLL_S = 0.25
_OPEN = frozenset(str(s) for s in OPEN)


def open_database(path: Path, **pragmas: str) -> Database:
    """A connection with the pragmas that the journal relies on. Raises Unavailable when the file cannot be used."""
    if tuple(int(p) for p in apsw.sqlite_lib_version().split(".")) < MINIMUM_SQLITE:
        raise Unavailable(f"SQLite {apsw.sqlite_lib_version()} is too old for WAL with several processes; need 3.51.3")
    try:
        return connect(path, journal_mode="WAL", synchronous="FULL", **pragmas)
    except apsw.Error as error:
        raise Unavailable(f"{path} cannot be opened: {type(error).__name__}: {error}") from None


class SqliteJournal:
    """Open with ``await SqliteJournal.open(path, vault)``; ``close`` when done."""

    def __init__(self, path: Path, vault: Vault) -> None:
        self.path = path
        self._vault = vault
        self._changed = asyncio.Event()
        self._texts = TextCache()
        self._ring = Ring()
        db = open_database(path)
        db.execute(script("journal_schema.sql"))
        self._reader = open_database(path, **READING)
        self._writer = Writer(db, self._committed)

    @classmethod
    async def open(cls, path: Path, vault: Vault) -> SqliteJournal:
        """Raises Unavailable when the file cannot be used."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(path, vault)

    async def close(self) -> None:
        """Finish queued writes and fold the WAL into the file. Idempotent."""
        await self._writer.close()
        self._reader.close()

    def _committed(self, results: list[Any]) -> None:
        for result in results:
            if isinstance(result, ops.Written) and result.records:
                self._ring.add(result.records)
        self._changed.set()
        self._changed = asyncio.Event()

    # -- Journal -------------------------------------------------------------------------------------------------

    async def begin(self, scope: Scope, run: NewRun) -> Begun:
        ops.check_kinds((run.body,))
        fresh = self._unstored(run.payloads)
        begun: Begun = (await self._writer.submit(lambda c: ops.begin(c, scope, run, fresh))).value
        if begun.created:
            self._remember(fresh)
        return begun

    async def append(self, scope: Scope, append: Append) -> Appended:
        ops.check_kinds(append.bodies)
        fresh = self._unstored(append.payloads)
        done: Appended = (await self._writer.submit(lambda c: ops.append(c, scope, append, fresh))).value
        self._remember(fresh)
        return done

    async def signal(
        self, scope: Scope, stream: bytes, signal_id: str, body: Body, at: int, payloads: Sequence[Payload] = ()
    ) -> int | None:
        ops.check_kinds((body,))
        written = await self._writer.submit(lambda c: ops.signal(c, scope, stream, signal_id, body, at, payloads))
        return written.value

    async def note(
        self,
        scope: Scope,
        kind: StreamKind,
        name: str,
        bodies: Sequence[Body],
        at: int,
        payloads: Sequence[Payload] = (),
    ) -> Appended:
        ops.check_kinds(bodies)
        new_id = uuid7(at, os.urandom(10))
        tenant = scope.tenant
        written = await self._writer.submit(lambda c: ops.note(c, tenant, new_id, kind, name, bodies, at, payloads))
        return written.value

    async def read(self, scope: Scope, stream: bytes, after: int = -1, limit: int = 0) -> list[Record]:
        if after < 0 or not scope.is_system:
            await self.head(scope, stream)
        rows: list[Record] = []
        while True:
            portion = min(PORTION, limit - len(rows)) if limit else PORTION
            more = [Record(*r) for r in self._reader.execute(SQL["read"], (stream, after, portion))]
            rows += more
            if len(more) < portion or (limit and len(rows) >= limit):
                return rows
            after = more[-1].seq
            await asyncio.sleep(0)

    async def payloads(self, scope: Scope, stream: bytes, refs: Sequence[str]) -> dict[str, str]:
        if not scope.is_system:
            await self._named(scope, stream, refs)
        texts: dict[str, str] = {}
        stored: list[tuple[str, Payload]] = []
        domains: set[bytes] = set()
        for ref in refs:
            raw = unb64(ref)
            known = self._texts.get(raw)
            if known is not None:
                domains.add(known[0])
                texts[ref] = known[1]
                continue
            row = self._reader.execute(SQL["payload"], (raw,)).fetchone()
            if row is None:
                raise PayloadMissing(f"payload {ref} of stream {stream.hex()} is not stored")
            stored.append((ref, Payload(*row)))
            domains.add(row[1])
        domains.discard(PUBLIC_DOMAIN)
        names = await self._vault.load(frozenset(domains)) if domains else {}
        for domain in domains:
            if names[domain] is None:  # a cached text is as gone as its key is
                self._texts.drop(domain)
                raise PayloadErased(f"stream {stream.hex()}: the key of domain {domain.hex()} was destroyed")
        for ref, payload in stored:
            texts[ref] = text = self._vault.open(payload)
            self._texts.put(payload.ref, payload.domain, text)
        return texts

    async def _named(self, scope: Scope, stream: bytes, refs: Sequence[str]) -> None:
        """Only references that the stream's own events name can be read through it."""
        bodies = b"\n".join(r.body for r in await self.read(scope, stream))
        for ref in refs:
            if ref.encode() not in bodies:
                raise PayloadMissing(f"payload {ref} is not of stream {stream.hex()}")

    def forget(self, domain: bytes | None = None) -> None:
        """Drop cached texts of an erased domain."""
        self._texts.drop(domain)

    def _unstored(self, payloads: tuple[Payload, ...]) -> tuple[Payload, ...]:
        """Without those whose texts are cached, which are stored: they are cached only once their append committed."""
        return tuple([p for p in payloads if p.ref not in self._texts])

    def _remember(self, payloads: tuple[Payload, ...]) -> None:
        for p in payloads:
            if p.text is not None:
                self._texts.put(p.ref, p.domain, p.text)

    # -- Heads ---------------------------------------------------------------------------------------------------

    async def head(self, scope: Scope, stream: bytes, owner: bytes | None = None) -> Head:
        if owner is None:
            row = self._reader.execute(SQL["head"], (stream,)).fetchone()
        else:
            row = self._reader.execute(SQL["own_head"], (stream, owner)).fetchone()
        if row is None or (row[1] != scope.tenant and not scope.is_system):
            raise RunNotFound(f"no run {stream.hex()}")
        return ops.head_of(row)

    async def named(self, scope: Scope, kind: StreamKind, name: str) -> Head | None:
        row = self._reader.execute(SQL["named_head"], (scope.tenant, kind, name)).fetchone()
        return None if row is None else ops.head_of(row)

    async def streams(self, scope: Scope, kind: StreamKind) -> list[Head]:
        rows = self._reader.execute(SQL["named_of"], (kind, scope.is_system, scope.tenant))
        return [ops.head_of(row) for row in rows]

    async def list(self, scope: Scope, query: HeadQuery) -> list[Head]:
        where = ["kind = 'run'"]
        values: list[object] = []
        conditions: list[tuple[str, object]] = [
            ("tenant = ?", None if scope.is_system else scope.tenant),
            ("actor = ?", query.actor),
            ("conversation = ?", query.conversation),
            ("stream < ?", query.before),
            ("stream >= ?", query.since),
        ]
        for clause, value in conditions:
            if value is not None:
                where.append(clause)
                values.append(value)
        if query.states:
            where.append(f"state IN ({', '.join('?' * len(query.states))})")
            values += query.states
            if _OPEN.issuperset(query.states):
                where.append(ops.OPEN_SQL)  # in the words of the partial index, so that it is used
        if query.roots_only:
            where.append("root = stream")
        sql = f"SELECT * FROM heads WHERE {' AND '.join(where)} ORDER BY stream DESC LIMIT ?"
        return [ops.head_of(r) for r in self._reader.execute(sql, (*values, query.limit))]

    async def claim(
        self, scope: Scope, stream: bytes, now: int, lease_until: int, *, aside: bool = False
    ) -> int | None:
        return await self._writer.submit(lambda c: ops.claim(c, scope, stream, now, lease_until, aside=aside))

    async def renew(self, scope: Scope, leases: Sequence[tuple[bytes, int]], lease_until: int) -> list[bytes]:
        return await self._writer.submit(lambda c: ops.renew(c, leases, lease_until)) if leases else []

    async def release(self, scope: Scope, leases: Sequence[tuple[bytes, int]]) -> None:
        if leases:
            await self._writer.submit(lambda c: ops.release(c, leases))

    async def due(self, scope: Scope, now: int, limit: int = 100) -> list[Head]:
        return [ops.head_of(r) for r in self._reader.execute(SQL["due"], {"now": now, "limit": limit})]

    async def reclaim(self, scope: Scope) -> int:
        return await self._writer.submit(ops.reclaim)

    # -- Feed ----------------------------------------------------------------------------------------------------

    async def changes(self, cursor: int, limit: int = PORTION) -> list[Record]:
        known = self._ring.after(cursor, limit)
        return known or [Record(*r) for r in self._reader.execute(SQL["changes"], (cursor, limit))]

    async def tip(self) -> int:
        row = self._reader.execute(SQL["tip"]).fetchone()
        return int(row[0]) if row else 0

    async def wait(self, cursor: int, timeout_s: float) -> bool:
        end = monotonic() + timeout_s
        while True:
            changed = self._changed
            if await self.tip() > cursor:
                return True
            left = end - monotonic()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(min(left, _POLL_S)):
                    await changed.wait()
            except TimeoutError:
                continue

    # -- Inspector -----------------------------------------------------------------------------------------------

    async def raw_events(self, scope: Scope, stream: bytes) -> list[Record]:
        if not scope.is_system:
            await self.head(scope, stream)
        rows = self._reader.execute(SQL["raw_events"], (stream,))
        return [Record(s, seq, at, _raw_text(kind), body, link, row) for s, seq, at, kind, body, link, row in rows]

    async def raw_payload(self, scope: Scope, ref: str) -> Payload | None:
        try:
            row = self._reader.execute(SQL["payload"], (unb64(ref),)).fetchone()
        except JournalCorrupt:
            return None
        found = Payload(*row) if row else None
        if found is None or scope.is_system or found.domain == PUBLIC_DOMAIN:
            return found
        name = (await self._vault.load(frozenset({found.domain})))[found.domain]
        return found if name is not None and name.tenant == scope.tenant else None

    async def raw_signals(self, scope: Scope, stream: bytes) -> list[tuple[str, int]]:
        if not scope.is_system:
            await self.head(scope, stream)
        return [(_raw_text(name), seq) for name, seq in self._reader.execute(SQL["raw_signals"], (stream,))]


def _raw_text(stored: bytes | None) -> str:
    """Text as it stands, also where it is not UTF-8: verification names the row rather than failing at it."""
    return "" if stored is None else stored.decode("utf-8", "backslashreplace")
