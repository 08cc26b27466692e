"""API keys in the key store's file, or in memory.

The file is shared with the vault and with other processes: one connection of its own sees what all of them change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from devassist.core.errors import Conflict, Forbidden, Unavailable
from devassist.core.scope import Scope
from devassist.ports.access import ApiKey
from devassist.store.database import Database, immediate
from devassist.store.key_file import connect_keys, guarded, prepare
from devassist.store.sql_files import script, statements

SQL = statements("keys.sql")
_READING = {"cache_size": "-64"}
_FIELDS = ("key_id", "tenant", "owner", "role", "digest", "label", "created", "expires", "revoked")
"""As in the table; ``sees`` stands last, its labels joined by blanks."""

T = TypeVar("T")


class MemoryApiKeys:
    """Keys that end with the process."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._stamp = 0

    async def add(self, scope: Scope, key: ApiKey) -> None:
        _check(scope, key)
        if key.key_id in self._keys:
            raise Conflict(f"a key {key.key_id} exists")
        self._keys[key.key_id] = key
        self._stamp += 1

    async def list(self, scope: Scope) -> list[ApiKey]:
        found = [key for key in self._keys.values() if scope.is_system or key.tenant == scope.tenant]
        return sorted(found, key=lambda key: (key.created, key.key_id))

    async def revoke(self, scope: Scope, key_id: str, at: int) -> bool:
        key = self._keys.get(key_id)
        if key is None or key.revoked is not None or not (scope.is_system or key.tenant == scope.tenant):
            return False
        self._keys[key_id] = replace(key, revoked=at)
        self._stamp += 1
        return True

    async def stamp(self) -> int:
        return self._stamp


class FileApiKeys:
    """Keys in ``keys.db`` of ``keys_dir``. ``await close()`` when done.

    Reading goes by a connection of its own, which is told of every change, this process's own too; changes are rare and
    open another. A thread waits for other processes' locks, so that no caller does.
    """

    def __init__(self, keys_dir: Path) -> None:
        """Raises Unavailable when the directory or file cannot be used."""
        try:
            self._path = prepare(keys_dir)
            self._reader = connect_keys(self._path, **_READING)
            self._reader.execute(script("keys_schema.sql"))
            _widen(self._reader)
        except (apsw.Error, OSError) as error:
            raise Unavailable(f"the key store {keys_dir} cannot be used: {type(error).__name__}: {error}") from None
        self._pool = ThreadPoolExecutor(1, "devassist-api-keys")

    async def add(self, scope: Scope, key: ApiKey) -> None:
        _check(scope, key)
        values = (*(getattr(key, name) for name in _FIELDS), " ".join(key.sees))
        try:
            await self._in_thread(lambda: self._write(SQL["add_key"], values))
        except apsw.ConstraintError:
            raise Conflict(f"a key {key.key_id} exists") from None

    async def list(self, scope: Scope) -> list[ApiKey]:
        bounds = (scope.tenant, scope.is_system)
        rows = await self._in_thread(lambda: self._reader.execute(SQL["list_keys"], bounds).fetchall())
        return [ApiKey(*row[:-1], sees=tuple(row[-1].split())) for row in rows]

    async def revoke(self, scope: Scope, key_id: str, at: int) -> bool:
        values = (at, key_id, scope.tenant, scope.is_system)
        return bool(await self._in_thread(lambda: self._write(SQL["revoke_key"], values)))

    async def stamp(self) -> int:
        rows = await self._in_thread(lambda: self._reader.execute("PRAGMA data_version").fetchall())
        return int(rows[0][0])

    async def close(self) -> None:
        """Idempotent."""
        await asyncio.to_thread(self._pool.shutdown)
        self._reader.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        guarded_work = partial(guarded, work, but=(apsw.ConstraintError,))
        return await asyncio.get_running_loop().run_in_executor(self._pool, guarded_work)

    def _write(self, sql: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        writer = connect_keys(self._path, **_READING)
        try:
            with immediate(writer):
                return writer.execute(sql, values).fetchall()
        finally:
            writer.close()


def _widen(db: Database) -> None:
    """Tables that an earlier build made have no labels."""
    if not db.execute(SQL["has_sees"]).fetchone():
        with immediate(db):
            if not db.execute(SQL["has_sees"]).fetchone():  # another process was first
                db.execute(SQL["add_sees"])


def _check(scope: Scope, key: ApiKey) -> None:
    if key.tenant != scope.tenant and not scope.is_system:
        raise Forbidden(f"a key of tenant {key.tenant!r} cannot be made for tenant {scope.tenant!r}")
