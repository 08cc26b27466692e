"""Conformance of an adapter to the port Vault.

An adapter's test subclasses ``VaultSuite`` and gives a fixture ``vault``.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from devassist.core.chain import PUBLIC_SALT, commit
from devassist.core.errors import DevAssistError, JournalCorrupt, PayloadErased
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.vault import PUBLIC, DomainName, Payload, Vault

ALICE = Scope(tenant="default", actor="alice")
STRANGER = Scope(tenant="elsewhere", actor="alice")
TEXTS = ("", "a", "短文", "x" * 511, "x" * 512, "x" * 5000, "".join(map(chr, range(1, 0xD7FF, 7))), "nul \x00 🌍")


class VaultSuite:
    async def test_a_name_has_one_domain(self, vault: Vault) -> None:
        """Random ids of 16 bytes, the same each time, also for concurrent askers; other names and kinds have others."""
        ids = await asyncio.gather(*(vault.domain(ALICE, "user", "alice") for _ in range(8)))
        others = [
            await vault.domain(ALICE, "user", "bob"),
            await vault.domain(ALICE, "subject", "alice"),
            await vault.domain(STRANGER, "user", "alice"),
        ]
        assert len(set(ids)) == 1
        assert len({*ids, *others}) == 4
        assert {len(i) for i in (*ids, *others)} == {16}
        assert PUBLIC not in (*ids, *others)

    async def test_finding_makes_nothing(self, vault: Vault) -> None:
        """``find`` is None until ``domain`` was called."""
        assert await vault.find(ALICE, "user", "alice") is None
        domain = await vault.domain(ALICE, "user", "alice")
        assert await vault.find(ALICE, "user", "alice") == domain
        assert await vault.find(STRANGER, "user", "alice") is None

    async def test_loading_gives_names(self, vault: Vault) -> None:
        """None for what never was a domain, and for the public one, which is nobody's."""
        alice, case = await vault.domain(ALICE, "user", "alice"), await vault.domain(ALICE, "subject", "病例 7")
        asked = frozenset({alice, case, bytes(15) + b"\x01", PUBLIC})
        for _ in range(2):
            assert await vault.load(asked) == {
                alice: DomainName("default", "user", "alice"),
                case: DomainName("default", "subject", "病例 7"),
                bytes(15) + b"\x01": None,
                PUBLIC: None,
            }
            vault.forget()

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    async def test_a_text_comes_back(self, vault: Vault, text: str) -> None:
        """Sealed and public, short and long."""
        for domain in (await vault.domain(ALICE, "user", "alice"), PUBLIC):
            payload = vault.seal(domain, text)
            assert (len(payload.ref), payload.domain, payload.text) == (32, domain, text)
            assert vault.open(payload._replace(text=None)) == text

    async def test_a_reference_hides_and_is_the_same_in_its_domain_only(self, vault: Vault) -> None:
        """Equal texts share a reference within a domain; elsewhere it is another, and only the public one is plain."""
        alice, bob = [await vault.domain(ALICE, "user", name) for name in ("alice", "bob")]
        refs = [vault.seal(domain, "text").ref for domain in (alice, alice, bob, PUBLIC)]
        assert refs[0] == refs[1]
        assert len(set(refs)) == 3
        plain = commit(PUBLIC_SALT, b"text")
        assert [ref == plain for ref in refs] == [False, False, False, True]

    async def test_a_sealed_blob_shows_nothing_of_its_text(self, vault: Vault) -> None:
        """Equal texts of two domains have nothing in common, no byte of them is to be seen."""
        alice, bob = [await vault.domain(ALICE, "user", name) for name in ("alice", "bob")]
        blobs = [vault.seal(domain, "a secret sentence").blob for domain in (alice, bob)]
        assert blobs[0][1:17] != blobs[1][1:17]
        assert b"secret" not in blobs[0] + blobs[1]

    async def test_whatever_was_changed_is_found(self, vault: Vault) -> None:
        """A flipped bit in any byte, a cut, another reference or domain: JournalCorrupt, never another text."""
        alice, bob = [await vault.domain(ALICE, "user", name) for name in ("alice", "bob")]
        for payload in (vault.seal(alice, "text"), vault.seal(alice, "long " * 200), vault.seal(PUBLIC, "text")):
            blob = payload.blob
            flipped = [blob[:i] + bytes([blob[i] ^ 1]) + blob[i + 1 :] for i in range(len(blob))]
            wrong = [payload._replace(blob=b) for b in (*flipped, b"", blob[:1], blob[:-1], blob + b"\x00")]
            wrong += [payload._replace(ref=os.urandom(32)), payload._replace(domain=bob)]
            for one in wrong:
                with pytest.raises(JournalCorrupt):
                    vault.open(one)

    async def test_without_a_key_nothing_is_sealed_or_opened(self, vault: Vault) -> None:
        """A domain that never was is PayloadErased."""
        for attempt in (lambda: vault.seal(b"x" * 16, "t"), lambda: vault.open(Payload(bytes(32), b"x" * 16, b"\x01"))):
            with pytest.raises(PayloadErased):
                attempt()

    async def test_destroying_is_erasure(self, vault: Vault) -> None:
        """Key and name are gone at once and for good; other domains keep theirs; doing it again is no fault."""
        alice, bob = [await vault.domain(ALICE, "user", name) for name in ("alice", "bob")]
        payload, kept = vault.seal(alice, "text"), vault.seal(bob, "text")
        for _ in range(2):
            await vault.destroy(ALICE, alice)
            assert await vault.load(frozenset({alice, bob})) == {alice: None, bob: DomainName("default", "user", "bob")}
            assert await vault.find(ALICE, "user", "alice") is None
            with pytest.raises(PayloadErased):
                vault.open(payload)
            with pytest.raises(PayloadErased):
                vault.seal(alice, "more")
        assert vault.open(kept) == "text"

    async def test_what_was_destroyed_is_remembered(self, vault: Vault) -> None:
        """Ids with their tenants: of those that were there, once each, and of nobody else's attempts."""
        alice, bob, other = [
            await vault.domain(scope, "user", scope.actor) for scope in (ALICE, Scope("default", "bob"), STRANGER)
        ]
        assert await vault.destroyed() == {}
        await vault.destroy(STRANGER, alice)
        await vault.destroy(ALICE, b"x" * 16)
        for _ in range(2):
            await vault.destroy(ALICE, bob)
            await vault.destroy(SYSTEM, other)
        assert await vault.destroyed() == {bob: "default", other: "elsewhere"}
        assert alice not in await vault.destroyed()

    async def test_an_erased_name_can_begin_anew(self, vault: Vault) -> None:
        """With another id and another key: nothing of before can be read or linked."""
        before = await vault.domain(ALICE, "user", "alice")
        old = vault.seal(before, "text")
        await vault.destroy(ALICE, before)
        after = await vault.domain(ALICE, "user", "alice")
        assert after != before
        assert vault.seal(after, "text").ref != old.ref
        assert await vault.load(frozenset({before, after})) == {
            before: None,
            after: DomainName("default", "user", "alice"),
        }

    async def test_only_its_tenant_and_the_system_destroy_a_domain(self, vault: Vault) -> None:
        """Another tenant's call finds nothing to destroy."""
        alice, bob = [await vault.domain(ALICE, "user", name) for name in ("alice", "bob")]
        await vault.destroy(STRANGER, alice)
        await vault.destroy(SYSTEM, bob)
        names = await vault.load(frozenset({alice, bob}))
        assert (names[alice] is None, names[bob] is None) == (False, True)

    async def test_forgetting_loses_nothing(self, vault: Vault) -> None:
        """Keys that were dropped from memory are found again."""
        alice = await vault.domain(ALICE, "user", "alice")
        payload = vault.seal(alice, "text")
        for domain in (alice, None):
            vault.forget(domain)
            assert vault.open(payload) == "text"
            assert await vault.domain(ALICE, "user", "alice") == alice

    async def test_a_text_that_utf8_cannot_hold_is_refused(self, vault: Vault) -> None:
        """A lone surrogate is an error of whoever did not replace it, not a text that comes back changed."""
        for domain in (await vault.domain(ALICE, "user", "alice"), PUBLIC):
            with pytest.raises(DevAssistError):
                vault.seal(domain, "half \ud83d")
