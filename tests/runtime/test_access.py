"""Access within a process: what the watch outlives, and what a crash between record and effect leaves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from devassist.core.errors import Unavailable
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.access import ApiKey
from devassist.runtime.access import LOOK_S, Access
from devassist.runtime.clock import SystemClock
from devassist.store.api_keys import MemoryApiKeys
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault

ADMIN = Scope("default", "operator", frozenset({"user", "admin"}))


class Failing(MemoryApiKeys):
    """A key store that can be out of order: for reading, or right before a change takes effect."""

    unreadable = unwritable = False
    looked = 0

    async def stamp(self) -> int:
        self.looked += 1
        if self.unreadable:
            raise Unavailable("the key store failed")
        return await super().stamp()

    async def add(self, scope: Scope, key: ApiKey) -> None:
        if self.unwritable:
            raise Unavailable("the key store failed")
        await super().add(scope, key)

    async def revoke(self, scope: Scope, key_id: str, at: int) -> bool:
        if self.unwritable:
            raise Unavailable("the key store failed")
        return await super().revoke(scope, key_id, at)


@dataclass
class Made:
    keys: Failing
    vault: MemoryVault
    journal: MemoryJournal

    def access(self) -> Access:
        return Access(self.keys, self.vault, self.journal, self.journal, SystemClock())


@pytest.fixture
async def made() -> Made:
    vault = MemoryVault()
    return Made(Failing(), vault, MemoryJournal(vault))


async def test_a_key_speaks_for_its_user(made: Made) -> None:
    """With the rights of its role, from when it was made to when it expires; before the first one none is needed."""
    access = made.access()
    await access.open(watch=False)
    assert not access.required
    user = await access.create(ADMIN, "alice", "user", expires=None)
    admin = await access.create(ADMIN, "bob", "admin", expires=2**60)
    past = await access.create(ADMIN, "bob", "admin", expires=1)
    assert access.required
    assert access.admit(user.token) == Scope("default", "alice", frozenset({"user"}))
    assert access.admit(admin.token) == Scope("default", "bob", frozenset({"user", "admin"}))
    assert access.admit(past.token) is None
    assert access.admit(user.token[:17] + admin.token[17:]) is None


async def test_the_watch_outlives_a_key_store_that_fails(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    """Known keys stay good meanwhile, it is said once, and what was done meanwhile counts afterwards."""
    access, beside = made.access(), made.access()
    await access.open(watch=True)
    token = (await access.create(ADMIN, "alice", "user", expires=None)).token
    made.keys.unreadable = True
    looked = made.keys.looked
    while made.keys.looked < looked + 3:
        await asyncio.sleep(LOOK_S / 5)
    assert access.admit(token) is not None
    assert sum("key store cannot be read" in record.message for record in caplog.records) == 1
    made.keys.unreadable = False
    assert await beside.revoke(ADMIN, token[4:16])
    async with asyncio.timeout(10):
        while access.admit(token) is not None:
            await asyncio.sleep(LOOK_S / 5)
    for _ in range(2):
        await access.close()


async def test_a_key_that_never_took_effect_lets_nobody_in(made: Made) -> None:
    """The record comes first: a crash after it leaves no key behind, and the service asks for one all the same."""
    access = made.access()
    await access.open(watch=False)
    made.keys.unwritable = True
    with pytest.raises(Unavailable):
        await access.create(ADMIN, "alice", "admin", expires=None)
    made.keys.unwritable = False
    again = made.access()
    await again.open(watch=False)
    assert again.required
    assert await again.list(ADMIN) == []


async def test_a_revocation_on_record_takes_effect_at_the_next_start(made: Made) -> None:
    """Also where a crash came between the record and the key store; reading alone changes nothing."""
    access = made.access()
    token = (await access.create(ADMIN, "alice", "user", expires=None)).token
    made.keys.unwritable = True
    with pytest.raises(Unavailable):
        await access.revoke(ADMIN, token[4:16])
    made.keys.unwritable = False
    reader, server = made.access(), made.access()
    await reader.open(watch=False)
    assert reader.admit(token) is not None
    await server.open(watch=True)
    assert server.admit(token) is None
    (key,) = await made.keys.list(SYSTEM)
    assert key.revoked is not None
    await server.close()
