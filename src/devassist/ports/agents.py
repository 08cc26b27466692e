"""Port to the declared agents."""

from __future__ import annotations

from typing import Protocol

from devassist.core.agents import AgentSpec


class AgentCatalog(Protocol):
    """Agents by name. Both are plain look-ups in what was loaded at start."""

    def get(self, name: str) -> AgentSpec:
        """Raises AgentNotFound."""
        ...

    def list(self) -> tuple[AgentSpec, ...]:
        """All agents, ordered by name."""
        ...
