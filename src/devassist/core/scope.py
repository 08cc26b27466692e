"""Who asks: every port method takes a Scope, so no read or write happens in nobody's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Right = Literal["user", "admin", "system"]
TENANT = "default"
"""The tenant of everybody, as long as nothing names another."""


@dataclass(frozen=True, slots=True)
class Scope:
    """``tenant`` bounds what is visible; ``actor`` is the caller's name; ``rights`` what it may do.

    ``labels`` open documents that only those with one of their labels may see; administrators see all.

    ``system`` is for audit, migrations, followers and the sweep: the only right that sees across tenants.
    """

    tenant: str
    actor: str
    rights: frozenset[Right] = frozenset({"user"})
    labels: frozenset[str] = frozenset()

    @property
    def is_admin(self) -> bool:
        return "admin" in self.rights or "system" in self.rights

    @property
    def sees(self) -> frozenset[str] | None:
        """The labels that open documents to this caller; None when all are open."""
        return None if self.is_admin else self.labels

    @property
    def is_system(self) -> bool:
        return "system" in self.rights


SYSTEM = Scope(tenant="*", actor="system", rights=frozenset({"system"}))
