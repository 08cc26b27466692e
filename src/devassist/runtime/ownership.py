"""Whose run it is: the one check between a caller and runs by their ids.

A foreign run is refused in the words and with the work of one that does not exist: both are one query for a run of the
caller's own, and nothing else is read before it has answered.
"""

from __future__ import annotations

from devassist.core.errors import RunNotFound
from devassist.core.scope import Scope
from devassist.ports.journal import Head, Heads
from devassist.ports.vault import Vault

NOBODY = bytes(16)
"""The domain of a caller who never began a run: no run is his."""


async def owner_of(vault: Vault, scope: Scope) -> bytes | None:
    """Whose runs the caller sees: None for an administrator, who sees all of the tenant."""
    return None if scope.is_admin else await own_domain(vault, scope)


async def own_domain(vault: Vault, scope: Scope) -> bytes:
    """The caller's domain; makes none."""
    return await vault.find(scope, "user", scope.actor) or NOBODY


async def own_head(heads: Heads, vault: Vault, scope: Scope, stream: bytes) -> Head:
    """The head of a run that the caller may see and act on. Raises RunNotFound for any other, foreign or none."""
    head = await heads.head(scope, stream, await owner_of(vault, scope))
    if head.kind != "run":
        raise RunNotFound(f"no run {stream.hex()}")
    return head
