"""Everything that the thin layers may reach, handed over by bootstrap in one frozen value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from devassist.ports.agents import AgentCatalog
from devassist.ports.audit import Auditor
from devassist.ports.curation import Curator
from devassist.ports.decision_log import DecisionLog
from devassist.ports.journal import Heads, Journal
from devassist.ports.knowledge_store import KnowledgeStore
from devassist.ports.library import Library
from devassist.ports.metrics import Metrics
from devassist.ports.rerun import Reruns
from devassist.ports.sandbox import SandboxChoice
from devassist.ports.tools import ToolBox
from devassist.ports.vault import Vault
from devassist.runtime.access import Access
from devassist.runtime.held import Hold
from devassist.runtime.intake import Intake
from devassist.runtime.people import People
from devassist.runtime.service import Service


@dataclass(frozen=True, slots=True)
class Services:
    service: Service
    people: People
    intake: Intake
    catalog: AgentCatalog
    tools: ToolBox
    library: Library
    curator: Curator
    reruns: Reruns
    journal: Journal
    heads: Heads
    vault: Vault
    access: Access
    log: DecisionLog
    auditor: Auditor
    metrics: Metrics
    hold: Hold
    sandbox: SandboxChoice
    model: str
    close: Callable[[], Awaitable[None]]
    knowledge: KnowledgeStore | None = None
