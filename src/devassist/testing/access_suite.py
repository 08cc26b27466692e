"""Conformance of an adapter to the port ApiKeys.

An adapter's test subclasses ``AccessSuite`` and gives a fixture ``keys``: an empty store.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

import pytest

from devassist.core.errors import Conflict, Forbidden
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.access import ApiKey, ApiKeys

ALICE = Scope(tenant="default", actor="alice", rights=frozenset({"user", "admin"}))
STRANGER = Scope(tenant="elsewhere", actor="alice", rights=frozenset({"user", "admin"}))
T0 = 1_800_000_000_000_000

_ids = itertools.count(1)


def made(created: int = T0, tenant: str = "default", expires: int | None = None) -> ApiKey:
    """A key that no other one is like."""
    digest, owner = os.urandom(32), os.urandom(16)
    return ApiKey(f"{next(_ids):012x}", tenant, owner, "user", digest, "报销 laptop", created, expires)


class AccessSuite:
    async def test_what_was_added_is_listed_oldest_first(self, keys: ApiKeys) -> None:
        """Every field comes back, an expiry of never too."""
        young, old = made(T0 + 5), made(T0, expires=T0 + 9)
        admin = replace(made(T0 + 7), role="admin", label="", sees=("board", "hr"))
        for key in (young, old, admin):
            await keys.add(ALICE, key)
        assert await keys.list(ALICE) == [old, young, admin]

    async def test_an_id_is_taken_once(self, keys: ApiKeys) -> None:
        """The second key under an id is a Conflict and changes nothing."""
        key = made()
        await keys.add(ALICE, key)
        with pytest.raises(Conflict):
            await keys.add(ALICE, replace(key, digest=os.urandom(32)))
        assert await keys.list(ALICE) == [key]

    async def test_a_key_is_revoked_once_and_stays(self, keys: ApiKeys) -> None:
        """The row says since when; doing it again, or to a key that never was, changes nothing."""
        key, other = made(), made(T0 + 1)
        for each in (key, other):
            await keys.add(ALICE, each)
        done = [await keys.revoke(ALICE, key.key_id, at) for at in (T0 + 3, T0 + 4)]
        assert done == [True, False]
        assert not await keys.revoke(ALICE, "0" * 12, T0)
        assert await keys.list(ALICE) == [replace(key, revoked=T0 + 3), other]

    async def test_tenants_do_not_see_one_another(self, keys: ApiKeys) -> None:
        """Nor make or revoke each other's keys; the system sees all and revokes any."""
        ours, theirs = made(), made(T0 + 1, tenant="elsewhere")
        await keys.add(ALICE, ours)
        await keys.add(STRANGER, theirs)
        with pytest.raises(Forbidden):
            await keys.add(ALICE, made(tenant="elsewhere"))
        assert not await keys.revoke(STRANGER, ours.key_id, T0)
        assert [await keys.list(scope) for scope in (ALICE, STRANGER, SYSTEM)] == [[ours], [theirs], [ours, theirs]]
        assert await keys.revoke(SYSTEM, theirs.key_id, T0)

    async def test_the_stamp_moves_with_every_change(self, keys: ApiKeys) -> None:
        """It stands still while nothing is changed, also while keys are read."""
        stamps = [await keys.stamp()]
        key = made()
        await keys.add(ALICE, key)
        stamps.append(await keys.stamp())
        await keys.list(ALICE)
        assert await keys.stamp() == stamps[-1]
        await keys.revoke(ALICE, key.key_id, T0)
        stamps.append(await keys.stamp())
        assert len(set(stamps)) == 3

    async def test_a_key_is_what_its_times_say(self, keys: ApiKeys) -> None:
        """As it was stored: expired from its last microsecond on, revoked before all else."""
        ending, lasting = made(expires=T0 + 10), made(T0 + 1)
        for key in (ending, lasting):
            await keys.add(ALICE, key)
        await keys.revoke(ALICE, lasting.key_id, T0 + 20)
        stored = await keys.list(ALICE)
        assert [stored[0].state(T0 + 9), stored[0].state(T0 + 10), lasting.state(2 * T0)] == [
            "active", "expired", "active",
        ]  # fmt: skip
        assert stored[1].state(T0 + 20) == "revoked"

    async def test_no_repr_shows_the_digest(self, keys: ApiKeys) -> None:
        """What stands in a log or a traceback cannot be matched against a key."""
        key = made()
        await keys.add(ALICE, key)
        (found,) = await keys.list(ALICE)
        assert found.digest == key.digest
        assert repr(key.digest) not in repr(found)
