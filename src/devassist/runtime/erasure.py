"""Erasure: the key of a person's texts is destroyed, and the record says so.

Nothing is deleted from the journal, whose chain goes on to verify; what was sealed under the key can be read no more.
Followers act on the fact: caches drop the domain, the decision log blanks its texts, graph files of its runs go.

The request is on record before the key is destroyed, and the fact after it, so what a crash cut off is finished by
``reapply`` at the next start. So is what came back with an old copy of the journal or of the keys: each of the two
tells the other what was erased.
"""

from __future__ import annotations

from typing import NamedTuple

from devassist.core.scope import SYSTEM, Scope
from devassist.core.signals import Fact
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Heads, Journal
from devassist.ports.vault import DomainKind, Vault
from devassist.runtime.view import decoded

STREAM = "domains"
REQUESTED, ERASED = "erasure_requested", "domain_erased"


class Reapplied(NamedTuple):
    """How many keys were destroyed (again), and how many erasures the journal had no record of."""

    destroyed: int
    recorded: int


async def erase(vault: Vault, journal: Journal, clock: Clock, scope: Scope, kind: DomainKind, name: str) -> bool:
    """False when nobody of this name has texts here (or they are erased already)."""
    domain = await vault.find(scope, kind, name)
    if domain is None:
        return False
    actor = (await vault.domain(scope, "user", scope.actor)).hex()
    await _note(journal, clock, scope, REQUESTED, actor, domain)
    await vault.destroy(scope, domain)
    await _note(journal, clock, scope, ERASED, actor, domain)
    return True


async def reapply(vault: Vault, journal: Journal, heads: Heads, clock: Clock) -> Reapplied:
    """Make keys and record agree about what was erased: a key that the record says is destroyed is, and the record
    names every domain whose key was. Idempotent."""
    asked, erased = await _recorded(journal, heads)
    names = await vault.load(frozenset(asked) | erased)
    there = [domain for domain, name in names.items() if name is not None]
    for domain in there:
        await vault.destroy(SYSTEM, domain)
    missing = {domain: said for domain, said in asked.items() if domain not in erased}
    for domain, tenant in (await vault.destroyed()).items():
        if domain not in asked and domain not in erased:
            missing[domain] = (tenant, "")
    for domain, (tenant, actor) in missing.items():
        await _note(journal, clock, Scope(tenant, "system", SYSTEM.rights), ERASED, actor, domain)
    return Reapplied(len(there), len(missing))


async def _recorded(journal: Journal, heads: Heads) -> tuple[dict[bytes, tuple[str, str]], frozenset[bytes]]:
    """The domains whose erasure was asked for, with tenant and actor, and those that the record says are erased."""
    asked: dict[bytes, tuple[str, str]] = {}
    erased: set[bytes] = set()
    for head in await heads.streams(SYSTEM, "erasure"):
        for fact, _, _ in decoded(await journal.read(SYSTEM, head.stream)):
            if not isinstance(fact, Fact):
                continue
            domain = bytes.fromhex(dict(fact.data).get("domain", ""))
            if fact.name == ERASED:
                erased.add(domain)
            elif fact.name == REQUESTED:
                asked[domain] = (head.tenant, fact.actor)
    return asked, frozenset(erased)


async def _note(journal: Journal, clock: Clock, scope: Scope, name: str, actor: str, domain: bytes) -> None:
    fact = Fact(name, actor, (("domain", domain.hex()),))
    await journal.note(scope, "erasure", STREAM, [Body.of(fact)], clock.now_us())
