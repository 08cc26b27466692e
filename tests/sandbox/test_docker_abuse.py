"""No abuse case gets through on the Docker backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from devassist.sandbox.abuse import Verdict, check
from devassist.sandbox.docker import DockerSandbox
from tests.sandbox.docker_kit import settled

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_no_abuse_gets_through(docker: DockerSandbox, docker_home: Path) -> None:
    """All 55 are held, for all that they try exists here; afterwards it works, and only the pool is left."""
    verdicts: list[Verdict] = [verdict async for verdict in check(docker)]
    assert [verdict.abuse.number for verdict in verdicts] == list(range(1, 56))
    assert [(one.abuse.name, one.verdict, one.detail) for one in verdicts if one.verdict != "held"] == []
    assert await settled(docker, docker_home)
