"""Port to API keys: who may call, and as whom. They stand beside the erasure keys, never in the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from devassist.core.scope import Scope

Role = Literal["user", "admin"]
KeyState = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret. ``owner`` is the domain id of whoever it speaks for, whose name stands in the vault
    alone; ``sees`` are the labels of documents that it opens; times are microseconds since the Unix epoch, None for
    never."""

    key_id: str
    tenant: str
    owner: bytes
    role: Role
    digest: bytes = field(repr=False)
    label: str
    created: int
    expires: int | None = None
    revoked: int | None = None
    sees: tuple[str, ...] = ()

    def state(self, now: int) -> KeyState:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class ApiKeys(Protocol):
    """Rows of keys; a row is never deleted, so that a service which asked for keys once asks for them for ever."""

    async def add(self, scope: Scope, key: ApiKey) -> None:
        """Durable when it returns. Raises Conflict when the id is taken, Forbidden for another tenant's key."""
        ...

    async def list(self, scope: Scope) -> list[ApiKey]:
        """The keys of the scope's tenant (of all tenants for the system), oldest first."""
        ...

    async def revoke(self, scope: Scope, key_id: str, at: int) -> bool:
        """Durable when it returns; false when the tenant has no such key that is not revoked yet."""
        ...

    async def stamp(self) -> int:
        """A number that is another one after any process has changed the keys: cheap enough to ask every second."""
        ...
