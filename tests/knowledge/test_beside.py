"""Ingestion and indexing go on beside everything else: runs are answered, and searches see the last commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Literal

import pytest

from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.states import State
from devassist.knowledge.indexing import Dense
from devassist.ports.curation import Given, Incoming
from devassist.runtime.intake import Submission
from devassist.runtime.services import Services
from devassist.testing.hashing import HashingEmbedder
from devassist.vectors.exact import ExactIndex
from tests.knowledge.shelf import ADMIN, Shelf, shelf

RUNS = 40
FILES, ARTICLES = 400, 60
SLOWER = 10
"""How much longer a run may take beside the ingestion, which has one of the machine's cores for its parser."""


def regulation(number: int) -> bytes:
    articles = (f"第{n}条 第{number}号规定的第{n}项，由经办机构按月核定并公示。" for n in range(1, ARTICLES + 1))
    return (f"# 第{number}号规定\n\n" + "\n\n".join(articles) + "\n").encode()


async def answered(services: Services, number: int) -> float:
    """Seconds of one run of the policy agent."""
    began = perf_counter()
    asked = Submission(f"门诊慢特病的报销比例是多少？第{number}次", agent="policy")
    started = await services.service.start(ADMIN, await services.intake.prepare(ADMIN, "agent", asked))
    view = await services.service.wait(ADMIN, started.stream)
    assert view.state.state is State.FINAL_ANSWER
    return perf_counter() - began


async def test_runs_are_answered_while_much_is_ingested(tmp_path: Path) -> None:
    """Forty runs in a row are all answered before an ingestion of 24,000 clauses is through, each while more of it is
    committed, in the time that they take without it, give or take a generous factor."""
    services = await open_services(load({"data_dir": str(tmp_path), "embedder": "none"}, {}), drive=True)
    committed = 0

    async def ingest() -> None:
        nonlocal committed
        files = [Incoming(f"{number}.md", regulation(number)) for number in range(FILES)]
        async for outcome in services.curator.ingest(ADMIN, files, Given("policies")):
            assert outcome.outcome == "added"
            committed += 1

    try:
        await answered(services, 0)
        alone = [await answered(services, number) for number in range(RUNS)]
        ingesting = asyncio.create_task(ingest())
        try:
            async with asyncio.timeout(60):
                while not committed:
                    assert not ingesting.done(), ingesting.result()
                    await asyncio.sleep(0.01)
            first = committed
            beside = [await answered(services, RUNS + number) for number in range(RUNS)]
            assert not ingesting.done()
            assert committed > first
        finally:
            ingesting.cancel()
            await asyncio.wait([ingesting])
    finally:
        await services.close()
    assert median(beside) < SLOWER * median(alone)


class Gated(HashingEmbedder):
    """Passages wait until ``open`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting, self.open = asyncio.Event(), asyncio.Event()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        if kind == "passage":
            self.waiting.set()
            await self.open.wait()
        return await super().embed(texts, kind)


@pytest.fixture
def gate() -> Gated:
    return Gated()


@pytest.fixture
async def books(tmp_path: Path, gate: Gated) -> AsyncGenerator[Shelf]:
    async with shelf(tmp_path, gate, ExactIndex()) as found:
        yield found


def of(books: Shelf) -> Dense:
    assert books.dense is not None
    return books.dense


async def test_nothing_waits_for_the_index_to_catch_up(books: Shelf, gate: Gated) -> None:
    """While embedding hangs, what was committed is found, amended and deleted by the other arms at once, the lag is
    told, and what the vector arm had before it still gives."""
    gate.open.set()
    await books.put("a.md", "# 甲办法\n\n第一条 补助标准为一百元。\n", effective="2024-01-01")
    of(books).start()
    async with asyncio.timeout(30):
        while not of(books).state().ready:
            await asyncio.sleep(0.01)
    gate.open.clear()
    gate.waiting.clear()
    async with asyncio.timeout(30):
        put = await books.put("b.md", "# 乙办法\n\n第一条 窗口补贴为两百元。\n", effective="2024-01-01")
        await gate.waiting.wait()
        found = await books.ask("窗口补贴")
        assert put.doc_id in {hit.doc_id for hit in found.hits}
        assert found.index_lag > 0
        assert [hit.why[0].arm for hit in (await books.ask("补助标准为一百元", mode="dense")).hits] == ["dense"]
        await books.put("b.md", "# 乙办法\n\n第一条 窗口补贴为三百元。\n", effective="2025-01-01")
        assert await books.texts("窗口补贴", mode="lexical") == ["第一条 窗口补贴为三百元。"]
        await books.curator.delete(ADMIN, put.doc_id or "")
        assert await books.texts("窗口补贴", mode="lexical") == []
    gate.open.set()
    async with asyncio.timeout(30):
        while of(books).state().applied < await books.store.head():
            await asyncio.sleep(0.01)
    assert (await books.ask("补助标准")).index_lag == 0
