"""Explaining: why a run answered so, told from its record alone."""

from __future__ import annotations

import json

import pytest

from devassist.audit.auditor import RecordAuditor
from devassist.audit.explain import explain
from devassist.core.errors import RunNotFound
from devassist.core.events import ModelFailed, RunAborted
from devassist.core.signals import CancelRequested, RunRestored
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.tools.schema import SchemaChecker
from tests.audit.hand_made import ANSWER, CLAUSE, T0, USER, HandMade, grounded


async def hand_made() -> HandMade:
    vault = MemoryVault()
    return await grounded(HandMade(MemoryJournal(vault), vault))


async def test_the_story_of_a_grounded_answer() -> None:
    """Question, decisions, calls, the person's word, the source: in order, each with the seq where it stands."""
    run = await hand_made()
    story = await explain(run.journal, run.vault, USER, run.stream)
    assert [(e["seq"], e["what"]) for e in story["entries"]] == [
        (0, "asked"), (1, "model_asked"), (2, "decided"), (3, "called"), (4, "returned"), (5, "held"), (6, "approval"),
        (7, "called"), (8, "returned"), (9, "model_asked"), (10, "decided"), (11, "released"),
    ]  # fmt: skip
    asked, prompted, decided, called = story["entries"][:4]
    assert (asked["actor"], asked["message"], asked["prompt_version"]) == ("alice", "How many days?", "v1")
    assert asked["time"] == "2027-01-15T08:00:00+00:00"
    assert asked["at"] == T0
    assert (prompted["history_messages"], prompted["read_seqs"]) == (2, [0])
    assert (decided["thought"], decided["calls"]) == (
        "look it up", [{"tool": "get_policy", "args": {"question": "How many days?"}}]
    )  # fmt: skip
    assert called["args"] == {"question": "How many days?"}
    assert story["entries"][6]["actor"] == "alice"
    assert story["entries"][8]["result"] == json.loads(CLAUSE)


async def test_each_quotation_names_the_clause_and_the_call_that_returned_it() -> None:
    """The source is looked up in the record, not taken from the model."""
    run = await hand_made()
    story = await explain(run.journal, run.vault, USER, run.stream)
    released = story["entries"][-1]
    assert released["quoted"] == [
        {
            "quote": "Employees have five days of leave each year.",
            "title": "Leave Policy",
            "label": "Article 5",
            "seq": 8,
        }
    ]
    assert (released["verdicts"], released["degraded"]) == (["quote_verified"], [])
    assert (story["answer"]["seq"], story["answer"]["text"]) == (11, ANSWER)
    assert story["answer"]["output"]["confidence"] == "high"


async def test_of_an_erased_run_only_the_shape_is_told() -> None:
    """Texts and the name are gone, what happened when is not."""
    run = await hand_made()
    await run.vault.destroy(USER, run.domain)
    story = await explain(run.journal, run.vault, USER, run.stream)
    assert story["erased"]
    asked, released = story["entries"][0], story["entries"][-1]
    assert (asked["actor"], asked["message"], asked["route"], released["answer"]) == (None, None, None, None)
    assert len(story["entries"]) == 12


async def test_a_run_without_an_answer_is_told_too() -> None:
    """A cut attempt, who cancelled, how it ended."""
    vault = MemoryVault()
    run = HandMade(MemoryJournal(vault), vault)
    await run.begin()
    await run.append(run.model())
    await run.signal(CancelRequested("c", run.domain.hex()))
    await run.append(ModelFailed(1, "cancelled", 503, True, 0), RunAborted("cancelled"))
    story = await explain(run.journal, vault, USER, run.stream)
    assert [e["what"] for e in story["entries"][2:]] == ["cancel_requested", "model_failed", "aborted"]
    assert (story["state"], story["answer"]) == ("ABORTED", None)


async def test_a_rewind_of_the_journal_is_part_of_the_story() -> None:
    """Why calls are asked about that were made without asking before: the lost window is told."""
    vault = MemoryVault()
    run = HandMade(MemoryJournal(vault), vault)
    await run.begin()
    await run.signal(RunRestored("restored:1", 5, 9))
    story = await explain(run.journal, vault, USER, run.stream)
    told = story["entries"][-1]
    assert (told["what"], told["window_from"], told["window_to"]) == ("restored", 5, 9)


async def test_the_auditor_offers_all_three() -> None:
    """One object for API and command line; it knows no store."""
    run = await hand_made()
    auditor = RecordAuditor(run.journal, run.journal, run.journal, run.vault, SchemaChecker())
    assert (await auditor.verify(USER, run.stream)).ok
    assert (await auditor.replay(USER, run.stream)).ok
    assert json.loads(json.dumps(await auditor.explain(USER, run.stream)))["agent"] == "policy"
    with pytest.raises(RunNotFound):
        await auditor.explain(USER, bytes(16))
