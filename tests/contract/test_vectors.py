"""Every vector index conforms to the port: exact search, Chroma in a directory, and a Chroma server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from devassist.ports.vectors import VectorIndex
from devassist.testing.vectors_suite import VectorsSuite
from devassist.vectors.chroma import ChromaIndex
from devassist.vectors.exact import ExactIndex
from tests.vectors.kit import EMBEDDER, chroma_server, emptied, require_chroma

# One process for all tests of an adapter: starting Chroma costs a second of work.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exact() -> AsyncIterator[ExactIndex]:
    index = ExactIndex()
    yield index
    await index.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory, in_ci: bool) -> AsyncIterator[ChromaIndex]:
    require_chroma(in_ci)
    index = ChromaIndex(tmp_path_factory.mktemp("chroma") / "vectors", EMBEDDER)
    yield index
    await index.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, in_ci: bool) -> Iterator[str]:
    require_chroma(in_ci)
    with chroma_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote(server: str) -> AsyncIterator[ChromaIndex]:
    index = ChromaIndex(server, EMBEDDER, space="contract")
    yield index
    await index.close()


class TestExact(VectorsSuite):
    @pytest_asyncio.fixture(loop_scope="module")
    async def index(self, exact: ExactIndex) -> VectorIndex:
        return await emptied(exact)

    @pytest.fixture
    def closed(self) -> VectorIndex:
        return ExactIndex()


class TestChromaInADirectory(VectorsSuite):
    exact = False

    @pytest_asyncio.fixture(loop_scope="module")
    async def index(self, embedded: ChromaIndex) -> VectorIndex:
        return await emptied(embedded)

    @pytest.fixture
    def closed(self, tmp_path: Path, in_ci: bool) -> VectorIndex:
        require_chroma(in_ci)
        return ChromaIndex(tmp_path, EMBEDDER)


class TestChromaServer(VectorsSuite):
    exact = False

    @pytest_asyncio.fixture(loop_scope="module")
    async def index(self, remote: ChromaIndex) -> VectorIndex:
        return await emptied(remote)

    @pytest.fixture
    def closed(self, server: str) -> VectorIndex:
        return ChromaIndex(server, EMBEDDER)
