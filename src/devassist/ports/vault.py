"""Port to keys and names: erasure domains, and the sealing of payloads under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from devassist.core.scope import Scope

DomainKind = Literal["user", "subject"]
PUBLIC = bytes(16)
"""The domain of texts that are nobody's: unsealed."""


class Payload(NamedTuple):
    """A text as it is stored: ``ref`` its commitment (32 bytes), ``blob`` the sealed bytes, ``text`` the plain text
    where the holder still has it (handed to followers, never stored)."""

    ref: bytes
    domain: bytes
    blob: bytes
    text: str | None = None


@dataclass(frozen=True, slots=True)
class DomainName:
    tenant: str
    kind: DomainKind
    name: str


class Vault(Protocol):
    """Keys live apart from the journal. ``seal`` and ``open`` are plain computations on keys already loaded."""

    async def domain(self, scope: Scope, kind: DomainKind, name: str) -> bytes:
        """The 16-byte id of (tenant, kind, name); a new one is durable, with its key, when the call returns."""
        ...

    async def find(self, scope: Scope, kind: DomainKind, name: str) -> bytes | None:
        """The id if the domain exists; makes nothing."""
        ...

    async def load(self, domains: frozenset[bytes]) -> dict[bytes, DomainName | None]:
        """Load keys so that ``seal`` and ``open`` work; None for a domain whose key was destroyed or never was."""
        ...

    def seal(self, domain: bytes, text: str) -> Payload:
        """Raises PayloadErased when the domain's key is not there."""
        ...

    def open(self, payload: Payload) -> str:
        """Unseal and check the commitment. Raises PayloadErased, or JournalCorrupt naming the reference."""
        ...

    async def destroy(self, scope: Scope, domain: bytes) -> None:
        """Destroy the key and its mapping: erasure. Idempotent."""
        ...

    async def destroyed(self) -> dict[bytes, str]:
        """The domains that ``destroy`` ended here, with their tenants: an id names nobody once its mapping is gone."""
        ...

    def forget(self, domain: bytes | None = None) -> None:
        """Drop cached keys (of one domain, or all): another process destroyed some."""
        ...
