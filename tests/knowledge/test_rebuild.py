"""The vector folder is a cache of the table: without it the service answers, and makes it again as it was."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from devassist.testing.hashing import HashingEmbedder
from devassist.vectors.chroma import ChromaIndex
from tests.knowledge.shelf import ADMIN, Shelf, shelf
from tests.vectors.kit import require_chroma

ASKED = ("补助标准由谁核定", "窗口三受理什么", "按月发放", "第7号办法")


@pytest.fixture(autouse=True)
def chromadb(in_ci: bool) -> None:
    require_chroma(in_ci)


@asynccontextmanager
async def service(place: Path, embedder: HashingEmbedder) -> AsyncGenerator[Shelf]:
    async with shelf(place, embedder, ChromaIndex(place / "vectors", embedder.name)) as books:
        yield books


async def fill(books: Shelf) -> None:
    """Twenty documents, of which one is amended, one deleted and one repealed."""
    for number in range(20):
        text = f"# 第{number}号办法\n\n第一条 补助标准由乡镇{number}核定。\n\n第二条 窗口{number}受理，按月发放。\n"
        await books.put(f"{number}.md", text, doc_id=f"doc-{number}", effective="2024-01-01")
    await books.put("3.md", "# 第3号办法\n\n第一条 补助停发。\n", doc_id="doc-3", effective="2025-01-01")
    await books.curator.delete(ADMIN, "doc-4")
    await books.curator.repeal(ADMIN, "doc-5", "2025-06-01")


async def seen(books: Shelf) -> Any:
    """What the vector arm holds, and what searches give with which ranks and scores."""
    assert books.dense is not None
    held = await books.dense._index.keys(books.dense.state().version)
    answers = [await books.ask(q, mode=mode, top_k=20) for q in ASKED for mode in ("dense", "hybrid", "lexical")]
    return held, [[(hit.clause_id, round(hit.score, 4)) for hit in answer.hits] for answer in answers]


async def test_a_deleted_vector_folder_is_made_again_as_it_was(tmp_path: Path) -> None:
    """Deleted while the service is stopped: the next start answers lexically and says why, then holds the same vectors
    and gives the same answers, without embedding a passage."""
    async with service(tmp_path, HashingEmbedder()) as books:
        await fill(books)
        assert books.dense is not None
        await books.dense.catch_up()
        before = await seen(books)
    assert any((tmp_path / "vectors").iterdir())
    shutil.rmtree(tmp_path / "vectors")
    embedder = HashingEmbedder()
    async with service(tmp_path, embedder) as books:
        assert books.dense is not None
        answered = await books.ask("补助标准由谁核定")
        assert answered.hits
        assert {why.arm for hit in answered.hits for why in hit.why} == {"lexical"}
        assert answered.arms[-1].left_out == "not_ready"
        await books.dense.catch_up()
        assert await seen(books) == before
        assert (await books.ask("补助标准由谁核定")).index_lag == 0
    assert embedder.calls["passage"] == 0


async def test_a_rebuild_equals_what_it_replaces(tmp_path: Path) -> None:
    """A new version holds and gives the same, embeds nothing, and is the only one that is left."""
    embedder = HashingEmbedder()
    async with service(tmp_path, embedder) as books:
        await fill(books)
        assert books.dense is not None
        await books.dense.catch_up()
        before, made = await seen(books), embedder.calls["passage"]
        old = books.dense.state().version
        await books.dense.rebuild()
        assert await seen(books) == before
        assert embedder.calls["passage"] == made
        assert list(await books.dense._index.versions()) == [books.dense.state().version] != [old]
