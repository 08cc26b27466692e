"""Erasure: the key of a person's texts is destroyed, and the record says so.

Nothing is deleted from the journal, whose chain goes on to verify; what was sealed under the key can be read no more.
Followers act on the fact: caches drop the domain, the decision log blanks its texts, graph files of its runs go.
"""

from __future__ import annotations

from devassist.core.event_codec import encode
from devassist.core.events import Fact
from devassist.core.scope import Scope
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Journal
from devassist.ports.vault import DomainKind, Vault

STREAM = "domains"


async def erase(vault: Vault, journal: Journal, clock: Clock, scope: Scope, kind: DomainKind, name: str) -> bool:
    """False when nobody of this name has texts here (or they are erased already)."""
    domain = await vault.find(scope, kind, name)
    if domain is None:
        return False
    actor = await vault.domain(scope, "user", scope.actor)
    await vault.destroy(scope, domain)
    fact = Fact("domain_erased", actor.hex(), (("domain", domain.hex()),))
    await journal.note(scope, "erasure", STREAM, [Body(fact.kind, encode(fact), fact)], clock.now_us())
    return True
