"""The declared agents as files: one YAML file an agent (adapter of ``ports.agents``).

The packaged agents are always there; a file of the same name in the directory given takes a packaged one's place, and
other files there add agents. Everything is read and checked once, at start.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from devassist.core.agents import AgentSpec
from devassist.core.errors import AgentNotFound, ConfigInvalid
from devassist.prompts.agent_file import read_agent

PACKAGED = Path(__file__).with_name("agents")


class AgentFiles:
    """Raises ConfigInvalid, naming file and field, for a directory that is not there and for a file that is wrong."""

    def __init__(self, directory: Path | None = None) -> None:
        agents = _load(PACKAGED, "packaged")
        if directory is not None:
            agents |= _load(directory, "file")
        self._agents = dict(sorted(agents.items()))

    def get(self, name: str) -> AgentSpec:
        """Raises AgentNotFound, with the names that exist."""
        agent = self._agents.get(name)
        if agent is None:
            near = get_close_matches(name, self._agents, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self._agents)}"
            raise AgentNotFound(f"There is no agent {name[:64]!r}; {hint}")
        return agent

    def list(self) -> tuple[AgentSpec, ...]:
        return tuple(self._agents.values())


def _load(directory: Path, origin: str) -> dict[str, AgentSpec]:
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        raise ConfigInvalid(f"{directory}: not a readable directory of agents: {error.strerror}") from None
    for path in paths:
        if path.suffix == ".yml":
            raise ConfigInvalid(f"{path}: agents are read from .yaml files; rename it to {path.stem}.yaml")
    return {path.stem: read_agent(path, origin) for path in paths if path.suffix == ".yaml"}
