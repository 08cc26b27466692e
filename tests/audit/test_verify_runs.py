"""Verification of whole runs: erased, open, of other tenants, of facts, and as the driver stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devassist.audit.verify import Verifier
from devassist.core.errors import ProviderError, RunNotFound
from devassist.core.event_codec import encode
from devassist.core.scope import SYSTEM, Scope
from devassist.core.signals import CancelRequested, Fact, LateOutcome
from devassist.core.tooling import ToolNeedsApproval, ToolSpec
from devassist.llm.scripted import Scripted
from devassist.ports.journal import Body
from devassist.ports.model import ModelRequest
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.tools.registry import Tool
from tests.audit.hand_made import T0, USER, HandMade, grounded
from tests.runtime.rig import rig
from tests.store.files import store


async def test_an_erased_run_still_verifies(tmp_path: Path) -> None:
    """The texts are counted as erased, the public definition is read, the chain holds."""
    async with store(tmp_path) as (journal, vault):
        run = await grounded(HandMade(journal, vault))
        await vault.destroy(USER, run.domain)
        report = await Verifier(journal, journal, vault).verify(USER, run.stream)
    assert report.ok
    assert (report.payloads, report.erased) == (len(run.texts), len(run.texts) - 1)


async def test_a_text_of_another_domain_is_a_fault(tmp_path: Path) -> None:
    """It opens, but it is not the run's."""
    async with store(tmp_path) as (journal, vault):
        run = HandMade(journal, vault)
        await run.begin()
        await run.append(run.model())
        run.domain = await vault.domain(USER, "user", "mallory")
        reply = run.seal("theirs")
        await run.signal(LateOutcome("l1", 1, "result", result=reply))
        report = await Verifier(journal, journal, vault).verify(USER, run.stream)
    assert [f.row for f in report.faults] == [f"payloads(ref={reply}).domain"]


async def test_open_and_unclaimed_runs_verify() -> None:
    """In memory too; an INIT that nobody has claimed may be woken at any time."""
    vault = MemoryVault()
    journal = MemoryJournal(vault)
    run = HandMade(journal, vault)
    await run.begin()
    verifier = Verifier(journal, journal, vault)
    assert (await verifier.verify(USER, run.stream)).faults == ()
    await run.append(run.model())
    await run.signal(CancelRequested("c1", run.domain.hex()))
    assert (await verifier.verify(USER, run.stream)).faults == ()


async def test_another_tenant_sees_nothing(tmp_path: Path) -> None:
    """Neither does anyone see what does not exist; the system sees all."""
    async with store(tmp_path) as (journal, vault):
        run = await grounded(HandMade(journal, vault))
        verifier = Verifier(journal, journal, vault)
        with pytest.raises(RunNotFound):
            await verifier.verify(Scope("elsewhere", "alice"), run.stream)
        with pytest.raises(RunNotFound):
            await verifier.verify(SYSTEM, bytes(16))
        assert (await verifier.verify(SYSTEM, run.stream)).ok


async def test_streams_of_facts_verify(tmp_path: Path) -> None:
    """They have no fold; their chain and their head's place are checked."""
    async with store(tmp_path) as (journal, vault):
        fact = Fact("granted", "00" * 16, (("right", "admin"),))
        await journal.note(USER, "access", "keys", [Body(fact.kind, encode(fact))] * 3, T0)
        (record, *_) = await journal.changes(0)
        report = await Verifier(journal, journal, vault).verify(USER, record.stream)
    assert (report.faults, report.events) == ((), 3)


async def asks(n: int = 0) -> ToolNeedsApproval:
    return ToolNeedsApproval("a person must look")


async def test_what_the_driver_stores_verifies(tmp_path: Path) -> None:
    """Finished, failed, waiting for a person, with an Idempotency-Key, second of a conversation: columns and all."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    tools = [Tool(ToolSpec("asks", "Asks.", schema, effect="once"), asks)]
    refused = ProviderError("no such key", code="provider_unauthorised", retryable=False, provider_status=401)
    replies = {
        "one": "Action: final: 1",
        "two": "Action: final: 2",
        "bad": refused,
        "ask": "Action: tool:asks\nargs: {}",
    }

    def script(request: ModelRequest) -> Any:
        return replies[request.messages[-1].content]

    async with rig(Scripted(script), tools, tmp_path) as made:
        verifier = Verifier(made.journal, made.journal, made.vault)
        views = [
            await made.ask("one", "c1"),
            await made.ask("two", "c1", idem="agent\0key", digest="d"),
            await made.ask("bad"),
            await made.ask("ask"),
        ]
        reports = [await verifier.verify(USER, view.stream) for view in views]
    assert [report.faults for report in reports] == [()] * 4
    assert [str(view.state.state) for view in views] == ["FINAL_ANSWER", "FINAL_ANSWER", "ERROR", "AWAIT_APPROVAL"]
