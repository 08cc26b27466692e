"""Evidence over one journal: verify, replay, explain. Read-only."""

from __future__ import annotations

from typing import Any

from devassist.audit.explain import explain
from devassist.audit.replay import replay
from devassist.audit.verify import Verifier
from devassist.core.scope import Scope
from devassist.ports.audit import ReplayReport, Report
from devassist.ports.journal import Heads, Inspector, Journal
from devassist.ports.tools import ArgumentChecker
from devassist.ports.vault import Vault


class RecordAuditor:
    """Implements ports.audit.Auditor."""

    def __init__(
        self, journal: Journal, heads: Heads, inspector: Inspector, vault: Vault, checker: ArgumentChecker
    ) -> None:
        self._journal, self._vault, self._checker = journal, vault, checker
        self._verifier = Verifier(heads, inspector, vault)

    async def verify(self, scope: Scope, stream: bytes) -> Report:
        return await self._verifier.verify(scope, stream)

    async def replay(self, scope: Scope, stream: bytes) -> ReplayReport:
        return await replay(self._journal, scope, stream, self._checker)

    async def explain(self, scope: Scope, stream: bytes) -> dict[str, Any]:
        return await explain(self._journal, self._vault, scope, stream)
