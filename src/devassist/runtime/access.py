"""Who may come in: API keys as they are made, revoked, and asked for by every request.

A request is looked up in memory. A watch asks the key store twice a second whether any process changed it, so that keys
made or revoked by the command line beside a server count within a second. Each change is a fact in the journal before
it takes effect; a key store that was put back from a backup is brought into line with those facts at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from hmac import compare_digest
from math import inf
from typing import NamedTuple

from devassist.core import api_keys as texts
from devassist.core.errors import Forbidden, NotFound
from devassist.core.scope import SYSTEM, TENANT, Right, Scope
from devassist.core.signals import Fact
from devassist.ports.access import ApiKey, ApiKeys, Role
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Heads, Journal
from devassist.ports.vault import Vault
from devassist.runtime.view import decoded

log = logging.getLogger("devassist.runtime")

STREAM = "keys"
LOOK_S = 0.5
"""How often the key store is asked for changes."""
_RIGHTS: dict[Role, frozenset[Right]] = {"user": frozenset({"user"}), "admin": frozenset({"user", "admin"})}
_NO_DIGEST = bytes(32)
_KEEPER = Scope(TENANT, "keys", frozenset({"system"}))


class NewKey(NamedTuple):
    """``token`` is the key itself, which nobody can be shown again."""

    token: str
    key: ApiKey


class NamedKey(NamedTuple):
    """``user`` is None where its domain was erased; such a key lets nobody in."""

    key: ApiKey
    user: str | None


@dataclass(frozen=True, slots=True)
class _Known:
    owner: bytes
    digest: bytes
    expires: float
    scope: Scope


class Access:
    """``open`` before use, ``close`` when done."""

    def __init__(self, keys: ApiKeys, vault: Vault, journal: Journal, heads: Heads, clock: Clock) -> None:
        self._keys, self._vault, self._journal, self._heads, self._clock = keys, vault, journal, heads, clock
        self._known: dict[str, _Known] = {}
        self._stamp = -1
        self._watch: asyncio.Task[None] | None = None
        self.required = False
        """Whether callers need a key: from the first one that was ever made on, also when all are revoked."""

    async def open(self, *, watch: bool) -> None:
        """``watch``: this process serves, so it follows what others change."""
        if watch:
            await self._reconcile()
        self.required = await self._heads.named(_KEEPER, "access", STREAM) is not None
        await self._refresh()
        if watch:
            self._watch = asyncio.create_task(self._follow(), name="api-keys")

    async def close(self) -> None:
        """Idempotent."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None

    def admit(self, token: str) -> Scope | None:
        """In whose name the bearer of this key asks; None for a key that is unknown, expired or revoked, which look and
        take the same."""
        given = texts.parsed(token)
        if given is None:
            return None
        known = self._known.get(given.key_id)
        right = compare_digest(given.digest, _NO_DIGEST if known is None else known.digest)
        return known.scope if right and known is not None and self._clock.now_us() < known.expires else None

    def forget(self, domain: bytes) -> None:
        """The keys of an erased domain let nobody in any more."""
        self._known = {key_id: known for key_id, known in self._known.items() if known.owner != domain}
        self._stamp = -1

    # -- changes -------------------------------------------------------------------------------------------------

    async def create(
        self, scope: Scope, user: str, role: Role, *, expires: int | None, label: str = "", sees: tuple[str, ...] = ()
    ) -> NewKey:
        """A key for ``user``, durable and noted when it is returned; ``sees`` are labels of documents that it opens.
        Raises Forbidden."""
        _administers(scope)
        owner = await self._vault.domain(scope, "user", user)
        key_id, secret, now = self._clock.random(texts.ID_BYTES), self._clock.random(texts.SECRET_BYTES), self._now()
        token = texts.made(key_id, secret)
        given = texts.parsed(token)
        assert given is not None, "a key that was made can be read"
        key = ApiKey(given.key_id, scope.tenant, owner, role, given.digest, label, now, expires, sees=sees)
        until = "never" if expires is None else str(expires)
        about = (("key", key.key_id), ("owner", owner.hex()), ("role", role), ("expires", until))
        about += (("sees", " ".join(sees)),) if sees else ()
        await self._note(scope, "key_created", about)
        await self._keys.add(scope, key)
        await self._refresh()
        return NewKey(token, key)

    async def revoke(self, scope: Scope, key_id: str) -> bool:
        """False when it is revoked already. Raises Forbidden, and NotFound for a key that never was."""
        _administers(scope)
        key = next((key for key in await self._keys.list(scope) if key.key_id == key_id), None)
        if key is None:
            raise NotFound(f"there is no key {key_id}", code="key_not_found")
        if key.revoked is not None:
            return False
        await self._note(scope, "key_revoked", (("key", key_id),))
        await self._keys.revoke(scope, key_id, self._now())
        await self._refresh()
        return True

    async def list(self, scope: Scope) -> list[NamedKey]:
        """All keys that ever were, oldest first. Raises Forbidden."""
        _administers(scope)
        keys = await self._keys.list(scope)
        names = await self._vault.load(frozenset(key.owner for key in keys))
        return [NamedKey(key, name.name if (name := names[key.owner]) else None) for key in keys]

    def _now(self) -> int:
        return self._clock.now_us()

    async def _note(self, scope: Scope, name: str, about: tuple[tuple[str, str], ...]) -> None:
        actor = await self._vault.domain(scope, "user", scope.actor)
        fact = Fact(name, actor.hex(), about)
        await self._journal.note(scope, "access", STREAM, [Body.of(fact)], self._now())

    # -- following -----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._refresh()
            except asyncio.CancelledError:
                raise
            except Exception:  # the watch must outlive it, or no revocation would count any more
                if not failing:
                    log.exception("the key store cannot be read: changes of keys do not count until it can")
                failing = True
            else:
                failing = False

    async def _refresh(self) -> None:
        stamp = await self._keys.stamp()
        if stamp == self._stamp:
            return
        keys = await self._keys.list(SYSTEM)
        names = await self._vault.load(frozenset(key.owner for key in keys))
        known: dict[str, _Known] = {}
        for key in keys:
            name = names[key.owner]
            if name is not None and key.revoked is None:
                expires = inf if key.expires is None else key.expires
                known[key.key_id] = _Known(
                    key.owner, key.digest, expires, Scope(key.tenant, name.name, _RIGHTS[key.role], frozenset(key.sees))
                )  # fmt: skip
        self._known = known
        self.required = self.required or bool(keys)
        self._stamp = stamp

    async def _reconcile(self) -> None:
        """Revoke what is on record as revoked: a crash came in between, or an older key store was put back."""
        head = await self._heads.named(_KEEPER, "access", STREAM)
        if head is None:
            return
        for fact, _, at in decoded(await self._journal.read(_KEEPER, head.stream)):
            if isinstance(fact, Fact) and fact.name == "key_revoked":
                key_id = dict(fact.data).get("key", "")
                if await self._keys.revoke(_KEEPER, key_id, at):
                    log.warning("API key %s is on record as revoked and was not: it is now", key_id)


def _administers(scope: Scope) -> None:
    if not scope.is_admin:
        raise Forbidden("API keys are made, listed and revoked by administrators")
