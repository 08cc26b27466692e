"""The Docker backend conforms to the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devassist.sandbox.docker import DockerSandbox
from devassist.testing.sandbox_suite import SandboxSuite
from tests.sandbox.docker_kit import opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


class TestDocker(SandboxSuite):
    @pytest.fixture
    def sandbox(self, docker: DockerSandbox) -> DockerSandbox:
        return docker

    @pytest.fixture
    def narrow(self, docker_narrow: DockerSandbox) -> DockerSandbox:
        return docker_narrow

    @pytest_asyncio.fixture(loop_scope="session")
    async def closed(self, engine: None, docker_home: Path) -> AsyncIterator[DockerSandbox]:
        async with opened(docker_home, pool_size=1) as sandbox:
            yield sandbox
