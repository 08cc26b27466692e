"""One sandbox of each kind for all tests: opening one costs as much as many programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devassist.sandbox.docker import DockerSandbox
from devassist.sandbox.wasi import WasiSandbox
from tests.sandbox import wasi_kit
from tests.sandbox.docker_kit import NARROW, opened, require_engine


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine(in_ci: bool) -> None:
    """A Docker engine that has the sandbox's image."""
    await require_engine(in_ci)


@pytest.fixture(scope="session")
def docker_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox") / "base"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def docker(engine: None, docker_home: Path) -> AsyncIterator[DockerSandbox]:
    async with opened(docker_home) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def docker_narrow(engine: None, docker_home: Path) -> AsyncIterator[DockerSandbox]:
    """Without a pool: every program takes the cold path."""
    async with opened(docker_home, pool_size=0, bounds=NARROW) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def wasi_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outlives the tests, so that the component is built once: where pytest keeps such things, or for this time."""
    if pytestconfig.pluginmanager.hasplugin("cacheprovider"):
        return pytestconfig.cache.mkdir("wasi")  # type: ignore[union-attr]
    return tmp_path_factory.mktemp("wasi")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def wasi(wasi_cache: Path) -> AsyncIterator[WasiSandbox]:
    async with wasi_kit.opened(wasi_cache) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def wasi_narrow(wasi_cache: Path) -> AsyncIterator[WasiSandbox]:
    async with wasi_kit.opened(wasi_cache, bounds=NARROW) as sandbox:
        yield sandbox
