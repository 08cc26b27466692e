"""Checked by the type checker, never run: the signatures that third-party code builds on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from devassist.core.commands import Command
from devassist.core.decide import decide
from devassist.core.events import Event
from devassist.core.run_state import RunState
from devassist.core.scope import SYSTEM, Scope
from devassist.core.tooling import ToolOutcome, ToolSpec
from devassist.core.transitions import apply, fold
from devassist.llm.extractive import Extractive
from devassist.llm.openai_compat import OpenAICompatible
from devassist.llm.scripted import Scripted
from devassist.ports.access import ApiKey, ApiKeys
from devassist.ports.journal import Feed, Heads, Inspector, Journal, Record
from devassist.ports.model import Model
from devassist.ports.tools import ArgumentChecker, CallContext, ToolBox
from devassist.ports.vault import Vault
from devassist.store.api_keys import FileApiKeys, MemoryApiKeys
from devassist.store.memory_journal import MemoryJournal
from devassist.store.sqlite_journal import SqliteJournal
from devassist.store.vault import FileVault, MemoryVault
from devassist.tools.registry import Tool, ToolRegistry
from devassist.tools.schema import SchemaChecker, tool


@tool(effect="idempotent", timeout_s=5)
async def refund(order: str, amount: int = 1) -> dict[str, Any]:
    """Send a refund."""
    return {"order": order, "amount": amount}


async def tools(scope: Scope, context: CallContext) -> None:
    registry = ToolRegistry([refund])
    assert_type(refund, Tool)
    assert_type(registry.spec("refund"), ToolSpec)
    assert_type(await registry.call(scope, "refund", {"order": "o1"}, context), ToolOutcome)
    box: ToolBox = registry
    checker: ArgumentChecker = SchemaChecker()
    assert_type(checker.check(box.spec("refund"), {}), dict[str, Any])


async def stores(path: Path) -> None:
    vaults: tuple[Vault, ...] = (MemoryVault(), FileVault(path))
    keys: tuple[ApiKeys, ...] = (MemoryApiKeys(), FileApiKeys(path))
    assert_type(await keys[0].list(SYSTEM), list[ApiKey])
    journal = await SqliteJournal.open(path, vaults[0])
    journals: tuple[Journal, ...] = (journal, MemoryJournal(vaults[0]))
    heads: tuple[Heads, ...] = (journal, MemoryJournal(vaults[0]))
    feeds: tuple[Feed, ...] = (journal, MemoryJournal(vaults[0]))
    inspectors: tuple[Inspector, ...] = (journal, MemoryJournal(vaults[0]))
    assert len(journals) == len(heads) == len(feeds) == len(inspectors)
    assert_type(await feeds[0].changes(0), list[Record])


def models() -> tuple[Model, ...]:
    return Extractive(), Scripted(["Action: final: x"]), OpenAICompatible("http://127.0.0.1:1/v1", None, "m")


def core(state: RunState, event: Event) -> None:
    assert_type(apply(state, event, 1, 2), RunState)
    assert_type(fold([(event, 1, 2)], state), RunState | None)
    assert_type(decide(state), Command | None)
