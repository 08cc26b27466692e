"""Erasure is whole: what a crash cut off is finished, and what an old copy brought back is erased again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import PayloadErased
from devassist.core.scope import SYSTEM, Scope
from devassist.runtime.clock import SystemClock
from devassist.runtime.erasure import erase, reapply
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from tests.rewind import ALICE, Place, a_place, ask, facts, faults

CLOCK = SystemClock()
OFFICER = Scope("default", "officer", frozenset({"user", "admin"}))


class Cut(Exception):
    """The process ends here."""


class CutVault(MemoryVault):
    """Ends the process before or after a key is destroyed."""

    when = ""

    async def destroy(self, scope: Scope, domain: bytes) -> None:
        if self.when == "before":
            raise Cut
        await super().destroy(scope, domain)
        if self.when == "after":
            raise Cut


async def recorded(journal: Any) -> list[tuple[str, str]]:
    """(fact, domain) of all erasure streams."""
    found: list[tuple[str, str]] = []
    for head in await journal.streams(SYSTEM, "erasure"):
        for record in await journal.read(SYSTEM, head.stream):
            body = json.loads(record.body)
            found.append((body["name"], dict(body["data"])["domain"]))
    return found


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_erasure_that_was_cut_off_is_finished(when: str) -> None:
    """The request stands before the key goes, so the next start knows of it; once is enough."""
    vault = CutVault()
    journal = MemoryJournal(vault)
    alice = await vault.domain(ALICE, "user", "alice")
    bob = await vault.domain(ALICE, "user", "bob")
    payload = vault.seal(alice, "text")
    vault.when = when
    with pytest.raises(Cut):
        await erase(vault, journal, CLOCK, OFFICER, "user", "alice")
    assert await recorded(journal) == [("erasure_requested", alice.hex())]
    vault.when = ""
    assert await reapply(vault, journal, journal, CLOCK) == (when == "before", 1)
    whole = [("erasure_requested", alice.hex()), ("domain_erased", alice.hex())]
    assert await recorded(journal) == whole
    with pytest.raises(PayloadErased):
        vault.open(payload)
    assert await reapply(vault, journal, journal, CLOCK) == (0, 0)
    assert await recorded(journal) == whole
    assert (await vault.load(frozenset({bob})))[bob] is not None


async def test_each_tenant_s_erasures_stay_its_own() -> None:
    """What the key store remembers is noted where the domain belongs, not where the sweep comes from."""
    vault = MemoryVault()
    journal = MemoryJournal(vault)
    elsewhere = Scope("elsewhere", "alice")
    domain = await vault.domain(elsewhere, "user", "alice")
    await vault.destroy(elsewhere, domain)
    assert await reapply(vault, journal, journal, CLOCK) == (0, 1)
    assert [(h.tenant, h.name) for h in await journal.streams(SYSTEM, "erasure")] == [("elsewhere", "domains")]
    assert await recorded(journal) == [("domain_erased", domain.hex())]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return a_place(tmp_path)


async def erased(place: Place) -> tuple[bytes, Path]:
    """Alice's run, and a copy of all directories from before she was erased."""
    async with place.driving() as s:
        stream = await ask(s, "the secret words")
    kept = place.kept()
    async with place.driving() as s:
        assert await erase(s.vault, s.journal, CLOCK, OFFICER, "user", "alice")
    return stream, kept


async def unreadable(place: Place, stream: bytes) -> None:
    """No text of the run comes back, and the evidence still holds; the record names the erasure."""
    async with place.driving() as s:
        view = await s.service.view(ALICE, stream)
        message = view.state.started.message
        assert view.text(message) is None
        with pytest.raises(PayloadErased):
            await s.journal.payloads(SYSTEM, stream, [message])
        report = await s.auditor.verify(SYSTEM, stream)
        assert (report.ok, report.erased > 0) == (True, True)
        assert "domain_erased" in [name for name, _ in await facts(s, "erasure", "domains")]
        assert await faults(s) == []
        await s.log.rebuild()
    on_disk = b"".join(path.read_bytes() for path in place.data.rglob("*") if path.is_file())
    assert b"secret words" not in on_disk


async def test_an_old_key_store_brings_nothing_back(place: Place) -> None:
    """Keys from before the erasure, put back by hand: the journal's record destroys them again at the start."""
    stream, kept = await erased(place)
    shutil.copy(kept / place.keys.name / "keys.db", place.keys)
    async with place.beside() as s:
        view = await s.service.view(ALICE, stream)
        assert view.text(view.state.started.message) == "the secret words", "or the test would show nothing"
    await unreadable(place, stream)


async def test_an_old_journal_learns_what_was_erased(place: Place) -> None:
    """A journal from before the erasure, put back by hand: the keys are gone, and its record says so again."""
    stream, kept = await erased(place)
    place.put_back(kept)
    await unreadable(place, stream)


async def test_a_backup_from_before_brings_nothing_back(place: Place, tmp_path: Path) -> None:
    """Restored the supported way, the report counts what it had to be told again; also with an old key store beside
    a backup that knows of the erasure."""
    async with place.driving() as s:
        stream = await ask(s, "the secret words")
        await place.files.take(tmp_path / "before")
    kept = place.kept()
    async with place.driving() as s:
        assert await erase(s.vault, s.journal, CLOCK, OFFICER, "user", "alice")
        await place.files.take(tmp_path / "after")
    done = await place.restored(tmp_path / "before", go_on=True)
    assert done.report["erasures"] == {"keys_destroyed_again": 0, "recorded_again": 1}
    await unreadable(place, stream)
    shutil.copy(kept / place.keys.name / "keys.db", place.keys)
    done = await place.restored(tmp_path / "after", go_on=True)
    assert done.report["erasures"] == {"keys_destroyed_again": 1, "recorded_again": 0}
    await unreadable(place, stream)
