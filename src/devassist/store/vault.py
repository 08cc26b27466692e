"""Vaults: keys and names of erasure domains, in a SQLite file of their own or in memory.

``seal`` and ``open`` compute on cached keys. A key that the bounded cache has dropped meanwhile is read again where it
is needed (tens of microseconds), so "erased" is only ever said of a key that is gone.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import time_ns
from typing import TypeVar

import apsw

from devassist.core.chain import PUBLIC_DOMAIN
from devassist.core.codec import b64
from devassist.core.errors import PayloadErased, Unavailable
from devassist.core.scope import Scope
from devassist.ports.vault import DomainKind, DomainName, Payload
from devassist.store.database import immediate
from devassist.store.key_file import connect_keys, guarded, prepare
from devassist.store.sealing import DOMAIN_BYTES, KEY_BYTES, Sealer, open_public, seal_public
from devassist.store.sql_files import script, statements

SQL = statements("keys.sql")
CACHED = 10_000
"""How many domains' keys and names a vault keeps in memory."""
REMEMBERED, REMEMBERED_CHARS = 500, 2000
"""Sealed texts that are kept in memory: definitions, and what runs of one domain repeat, are sealed once."""

T = TypeVar("T")


class _Cache:
    """LRU of domain -> (sealer, name), and back. ``stamp`` moves with every drop: what was read before is stale."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._known: OrderedDict[bytes, tuple[Sealer, DomainName]] = OrderedDict()
        self._ids: dict[DomainName, bytes] = {}
        self.stamp = 0

    def get(self, domain: bytes) -> tuple[Sealer, DomainName] | None:
        with self._lock:
            found = self._known.get(domain)
            if found is not None:
                self._known.move_to_end(domain)
            return found

    def id_of(self, name: DomainName) -> bytes | None:
        return self._ids.get(name)

    def put(self, domain: bytes, key: bytes, name: DomainName, stamp: int) -> tuple[Sealer, DomainName]:
        entry = (Sealer(domain, key), name)
        with self._lock:
            if stamp == self.stamp:
                self._known[domain] = entry
                self._ids[name] = domain
                if len(self._known) > self._limit:
                    _, (_, old) = self._known.popitem(last=False)
                    self._ids.pop(old, None)
        return entry

    def drop(self, domain: bytes | None) -> None:
        with self._lock:
            self.stamp += 1
            if domain is None:
                self._known.clear()
                self._ids.clear()
            elif (found := self._known.pop(domain, None)) is not None:
                self._ids.pop(found[1], None)


class _Sealing:
    """What both vaults share. ``row`` reads a domain's name and key, None when they are gone."""

    def __init__(self, row: Callable[[bytes], tuple[DomainName, bytes] | None], cached: int) -> None:
        self._cache = _Cache(cached)
        self._row = row
        self._sealed: OrderedDict[tuple[bytes, str], Payload] = OrderedDict()

    def seal(self, domain: bytes, text: str) -> Payload:
        """Raises PayloadErased, and NotCanonical or TooLarge for a text that cannot be stored."""
        key = (domain, text)
        known = self._sealed.get(key)
        if known is not None:
            return known
        if domain == PUBLIC_DOMAIN:
            payload = seal_public(text)
        else:
            entry = self._entry(domain)
            if entry is None:
                raise PayloadErased(f"domain {domain.hex()} has no key: it was erased or never was")
            payload = entry[0].seal(text)
        if len(text) <= REMEMBERED_CHARS:
            self._sealed[key] = payload
            if len(self._sealed) > REMEMBERED:
                self._sealed.popitem(last=False)
        return payload

    def open(self, payload: Payload) -> str:
        """Raises PayloadErased, or JournalCorrupt naming the reference."""
        if payload.domain == PUBLIC_DOMAIN:
            return open_public(payload)
        entry = self._entry(payload.domain)
        if entry is None:
            raise PayloadErased(f"payload {b64(payload.ref)}: the key of domain {payload.domain.hex()} was destroyed")
        return entry[0].open(payload)

    def forget(self, domain: bytes | None = None) -> None:
        """Drop cached keys and names (of one domain, or all)."""
        self._cache.drop(domain)
        kept = [] if domain is None else [(k, v) for k, v in self._sealed.items() if k[0] != domain]
        self._sealed = OrderedDict(kept)

    def _entry(self, domain: bytes) -> tuple[Sealer, DomainName] | None:
        found = self._cache.get(domain)
        if found is not None:
            return found
        stamp = self._cache.stamp
        row = self._row(domain)
        return None if row is None else self._cache.put(domain, row[1], row[0], stamp)

    def _names(self, domains: frozenset[bytes]) -> dict[bytes, DomainName | None]:
        """The names of domains, their keys cached on the way."""
        entries = {domain: self._entry(domain) for domain in domains}
        return {domain: None if entry is None else entry[1] for domain, entry in entries.items()}


class MemoryVault(_Sealing):
    """Keys that end with the process."""

    def __init__(self, cached: int = CACHED) -> None:
        self._rows: dict[bytes, tuple[DomainName, bytes]] = {}
        self._ids: dict[DomainName, bytes] = {}
        self._destroyed: dict[bytes, str] = {}
        super().__init__(self._rows.get, cached)

    async def domain(self, scope: Scope, kind: DomainKind, name: str) -> bytes:
        who = DomainName(scope.tenant, kind, name)
        found = self._ids.get(who)
        if found is None:
            found = self._ids[who] = os.urandom(DOMAIN_BYTES)
            self._rows[found] = (who, os.urandom(KEY_BYTES))
        return found

    async def find(self, scope: Scope, kind: DomainKind, name: str) -> bytes | None:
        return self._ids.get(DomainName(scope.tenant, kind, name))

    async def load(self, domains: frozenset[bytes]) -> dict[bytes, DomainName | None]:
        return self._names(domains)

    async def destroy(self, scope: Scope, domain: bytes) -> None:
        row = self._rows.get(domain)
        if row is not None and (scope.is_system or row[0].tenant == scope.tenant):
            del self._rows[domain], self._ids[row[0]]
            self._destroyed[domain] = row[0].tenant
            self.forget(domain)

    async def destroyed(self) -> dict[bytes, str]:
        return dict(self._destroyed)


class FileVault(_Sealing):
    """Keys in ``keys.db`` of ``keys_dir``, which is made with rights 0700. ``await close()`` when done.

    Several processes may use one directory; ``forget`` what another one destroyed.
    """

    def __init__(self, keys_dir: Path, cached: int = CACHED) -> None:
        """Raises Unavailable when the directory or file cannot be used."""
        super().__init__(lambda domain: guarded(lambda: self._read(domain)), cached)
        self._reading = Lock()
        try:
            self.path = prepare(keys_dir)
            self._writer = connect_keys(self.path)
            self._writer.execute(script("keys_schema.sql"))
            self._reader = connect_keys(self.path)
        except (apsw.Error, OSError) as error:
            raise Unavailable(f"the key store {keys_dir} cannot be used: {type(error).__name__}: {error}") from None
        self._pool = ThreadPoolExecutor(1, "devassist-vault")

    async def domain(self, scope: Scope, kind: DomainKind, name: str) -> bytes:
        who = DomainName(scope.tenant, kind, name)
        return self._cache.id_of(who) or await self._in_thread(lambda: self._find(who, make=True) or b"")

    async def find(self, scope: Scope, kind: DomainKind, name: str) -> bytes | None:
        who = DomainName(scope.tenant, kind, name)
        return self._cache.id_of(who) or await self._in_thread(lambda: self._find(who, make=False))

    async def load(self, domains: frozenset[bytes]) -> dict[bytes, DomainName | None]:
        names = {domain: found[1] for domain in domains if (found := self._cache.get(domain)) is not None}
        if len(names) == len(domains):
            return dict(names)
        missing = domains - names.keys()
        return {**names, **await self._in_thread(lambda: self._names(missing))}

    async def destroy(self, scope: Scope, domain: bytes) -> None:
        await self._in_thread(lambda: self._destroy(scope, domain))
        self.forget(domain)

    async def destroyed(self) -> dict[bytes, str]:
        return await self._in_thread(lambda: dict(self._writer.execute(SQL["destroyed"]).fetchall()))

    async def close(self) -> None:
        """Idempotent."""
        await asyncio.to_thread(self._pool.shutdown)
        self._writer.close()
        self._reader.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, guarded, work)

    def _find(self, who: DomainName, *, make: bool) -> bytes | None:
        stamp, named = self._cache.stamp, (who.tenant, who.kind, who.name)
        row = self._writer.execute(SQL["find"], named).fetchone()
        if row is None:
            if not make:
                return None
            with immediate(self._writer):  # another process may have made it meanwhile
                row = self._writer.execute(SQL["find"], named).fetchone()
                if row is None:
                    row = (os.urandom(DOMAIN_BYTES), os.urandom(KEY_BYTES))
                    self._writer.execute(SQL["insert"], (row[0], *named, row[1], time_ns() // 1000))
        self._cache.put(row[0], row[1], who, stamp)
        return row[0]

    def _read(self, domain: bytes) -> tuple[DomainName, bytes] | None:
        with self._reading:
            row = self._reader.execute(SQL["load"], (domain,)).fetchone()
        return None if row is None else (DomainName(*row[:3]), row[3])

    def _destroy(self, scope: Scope, domain: bytes) -> None:
        """``secure_delete`` zeroes the row; VACUUM also what page splits and merges may have left of it elsewhere."""
        whose = (domain, scope.tenant, scope.is_system)
        with immediate(self._writer):
            self._writer.execute(SQL["remember"], (time_ns() // 1000, *whose))
            self._writer.execute(SQL["delete"], whose)
            self._writer.execute(SQL["unlabel"], whose)
        self._writer.execute("VACUUM")
